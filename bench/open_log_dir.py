"""What does opening a log cost, as it grows to ten thousand segments?

Directories of 100, 1,000 and 10,000 small segments are opened, and an offset is found in the middle
of each. Time and memory are given per segment. They should not change while the log grows. Memory
is what Python has allocated when the offset has been found.

    python -m bench.open_log_dir --segments 100 --segments 10000"""

import json
import tempfile
import tracemalloc
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

import click

from downconvert.storage import Log
from downconvert.storage.names import Kind, file_name
from records.batches.builder import build
from records.formats import V2, TimestampType
from records.record import Record

from .measuring.rounds import one_core

SEGMENTS: Final = (100, 1000, 10_000)
RECORDS: Final = 10  # of a segment
ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class Opened:
    """The cost of a log with this many segments."""

    segments: int
    open_microseconds_each: float
    find_microseconds: float  # the first offset, in the middle
    end_microseconds: float  # of another look at the log's end
    bytes_each: float


def write_segments(directory: Path, count: int) -> Path:
    """A log as a broker leaves it. Each segment has indexes, which are empty if it is small."""
    path = directory / f"topic-{count}"
    path.mkdir()
    for number in range(count):
        first = number * RECORDS
        records = [
            Record(at, at, TimestampType.CREATE, None, b"value")
            for at in range(first, first + RECORDS)
        ]
        (path / file_name(first, Kind.LOG)).write_bytes(build(records, magic=V2))
        (path / file_name(first, Kind.OFFSET_INDEX)).touch()
        (path / file_name(first, Kind.TIME_INDEX)).touch()
    return path


def measure(path: Path, segments: int) -> Opened:
    middle = segments // 2 * RECORDS + 3
    opening, finding, ending = [], [], []
    for _ in range(ROUNDS):
        started = perf_counter()
        log = Log.open(path)
        opened = perf_counter()
        found = next(log.read(middle, 1).batches())
        done = perf_counter()
        assert found.base_offset <= middle <= found.last_offset
        assert log.end_offset == segments * RECORDS
        ended = perf_counter()
        log.close()
        opening.append(opened - started)
        finding.append(done - opened)
        ending.append(ended - done)
    tracemalloc.start()
    log = Log.open(path)
    log.read(middle, 1)
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    log.close()
    return Opened(
        segments,
        1e6 * min(opening) / segments,
        1e6 * min(finding),
        1e6 * min(ending),
        allocated / segments,
    )


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--segments", "counts", multiple=True, type=int, default=SEGMENTS, show_default=True)
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="On the disk to measure.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="All figures.")
def main(counts: Sequence[int], directory: Path | None, json_path: Path | None) -> None:
    found = []
    with tempfile.TemporaryDirectory(dir=directory) as place, one_core():
        for count in counts:
            each = measure(write_segments(Path(place), count), count)
            found.append(each)
            click.echo(
                f"{count:6,} segments: {each.open_microseconds_each:.1f} us and "
                f"{each.bytes_each:.0f} bytes a segment; an offset found in "
                f"{each.find_microseconds:.0f} us, the end in {each.end_microseconds:.0f} us"
            )
    if json_path is not None:
        json_path.write_text(json.dumps([asdict(each) for each in found]))


if __name__ == "__main__":
    main()
