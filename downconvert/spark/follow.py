"""Follows growing log directories: up to which offsets there is something to read, and how much.

What was read does not depend on which files it was in. Segments are rolled, deleted and cleaned,
and partitions come and go, while they are followed. Logs are truncated, too: an offset goes with
the leader epoch of what was read last (places.py), since the same offset in another epoch is
another record.

Not here: Spark's side of it (stream.py), reading (rows.py, batches.py)."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from downconvert.storage import Log
from downconvert.storage.names import TopicPartition
from downconvert.storage.open_files import OpenFiles
from records.batch import NONE

from .errors import DataLossError
from .isolation import Committed, committed
from .options import Options
from .places import Place, Places, changed_from, epoch_of
from .planner import starting_offset, stretches
from .replicas import best_of, look
from .splits import Split
from .trees import find_directories, read_partition
from .watermarks import HighWatermarks

Offsets: TypeAlias = dict[TopicPartition, int]

# A stream of ten thousand partitions would otherwise keep a file of each open.
OPEN_SEGMENTS_MAX: Final = 64


class Following:
    """The partitions that the options ask for, as they are at the latest `refresh`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._open_files = OpenFiles(OPEN_SEGMENTS_MAX)
        self._logs: dict[str, Log] = {}  # by directory
        self._epochs: dict[str, int] = {}  # of their last batches
        self._current: dict[TopicPartition, Log] = {}
        self._turn = 0  # rotates which partition is read first where a limit allows not all

    def close(self) -> None:
        for log in self._logs.values():
            log.close()
        self._logs.clear()

    def refresh(self) -> Offsets:
        """Looks for partitions; returns up to which offset each can be read now."""
        logs: dict[str, Log] = {}
        found: dict[TopicPartition, list[str]] = {}
        for name, directory in find_directories(self._options.paths, self._options.cluster_id):
            if not self._options.takes(*name):
                continue
            try:
                logs[directory] = self._opened(directory)
            except FileNotFoundError:  # deleted since it was found
                continue
            found.setdefault(name, []).append(directory)
        for directory in self._logs.keys() - logs.keys():
            self._logs[directory].close()
            del self._epochs[directory]
        self._logs = logs
        self._current = {}
        watermarks = HighWatermarks() if self._options.stop_at_high_watermark else None
        ends: Offsets = {}
        for name, directories in found.items():
            try:
                log = self._chosen(name, directories)
                ends[name] = self._end(name, log, watermarks)
            except FileNotFoundError:
                continue
            self._current[name] = log
        return ends

    def _opened(self, directory: str) -> Log:
        """The log in a directory, brought up to date.

        A log that was truncated and written anew since may have no batch where it ended before.
        Then it is opened again."""
        log = self._logs.get(directory)
        if log is not None:
            epoch = epoch_of(log, log.end_offset)
            if epoch != NONE or self._epochs[directory] == NONE:
                self._epochs[directory] = epoch
                return log
            log.close()
        log = Log.open(Path(directory), open_files=self._open_files)
        self._epochs[directory] = epoch_of(log, log.end_offset)
        return log

    def _chosen(self, name: TopicPartition, directories: Sequence[str]) -> Log:
        """The log that is read of a partition."""
        if len(directories) == 1:
            return self._logs[directories[0]]
        copies = []
        for directory in directories:
            log = self._logs[directory]
            start = log.start_offset  # brings it up to date
            copies.append(look(directory, start, list(log.segments)))
        return self._logs[best_of(name, copies).directory]

    def _end(self, name: TopicPartition, log: Log, watermarks: HighWatermarks | None) -> int:
        end = log.last_stable_offset if self._options.committed else log.end_offset
        if watermarks is None:
            return end
        return max(log.start_offset, min(end, watermarks.of(name, str(log.path))))

    def initial(self) -> Places:
        """Where the options say to begin."""
        ends = self.refresh()
        return self.placed(
            {
                name: starting_offset(self._current[name], name, end, self._options)
                for name, end in ends.items()
            }
        )

    def placed(self, offsets: Offsets, before: Places | None = None) -> Places:
        """Offsets with the leader epochs of the records before them. `before`: epochs of records
        that may have been deleted or compacted since."""
        places: Places = {}
        for name, offset in offsets.items():
            log = self._current.get(name)
            place = Place(offset, NONE if log is None else epoch_of(log, offset))
            known = (before or {}).get(name)
            is_known = place.epoch == NONE and known is not None and known.offset == offset
            places[name] = known if known is not None and is_known else place
        return places

    def latest(
        self,
        start: Places,
        ends: Offsets,
        *,
        offsets_max: int | None = None,
        bytes_max: int | None = None,
    ) -> Places:
        """Up to where to read from `start`: to `ends`, or less where there is a limit.

        A first batch that is larger than the limit is read all the same."""
        for name, place in start.items():
            if name not in self._current and self._options.takes(*name):
                self._lost(f"{name} is gone; it was read up to offset {place.offset}")
        starts = {name: self._start(name, start) for name in ends}
        ready = [name for name in sorted(ends) if starts[name] < ends[name]]
        reached = {name: place.offset for name, place in start.items()} | starts
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
        return self.placed(reached, start)

    def splits(self, start: Places, end: Places) -> Iterator[Split]:
        """What is to be read for the offsets from `start` up to `end`."""
        self.refresh()
        for name, place in sorted(end.items()):
            log, after = self._current.get(name), place.offset
            first = self._start(name, start)
            if first >= after:
                continue
            if log is None:
                self._lost(f"{name} is gone; it was read up to offset {first}")
                continue
            if log.end_offset < after:
                self._lost(f"{name} ends at {log.end_offset}, and was seen to go up to {after}")
            elif changed_from(log, place) is not None:
                self._lost(f"{name} was truncated before offset {after} after that was seen")
            transactions: Committed | None = None
            if self._options.committed:
                transactions = committed(str(log.path))
            found = read_partition(name, str(log.path))
            yield from stretches(found, first, after, transactions)

    # --- one partition

    def _start(self, name: TopicPartition, start: Places) -> int:
        """Where to read on: a partition that was not there before is read from its beginning, one
        that was truncated from where it differs from what was read."""
        log, place = self._current.get(name), start.get(name)
        if log is None:
            return 0 if place is None else place.offset
        first = log.start_offset
        if place is None:
            return first
        offset, end = place.offset, log.end_offset
        if offset > end:
            self._lost(
                f"{name} ends at {end}, and was read up to {offset}: it was truncated, or "
                f"{log.path} is a copy that is not up to date"
            )
            return end
        if offset < first:
            self._lost(f"{name} begins at {first}; offsets from {offset} on were deleted unread")
            return first
        changed = changed_from(log, place)
        if changed is not None:
            self._lost(
                f"{name} was truncated at {changed} after it was read up to {offset} in leader "
                f"epoch {place.epoch}, and has been written anew from there"
            )
            return max(first, changed)
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
        """Where `bytes_max` bytes end, shared out evenly; what a partition does not need is left to
        the others."""
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
        """The offset after as many batches as are in `bytes_max` bytes, at least one; their
        bytes."""
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
