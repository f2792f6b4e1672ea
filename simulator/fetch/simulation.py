"""A whole simulation: plans, warms up, then measures all modes in turns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from simulator.children import SimulationError
from simulator.modes import Mode
from simulator.rounds import Rounds, turns

from .options import Options
from .plan import Ending, Plan
from .results import Result, Run
from .runs import plan_in_child, run

_WARM_UP_FETCHES: Final = 4

Step = Callable[[str, int, int], None]  # the current activity, its progress, and the total


def simulate(
    name: str,
    paths: Sequence[Path],
    options: Options,
    step: Step = lambda _what, _done, _total: None,
) -> Result:
    """Runs every mode over the files. SimulationError, in one line, if nothing can be run."""
    size = sum(path.stat().st_size for path in paths)
    plans: dict[Mode, Plan] = {}
    endings: dict[int, Ending] = {}
    for mode in options.modes:
        if mode == "eager" and "lazy" in plans and not plans["lazy"].unlike_eager:
            plans[mode] = replace(plans["lazy"], different=0, broken=0)  # a new plan would be equal
            continue
        progress = _of(step, f"{mode}: plan", size)
        plans[mode] = plan_in_child(mode, paths, options, endings, progress)
        endings |= plans[mode].endings  # all modes end where the first one has to
        if not plans[mode].fetches:
            raise SimulationError(_nothing(paths, endings))
    modes = _rounds(paths, options, plans, step)
    damage = [f"{paths[file]}: {ending.why}" for file, ending in sorted(endings.items())]
    return Result(name, len(paths), size, options, modes, damage)


def _rounds(
    paths: Sequence[Path], options: Options, plans: Mapping[Mode, Plan], step: Step
) -> dict[Mode, Rounds[Run]]:
    if options.rounds > 1:
        one = replace(options, consumers=1, slow=0)
        for mode, plan in plans.items():
            step("warm-up", 0, 1)
            run(mode, paths, one, plan.beginning(_WARM_UP_FETCHES), lambda _: None)
    modes = {mode: Rounds[Run]() for mode in plans}
    for number in range(options.rounds):
        for mode in turns(list(plans), number):
            what = f"{mode}, round {number + 1} of {options.rounds}"
            progress = _of(step, what, len(plans[mode].fetches) * options.consumers)
            modes[mode].each.append(run(mode, paths, options, plans[mode], progress))
    return modes


def _of(step: Step, what: str, total: int) -> Callable[[int], None]:
    """A step function with the progress as its only argument."""
    return lambda done: step(what, done, total)


def _nothing(paths: Sequence[Path], endings: Mapping[int, Ending]) -> str:
    for file, ending in endings.items():
        return f"{paths[file]} has nothing to send: {ending.why}"
    return f"{paths[0]} holds no batches" if len(paths) == 1 else "the files hold no batches"
