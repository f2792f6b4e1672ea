"""The logs that a stream follows in directories of this machine.

Logs stay open between two refreshes, but their files do not.

Not here: how much of the logs is read (follow.py)."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from downconvert.spark.logs.attempts import attempted
from downconvert.spark.logs.compacted import CleanerPoints
from downconvert.spark.logs.completeness import is_damaged_after
from downconvert.spark.logs.isolation import committed_of, is_sound
from downconvert.spark.logs.places import Place, changed_from, epoch_of
from downconvert.spark.logs.replicas import id_text_of
from downconvert.spark.logs.splits import Split
from downconvert.spark.logs.stored_trees import Item
from downconvert.spark.logs.trees import find_directories, of_copies, read_partition
from downconvert.spark.logs.watermarks import HighWatermarks
from downconvert.spark.options.options import Options
from downconvert.spark.plan.gaps import Gap, end_of, first_gap, missing_from
from downconvert.spark.plan.planner import cleaned_of, start_of, stretches
from downconvert.spark.stores.object_cache import ObjectCache
from downconvert.storage import Log
from downconvert.storage.disk.open_files import OpenFiles
from downconvert.storage.names import OFFSET_MAX, TopicPartition
from records import CorruptRecordsError
from records.batch import NONE

from .followed_stored import StoredLog, StoredLogs

# Otherwise a stream of ten thousand partitions would keep a file of each open.
OPEN_SEGMENTS_MAX: Final = 64


class MountedLog:
    """A log in a directory, as it is now. Its methods are those of `StoredLog`."""

    def __init__(self, name: TopicPartition, log: Log, options: Options) -> None:
        self._name = name
        self._log = log
        self._options = options

    @property
    def directory(self) -> str:
        return str(self._log.path)

    @property
    def topic_id(self) -> str | None:
        return id_text_of(self.directory)

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        return max(self._log.start_offset, self._log.end_offset)

    def starting(self, end: int) -> int:
        return start_of(read_partition(self._name, self.directory), end, self._options)

    def epoch_of(self, offset: int) -> int:
        return epoch_of(self._log, offset)

    def changed_from(self, place: Place) -> int | None:
        return changed_from(self._log, place)

    def advanced(self, start: int, end: int, bytes_max: int) -> tuple[int, int]:
        offset, taken = start, 0
        try:
            while offset < end and taken < max(1, bytes_max):
                before = offset
                records = self._log.read(offset, bytes_max - taken, up_to=end)
                for header in records.batches():
                    if taken and taken + header.size > bytes_max:
                        return offset, taken
                    offset = max(offset, min(header.last_offset + 1, end))
                    taken += header.size
                if offset == before:  # there is no further batch
                    return end, taken
        except CorruptRecordsError:
            # The task that reads this damage reports it. The rest of the segment is one piece.
            if not taken:
                bases = (segment.base_offset for segment in self._log.segments)
                offset = min(end, next((base for base in bases if base > start), end))
        return offset, taken

    def is_damaged_at_end(self) -> bool:
        segments = read_partition(self._name, self.directory).segments
        return bool(segments) and is_damaged_after(segments[-1], self.end_offset)

    def gap(self, start: int, end: int, since: int) -> Gap | None:
        log = read_partition(self._name, self.directory)
        cleaned = cleaned_of(log, self._options, CleanerPoints())
        missing = partial(missing_from, log, cleaned)
        return first_gap(log.segments, start, end, since, end_of, missing)

    def splits(self, start: int, end: int) -> Iterator[Split]:
        log = read_partition(self._name, self.directory)
        cleaned = cleaned_of(log, self._options, CleanerPoints())
        transactions = committed_of(log, cleaned) if self._options.committed else None
        yield from stretches(log, start, end, transactions, cleaned)


FollowedLog: TypeAlias = MountedLog | StoredLog


class MountedLogs:
    """The logs below some directories. Once tars, gzipped segments or tiered storage are found
    there, all logs are followed as in a store (StoredLogs)."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._stored: StoredLogs | None = None
        self._open_files = OpenFiles(OPEN_SEGMENTS_MAX)
        self._logs: dict[str, Log] = {}  # by directory
        self._epochs: dict[str, int] = {}  # of the last batches
        self._topic_ids: dict[str, str | None] = {}
        # Whether a log had followed all transactions when its last segment appeared, and the base
        # offset of that segment.
        self._were_sound: dict[str, bool] = {}
        self._last_bases: dict[str, int | None] = {}

    @property
    def costs(self) -> bool:
        """Whether a new look needs requests to a store."""
        return self._stored is not None

    def close(self) -> None:
        for log in self._logs.values():
            log.close()
        self._logs.clear()

    def refresh(self) -> Mapping[TopicPartition, tuple[FollowedLog, int]]:
        """Each wanted log, and the offset up to which it can be read now."""
        if self._stored is not None:
            return self._stored.refresh()
        logs: dict[str, Log] = {}
        found: dict[TopicPartition, list[str]] = {}
        searched, packed = self._directories()
        for name, directory in searched:
            if not self._options.takes(*name):
                continue
            try:
                logs[directory] = self._opened(directory)
            except FileNotFoundError:  # deleted since it was found
                continue
            found.setdefault(name, []).append(directory)
        for directory in self._logs.keys() - logs.keys():
            self._logs[directory].close()
            del self._epochs[directory], self._were_sound[directory], self._last_bases[directory]
        self._logs = logs
        if packed:
            self.close()
            self._stored = StoredLogs(self._options)
            return self._stored.refresh()
        watermarks = HighWatermarks() if self._options.stop_at_high_watermark else None
        current: dict[TopicPartition, tuple[FollowedLog, int]] = {}
        for name, directories in found.items():
            try:
                current[name] = self._current(name, directories, watermarks)
            except FileNotFoundError:
                continue
        return current

    def _directories(self) -> tuple[list[tuple[TopicPartition, str]], list[Item]]:
        """The partitions' directories, and the packed files. Searches again if a directory was
        deleted or renamed during the search. OSError: there is nothing at a path."""

        def search(_: bool) -> tuple[list[tuple[TopicPartition, str]], list[Item]]:
            packed = list[Item]()
            found = find_directories(self._options.paths, self._options.cluster_id, packed)
            return list(found), packed

        return attempted(search)

    def _current(
        self, name: TopicPartition, directories: Sequence[str], watermarks: HighWatermarks | None
    ) -> tuple[FollowedLog, int]:
        """The log of a partition, from one directory or several copies, and the offset up to which
        it can be read now."""
        if len(directories) == 1:
            log = self._logs[directories[0]]
            return MountedLog(name, log, self._options), self._end(name, log, watermarks)
        joined = StoredLog(of_copies(name, directories), self._options, ObjectCache())
        return joined, joined.readable_until(watermarks)

    def _opened(self, directory: str) -> Log:
        """The log in a directory, brought up to date.

        After a truncation, other batches may have been written, and the old end may be inside one
        of them. The log is then opened again."""
        log, topic_id = self._logs.get(directory), id_text_of(directory)
        if log is not None and self._topic_ids[directory] != topic_id:  # the topic was created anew
            self._logs.pop(directory).close()
            log = None
        self._topic_ids[directory] = topic_id
        if log is not None:
            epoch = epoch_of(log, log.end_offset)
            if epoch != NONE or self._epochs[directory] == NONE:
                self._epochs[directory] = epoch
                if self._last_bases[directory] != _last_base(log):  # damage may be before it
                    self._look_for_damage(directory, log)
                return log
            log.close()
        log = Log.open(Path(directory), open_files=self._open_files)
        self._epochs[directory] = epoch_of(log, log.end_offset)
        self._look_for_damage(directory, log)
        return log

    def _look_for_damage(self, directory: str, log: Log) -> None:
        self._last_bases[directory] = _last_base(log)
        self._were_sound[directory] = not self._options.committed or is_sound(log)

    def _end(self, name: TopicPartition, log: Log, watermarks: HighWatermarks | None) -> int:
        limit = OFFSET_MAX if watermarks is None else watermarks.of(name, str(log.path))
        end = min(log.end_offset, limit)
        is_decided = (  # a log does not follow transactions after damage
            log.last_stable_offset >= log.end_offset == end
            and log.damage is None
            and self._were_sound[str(log.path)]
        )
        if self._options.committed and not is_decided:
            there = read_partition(name, str(log.path))
            cleaned = cleaned_of(there, self._options, CleanerPoints())
            end = min(end, committed_of(there, cleaned, limit).end)
        return max(log.start_offset, end)


def _last_base(log: Log) -> int | None:
    """The base offset of the last segment."""
    return log.segments[-1].base_offset if log.segments else None
