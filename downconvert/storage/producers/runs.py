"""Groups neighbouring batches of a log, to read them together.

Batches of one record are common, and each read has to prepare buffers.

Not here: finding aborted transactions (transactions.py)."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import takewhile
from typing import Final, NamedTuple, TypeAlias

from records import BatchHeader, FileRecords, RecordsError
from records.units import MiB

from .transactions import AbortedRanges

Batches: TypeAlias = Iterable[tuple[FileRecords, BatchHeader]]

# Without a limit, the headers of all batches would be read before the first record comes.
RUN_SIZE_MAX: Final = MiB  # bytes


class Run(NamedTuple):
    """Neighbouring batches in one file. source: the range to which header positions are
    relative."""

    source: FileRecords
    first: BatchHeader
    size: int  # bytes

    @property
    def records(self) -> FileRecords:
        return self.source.slice(self.first.position, self.size)


def runs(batches: Batches, kind_of: Callable[[BatchHeader], Hashable]) -> Iterator[Run]:
    """Runs of neighbouring batches of one kind. Batches whose kind is None are left out.

    Damage is raised after the good batches before it."""
    run: Run | None = None
    run_kind: Hashable = None
    damage: RecordsError | None = None
    found = iter(batches)
    while True:
        try:
            source, header = next(found)
        except StopIteration:
            break
        except RecordsError as error:
            damage = error
            break
        kind = kind_of(header)
        if kind is None:
            continue
        if (
            run is not None
            and run.source is source
            and header.position == run.first.position + run.size
            and run.size < RUN_SIZE_MAX
            and kind == run_kind
        ):
            run = run._replace(size=run.size + header.size)
            continue
        if run is not None:
            yield run
        run, run_kind = Run(source, header, header.size), kind
    if run is not None:
        yield run
    if damage is not None:
        raise damage


def runs_of(batches: Batches, end: int, aborted: AbortedRanges) -> Iterator[FileRecords]:
    """The ranges below offset `end` with records for consumers: without control batches and aborted
    transactions."""

    def kind_of(header: BatchHeader) -> Hashable:
        return None if header.is_control or aborted.cover(header) else True

    below = takewhile(lambda found: found[1].base_offset < end, batches)
    return (run.records for run in runs(below, kind_of))
