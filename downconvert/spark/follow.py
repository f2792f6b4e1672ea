"""Follows growing log directories: up to which offsets there is something to read, and how much.

Offsets are Kafka's: of each partition the next one to read, `{"topic": {"0": 123}}`, so that what
was read does not depend on which files it was in. Segments are rolled, deleted and cleaned, and
partitions come and go, while they are followed.

Not here: Spark's side of it (stream.py), reading (rows.py, batches.py)."""

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from downconvert.storage import Log
from downconvert.storage.names import TopicPartition
from downconvert.storage.open_files import OpenFiles

from .errors import DataLossError
from .isolation import Committed, committed
from .options import Options
from .planner import starting_offset, stretches
from .splits import Split
from .trees import find_directories, read_partition

Offsets: TypeAlias = dict[TopicPartition, int]
Json: TypeAlias = dict[str, dict[str, int]]

# A stream of ten thousand partitions would otherwise keep a file of each open.
OPEN_SEGMENTS_MAX: Final = 64


def to_json(offsets: Mapping[TopicPartition, int]) -> Json:
    """As Spark keeps offsets, and as its Kafka source writes them."""
    found: Json = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


class Following:
    """The partitions that the options ask for, as they are from one look to the next."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._open_files = OpenFiles(OPEN_SEGMENTS_MAX)
        self._logs: dict[str, Log] = {}  # by directory
        self._current: dict[TopicPartition, Log] = {}
        self._turn = 0  # whose turn it is to be read first where not all can be

    def close(self) -> None:
        for log in self._logs.values():
            log.close()
        self._logs.clear()

    def refresh(self) -> Offsets:
        """Looks for partitions; gives how far each can be read now."""
        logs: dict[str, Log] = {}
        best: dict[TopicPartition, tuple[int, Log]] = {}
        for name, directory in find_directories(self._options.paths):
            if not self._options.takes(*name):
                continue
            try:
                log = self._logs.get(directory)
                if log is None:
                    log = Log.open(Path(directory), open_files=self._open_files)
                end = log.last_stable_offset if self._options.committed else log.end_offset
            except FileNotFoundError:  # deleted since it was found
                continue
            logs[directory] = log
            if name not in best or best[name][0] < end:
                best[name] = end, log
        for directory in self._logs.keys() - logs.keys():
            self._logs[directory].close()
        self._logs = logs
        self._current = {name: log for name, (_, log) in best.items()}
        return {name: end for name, (end, _) in best.items()}

    def initial(self) -> Offsets:
        """Where the options say to begin."""
        ends = self.refresh()
        return {
            name: starting_offset(self._current[name], name, end, self._options)
            for name, end in ends.items()
        }

    def latest(
        self,
        start: Offsets,
        ends: Offsets,
        *,
        offsets_max: int | None = None,
        bytes_max: int | None = None,
    ) -> Offsets:
        """Up to where to read from `start`: to `ends`, or less where there is a limit.

        What begins at a batch that is larger than the limit gets on all the same."""
        starts = {name: self._start(name, start) for name in ends}
        ready = [name for name in sorted(ends) if starts[name] < ends[name]]
        reached = {**start, **starts}
        if offsets_max is not None:
            sizes = {name: ends[name] - starts[name] for name in ready}
            shares = shared_out(offsets_max, sizes, self._turn)
            reached |= {name: starts[name] + share for name, share in shares.items()}
        elif bytes_max is not None:
            self._turn_to_next(ready)
            reached |= self._within(bytes_max, ready, starts, ends)
        else:
            reached |= {name: ends[name] for name in ready}
        self._turn += 1
        return reached

    def splits(self, start: Offsets, end: Offsets) -> Iterator[Split]:
        """What is to be read for the offsets from `start` up to `end`."""
        self.refresh()
        for name, behind in sorted(end.items()):
            log = self._current.get(name)
            first = self._start(name, start)
            if first >= behind:
                continue
            if log is None:
                self._lost(f"{name} is gone; it was read up to offset {first}")
                continue
            if log.end_offset < behind:
                self._lost(f"{name} ends at {log.end_offset}, and was seen to go up to {behind}")
            transactions: Committed | None = None
            if self._options.committed:
                transactions = committed(str(log.path))
            found = read_partition(name, str(log.path))
            yield from stretches(found, first, behind, self._options, transactions)

    # --- one partition

    def _start(self, name: TopicPartition, start: Offsets) -> int:
        """Where to read on: a partition that was not there before is read from its beginning."""
        log = self._current.get(name)
        if log is None:
            return start.get(name, 0)
        first = log.start_offset
        offset = start.get(name, first)
        if offset < first:
            self._lost(f"{name} begins at {first}; offsets from {offset} on were deleted unread")
            return first
        return offset

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(what)
        warnings.warn(what, RuntimeWarning, stacklevel=2)

    # --- limits

    def _turn_to_next(self, ready: list[TopicPartition]) -> None:
        if ready:
            turn = self._turn % len(ready)
            ready[:] = ready[turn:] + ready[:turn]

    def _within(
        self, bytes_max: int, ready: list[TopicPartition], starts: Offsets, ends: Offsets
    ) -> Offsets:
        """How far so many bytes go: shares for all, and what one leaves is the others'."""
        reached: Offsets = {}
        left = bytes_max
        for index, name in enumerate(ready):
            if left <= 0 and reached:
                break
            share = max(1, left // (len(ready) - index))
            reached[name], taken = self._advanced(name, starts[name], ends[name], share)
            left -= taken
        return reached

    def _advanced(
        self, name: TopicPartition, start: int, end: int, bytes_max: int
    ) -> tuple[int, int]:
        """The offset behind the batches that `bytes_max` bytes hold, at least one; their bytes."""
        offset, taken = start, 0
        while offset < end and taken < max(1, bytes_max):
            before = offset
            records = self._current[name].read(offset, bytes_max - taken, up_to=end)
            for header in records.batches():
                if taken and taken + header.size > bytes_max:
                    return offset, taken
                offset, taken = min(header.last_offset + 1, end), taken + header.size
            if offset == before:  # nothing is left there
                return end, taken
        return offset, taken


def shared_out(
    total: int, sizes: Mapping[TopicPartition, int], turn: int = 0
) -> dict[TopicPartition, int]:
    """Shares of `total` in proportion to sizes. Each partition has its turn to be rounded up."""
    whole = sum(sizes.values())
    if whole <= total:
        return dict(sizes)
    shares = {name: total * size // whole for name, size in sizes.items()}
    left = total - sum(shares.values())
    names = sorted(sizes)
    for index in range(len(names)):
        name = names[(turn + index) % len(names)]
        if left and shares[name] < sizes[name]:
            shares[name] += 1
            left -= 1
    return shares
