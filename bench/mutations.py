"""Does any damaged segment cause a foreign error, a hang, an over-read, or a difference between the
kernels?

A million small segments have flipped bits, other sizes and counts, cuts and splices, repaired or
stale checksums, or damage inside valid compressed data. Each is passed through the kernel in odd
windows, read, converted and sent. Both kernels must have the same outcome.

    python -m bench.mutations --count 1000000 --seed 1

A failure ends with the command that repeats it.

Not here: the segments (mutants.py), the trials (trials.py)."""

import os
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from time import monotonic
from traceback import format_exc
from typing import Any, Final

import click

from records import backend
from tests.backends import NAMES, running_on
from tests.records.tracing import trace

from .damage.mutants import Mutant, Mutants
from .damage.trials import TRIALS, what_is_inside

BLOCK_SIZE: Final = 500  # mutants on one kernel before the other one has its turn
HANGS_AFTER: Final = 60  # seconds; a thousandth of one is usual
GUARDS: Final = {"reference": 0x00, "native": 0xFF}  # bytes around the readable ones


class FoundError(Exception):
    """A mutant that had a forbidden effect."""

    def __init__(self, mutant: Mutant, found: str) -> None:
        super().__init__(found)
        self.mutant = mutant


class Watchdog(threading.Thread):
    """Ends the process if one mutant takes too long, and prints its number."""

    def __init__(self, seed: int) -> None:
        super().__init__(daemon=True)
        self._seed = seed
        self._stopped = threading.Event()
        self.at: tuple[str, int] = ("", -1)  # the current kernel and mutant

    def run(self) -> None:
        seen, since = self.at, monotonic()
        while not self._stopped.wait(1):
            if self.at != seen:
                seen, since = self.at, monotonic()
            elif monotonic() - since > HANGS_AFTER:
                kernel, number = seen
                click.echo(f"mutant {number} hangs on the {kernel} kernel", err=True)
                click.echo(reproduce(self._seed, number, kernel), err=True)
                os._exit(1)

    def stop(self) -> None:
        self._stopped.set()


def reproduce(seed: int, number: int, kernels: str) -> str:
    return f"reproduce: python -m bench.mutations --seed {seed} --only {number} --backend {kernels}"


def tried(mutant: Mutant, kernel: str) -> tuple[Any, ...]:
    """All outcomes of a mutant on the current kernel."""
    guard = GUARDS[kernel]
    try:
        steps = trace(backend.Transcoder, mutant.job, mutant.data, guard=guard)
        return (steps, *(trial(mutant, guard) for trial in TRIALS))
    except Exception as error:
        raise FoundError(mutant, f"on the {kernel} kernel:\n{format_exc()}") from error


def reasons(outcomes: tuple[Any, ...]) -> set[str]:
    """The error messages for the damage of one mutant, from any trial."""
    steps, *others = outcomes
    errors = [steps.damage, *(error for error, *_ in others)]
    return {error[0] for error in errors if error is not None}


def alike_inside(
    mutant: Mutant, kernels: Sequence[str], outcomes: Sequence[tuple[Any, ...]]
) -> bool:
    """Whether kernels differ only in the bytes of their compressors.

    If they convert to the same bytes, they must also send the same bytes."""
    read = [(*each[:2], *each[4:]) for each in outcomes]  # steps, records, columns
    converted = [each[2:3] for each in outcomes]
    if read.count(read[0]) < len(kernels):
        return False
    if converted.count(converted[0]) == len(kernels):
        return False
    found = []
    for kernel in kernels:
        try:
            with running_on(kernel):
                found.append(what_is_inside(mutant, GUARDS[kernel]))
        except Exception as error:
            raise FoundError(mutant, f"on the {kernel} kernel:\n{format_exc()}") from error
    return all(each == found[0] for each in found)


def block_tried(
    mutants: Sequence[Mutant], kernels: Sequence[str], watchdog: Watchdog
) -> list[tuple[Any, ...]]:
    """The outcomes of some mutants on each kernel in turn, which must be equal."""
    outcomes = []
    for kernel in kernels:
        with running_on(kernel):
            found = []
            for mutant in mutants:
                watchdog.at = (kernel, mutant.number)
                found.append(tried(mutant, kernel))
            outcomes.append(found)
    for mutant, *each in zip(mutants, *outcomes, strict=True):
        if any(outcome != each[0] for outcome in each) and not alike_inside(mutant, kernels, each):
            report = "\n".join(
                f"{kernel}: {outcome}" for kernel, outcome in zip(kernels, each, strict=True)
            )
            raise FoundError(mutant, f"the kernels differ:\n{report}")
    return outcomes[0]


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--count", default=1_000_000, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=1, show_default=True)
@click.option("--first", default=0, show_default=True, help="The number of the first mutant.")
@click.option("--only", type=int, help="This mutant alone.")
@click.option(
    "--backend",
    "kernels",
    default="both" if len(NAMES) == 2 else NAMES[0],
    show_default=True,
    type=click.Choice(("both", *NAMES)),
)
def main(count: int, seed: int, first: int, only: int | None, kernels: str) -> None:
    if only is not None:
        first, count = only, 1
    click.echo(f"mutants {first} to {first + count - 1} of seed {seed} on kernel: {kernels}")
    names = NAMES if kernels == "both" else [kernels]
    mutants = Mutants(seed)
    watchdog = Watchdog(seed)
    watchdog.start()
    endings: Counter[str] = Counter()
    start = monotonic()
    try:
        with click.progressbar(length=count, file=sys.stderr, width=0) as bar:
            for block in range(first, first + count, BLOCK_SIZE):
                numbers = range(block, min(block + BLOCK_SIZE, first + count))
                found = block_tried([mutants[number] for number in numbers], names, watchdog)
                endings.update(reason for outcomes in found for reason in reasons(outcomes))
                bar.update(len(numbers))
    except FoundError as error:
        click.echo(f"{error.mutant}\n{error}", err=True)
        click.echo(reproduce(seed, error.mutant.number, kernels), err=True)
        sys.exit(1)
    finally:
        watchdog.stop()
    seconds = monotonic() - start
    click.echo(
        f"{count} mutants, {count / seconds:.0f} a second: only RecordsErrors, no hang, no read or"
        f" write outside of a window{', kernels alike' if len(names) == 2 else ''}"
    )
    click.echo(f"Damage came to light in {len(endings)} ways, in so many mutants each:")
    for reason, times in endings.most_common():
        click.echo(f"{times:9}  {reason}")


if __name__ == "__main__":
    main()
