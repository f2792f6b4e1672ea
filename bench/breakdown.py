"""Where does the time of a chunk go: reading, the kernel, or Python?

The same bytes are processed four times, each time with one step more: read; passed to the kernel;
converted; written to a channel that accepts everything, fetch by fetch. The cost of a step is the
difference between two of these times. The best of several rounds counts.

    python -m bench.breakdown

Not here: Kafka, and checking the output (conversion.py)."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Final

import click

from downconvert import ConversionPolicy
from downconvert.conversion.converter import Converter
from downconvert.conversion.request import Request
from records import FileRecords
from records.backend import Transcoder
from records.kernel import Outcome
from records.units import MiB

from .contenders.ours import Ours
from .measuring.rounds import fetches, records_in
from .measuring.segments import CACHE, SHAPES, segment

TO_MAGIC: Final = 1
FETCH_SIZE: Final = MiB
ALL_CODECS: Final = 0b11111
POLICY: Final = ConversionPolicy(size="estimate")


def read(log: FileRecords) -> None:
    """Reads two chunks at a time, as the conversion does."""
    window = memoryview(bytearray(2 * POLICY.chunk_size))
    position = 0
    while position < log.size:
        position += log.read_into(window, position)


def transcode(log: FileRecords) -> None:
    """Reads the same, and runs the kernel on each chunk."""
    transcoder = Transcoder(TO_MAGIC, 0, ALL_CODECS, False)
    chunk = POLICY.chunk_size
    source, target = bytearray(2 * chunk), bytearray(2 * chunk)
    window = memoryview(source)
    position, outcome = 0, -1
    while position < log.size and outcome != Outcome.END:
        filled = log.read_into(window, position)
        start = 0
        while start < filled:
            consumed, _, outcome = transcoder.transcode(
                source,
                start,
                min(start + chunk, filled),
                log.size - position,
                target,
                0,
                len(target),
            )
            start += consumed
            position += consumed
            if not consumed:
                break


def convert(log: FileRecords) -> None:
    """Converts, without a channel."""
    converter = Converter(log, Request(TO_MAGIC, 0, POLICY))
    for _ in converter.messages(log.size):
        pass
    converter.release()


STEPS: Final[dict[str, Callable[[FileRecords], None]]] = {
    "reading": read,
    "the kernel": transcode,
    "the conversion": convert,
}


def best(rounds: int, step: Callable[[], int]) -> float:
    """The fewest nanoseconds for a record. A step returns the number of its records."""
    taken = []
    for _ in range(rounds):
        started = process_time()
        records = step()
        taken.append((process_time() - started) / records)
    return min(taken) * 1e9


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--shape", default="none-100", type=click.Choice(["none-100", "none-1000"]))
@click.option("--rounds", default=10, show_default=True)
@click.option("--smoke", is_flag=True, help="A small size: that it runs.")
@click.option("--segments", "directory", default=CACHE, type=click.Path(path_type=Path))
def main(shape: str, rounds: int, smoke: bool, directory: Path) -> None:
    path = segment(SHAPES[shape], size=FETCH_SIZE if smoke else None, directory=directory)
    rounds = 2 if smoke else rounds
    before = 0.0
    with FileRecords.open(path) as log:
        count = records_in(path)

        def gone_through(step: Callable[[FileRecords], None]) -> int:
            step(log)
            return count

        for name, step in STEPS.items():
            taken = best(rounds, partial(gone_through, step))
            click.echo(f"{name:34} {taken - before:7.1f} ns a record")
            before = taken
    ours = Ours(TO_MAGIC, path, fetches(path, FETCH_SIZE), POLICY, in_turns=True)
    taken = best(rounds, lambda: ours.round().records)
    click.echo(f"{'fetches: plan, write_to, /dev/null':34} {taken - before:7.1f} ns a record")
    click.echo(f"{'together':34} {taken:7.1f} ns a record, in chunks of {POLICY.chunk_size} B")


if __name__ == "__main__":
    main()
