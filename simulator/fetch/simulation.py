"""A simulation from its files to its result: plan, then one measured run a mode.

Not here: the steps (plan.py, runs.py), what the numbers say (results.py)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from simulator.children import SimulationError

from .options import Mode, Options
from .plan import Ending, Plan
from .results import ModeResult, Result
from .runs import plan_in_child, run

Step = Callable[[str, int, int], None]  # what is being done, how far it is, of how much


def simulate(
    name: str,
    paths: Sequence[Path],
    options: Options,
    step: Step = lambda _what, _done, _total: None,
) -> Result:
    """Runs every mode over the files. SimulationError, in one line, where nothing can be run."""
    size = sum(path.stat().st_size for path in paths)
    plans: dict[Mode, Plan] = {}
    endings: dict[int, Ending] = {}
    for mode in options.modes:
        if mode == "eager" and "lazy" in plans and not plans["lazy"].cut:
            plans[mode] = replace(plans["lazy"], different=0, broken=0)  # it would be the same
            continue
        told = _of(step, f"{mode}: plan", size)
        plans[mode] = plan_in_child(mode, paths, options, endings, told)
        endings |= plans[mode].endings  # what one mode cannot send, the others shall not either
        if not plans[mode].fetches:
            raise SimulationError(_nothing(paths, endings))
    results: dict[Mode, ModeResult] = {}
    for mode, plan in plans.items():
        told = _of(step, mode, len(plan.fetches) * options.consumers)
        measured = run(mode, paths, options, plan, told)
        results[mode] = ModeResult(plan, measured)
    damage = [f"{paths[file]}: {ending.why}" for file, ending in sorted(endings.items())]
    return Result(name, len(paths), size, options, results, damage)


def _of(step: Step, what: str, total: int) -> Callable[[int], None]:
    """A step that is told only how far it is."""
    return lambda done: step(what, done, total)


def _nothing(paths: Sequence[Path], endings: Mapping[int, Ending]) -> str:
    for file, ending in endings.items():
        return f"{paths[file]} has nothing to send: {ending.why}"
    return f"{paths[0]} holds no batches" if len(paths) == 1 else "the files hold no batches"
