"""The logs that a stream follows, in mounted directories, stores, tars and tiered storage.

The logs are listed once for each micro-batch. Three things are then read: the index of a log's last
segment, the indexes of other new segments, and the part of the log after the last index entry. A
store is asked for new and changed files only, a mounted directory for all of them each time.

Not here: how much of the logs is read (follow.py), listing (trees.py)."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from downconvert.spark.logs.boundaries import Boundaries, header_at
from downconvert.spark.logs.checkpoints import leader_epochs
from downconvert.spark.logs.completeness import (
    is_damaged_after,
    is_last,
    last_readable,
    whole_split,
)
from downconvert.spark.logs.isolation import Committed, committed_of
from downconvert.spark.logs.places import Place, where_changed
from downconvert.spark.logs.replicas import id_text_of
from downconvert.spark.logs.segment_files import PartitionLog, SegmentFile, are_mounted
from downconvert.spark.logs.splits import Split
from downconvert.spark.logs.staging import staged
from downconvert.spark.logs.stored_headers import (
    LastBatch,
    files_with,
    header_of,
    headers_of,
    is_last_offset_known,
    last_batch,
    records_near,
)
from downconvert.spark.logs.stored_trees import forget
from downconvert.spark.logs.trees import find_partitions, is_elsewhere
from downconvert.spark.logs.watermarks import HighWatermarks
from downconvert.spark.options.options import Options
from downconvert.spark.plan.gaps import Gap, end_of, first_gap, missing_from
from downconvert.spark.plan.planner import start_of, stretches
from downconvert.spark.stores.attempts import attempted
from downconvert.spark.stores.blobs import Blob
from downconvert.spark.stores.object_cache import ObjectCache
from downconvert.spark.stores.parallel import in_parallel
from downconvert.spark.stores.range_records import Blocks, Direct, RangeRecords
from downconvert.storage.checkpoints.checkpoint import EpochEntry
from downconvert.storage.names import OFFSET_MAX, PARTITION_METADATA, TopicPartition
from downconvert.storage.segments.rising import counted
from records import CorruptRecordsError
from records.batch import NONE

Made = TypeVar("Made")


class Tail(NamedTuple):
    """The end of a log: the offset after its last complete batch, and that batch's leader epoch.

    is_damaged: the batch there is damaged, and may have a wrong number of offsets."""

    end_offset: int
    epoch: int = NONE
    is_damaged: bool = False


class FollowedLog:
    """A log as it was at the last listing."""

    def __init__(self, log: PartitionLog, options: Options, cache: ObjectCache) -> None:
        """Reads the end of the log. OSError, StoreError: it cannot be read."""
        self._log = log
        self._options = options
        self._cache = cache
        self._tail = self._look()

    @property
    def directory(self) -> str:
        """The log's name in messages."""
        return self._log.directory

    @property
    def name(self) -> TopicPartition:
        return self._log.topic_partition

    @property
    def topic_id(self) -> str | None:
        """The id of its topic, as text; None: not known."""
        if self._log.topic_id is not None:
            return self._log.topic_id
        if self._log.is_mounted:
            return id_text_of(self._log.directory)
        sides = tuple(side for side in self._log.sides if side[0] == PARTITION_METADATA)
        return self._cache.of(("topic", sides), partial(self._read_topic_id, sides))

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        return self._tail.end_offset

    def readable_until(self, watermarks: HighWatermarks | None) -> int:
        """The offset up to which the log can be read now. If watermarks are given, it is not after
        the high watermark."""
        limit = OFFSET_MAX if watermarks is None else watermarks.of_log(self._log)
        end = min(self.end_offset, limit)
        if self._options.committed:
            end = min(end, self._committed(limit).end)
        return max(self.start_offset, end)

    def starting(self, end: int) -> int:
        """The offset at which a stream begins, if it first reads up to `end`."""
        return start_of(self._log, end, self._options)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch of the record before an offset; -1: not known."""
        if offset == self._tail.end_offset and self._tail.epoch != NONE:
            return self._tail.epoch
        for file in files_with(self._log, offset - 1):
            make = partial(header_of, file, offset - 1)
            header = self._once([file], _key(file, offset), make)
            if header is not None:
                return header.leader_epoch
        return NONE

    def changed_from(self, place: Place) -> int | None:
        """The first offset at which the log differs from the records read up to a place; None: it
        does not differ."""
        return where_changed(
            place,
            lambda: self.epoch_of(place.offset),
            self._noted_epochs,
            lambda: headers_of(self._log),
        )

    def advanced(self, start: int, end: int, bytes_max: int) -> tuple[int, int]:
        """The offset after as many batches as fit in `bytes_max` bytes, but at least one batch; and
        their approximate size in bytes. The offset is at most `end`."""
        offset, taken = start, 0
        for file in self._log.segments:
            if offset >= end or taken >= max(1, bytes_max):
                break
            if file.next_offset > offset and file.size:
                left = bytes_max - taken
                after, size = cut(file, max(offset, file.base_offset), left)
                if taken and size > left:
                    break
                offset, taken = max(offset, min(after, end)), taken + size
                if after < file.next_offset:  # the rest of this segment comes before the next one
                    break
        return (offset if taken else end), taken

    def is_damaged_at_end(self) -> bool:
        """Whether damage follows `end_offset`, and not the end of the log."""
        last = self._log.segments[-1:]
        if not last or not is_last(last[0]):
            return False
        if self._tail.is_damaged:
            return True
        make = partial(is_damaged_after, last[0], self.end_offset)
        return self._once(last, ("damaged", last[0]), make)

    def gap(self, start: int, end: int, since: int) -> Gap | None:
        """The first gap from `start` up to `end` next to a segment that is newer than `since`, in
        nanoseconds since the epoch."""

        def end_once(file: SegmentFile) -> int:
            return self._once([file], ("end", file), partial(end_of, file))

        missing = partial(missing_from, self._log)
        return first_gap(self._log.segments, start, end, since, end_once, missing)

    def splits(self, start: int, end: int) -> Iterator[Split]:
        """The splits with the offsets from `start` up to `end`."""
        transactions = self._committed() if self._options.committed else None
        yield from stretches(self._log, start, end, transactions)

    def _look(self) -> Tail:
        """Reads the last batch, unless it was read before."""
        segments = self._log.segments
        end = max(self.start_offset, segments[-1].base_offset if segments else 0)
        if segments and segments[-1].next_offset != OFFSET_MAX:  # another copy continues there
            return Tail(max(end, segments[-1].next_offset))
        for file in reversed(segments):
            tail = self._end_of(file) if file.size else None
            if tail is not None:
                return Tail(end) if tail.end_offset < end else tail
        return Tail(end)

    def _end_of(self, file: SegmentFile) -> Tail | None:
        """The end of the batches of a segment; of the last one also behind damage and in other
        copies. None: there are none."""
        header, is_damaged = self._last_batch(file)
        after = file.base_offset if header is None else header.last_offset + 1
        is_uncertain = False
        if is_last(file) and header is not None and not is_damaged:
            is_known = partial(is_last_offset_known, file, header)
            is_uncertain = not self._once([file], ("last offset", file), is_known)
            after = header.base_offset if is_uncertain else after
        if is_last(file) and (is_damaged or is_uncertain):
            whole = whole_split(self._log, file)
            make = partial(last_readable, whole, after)
            behind = self._once([file, *whole.copies], ("behind", whole), make)
            if behind is not None:
                return Tail(behind.end, behind.epoch, is_uncertain)
        if is_uncertain:
            return Tail(after, NONE, is_uncertain)
        if header is None:
            return None
        if file.blobs:
            self._cache.put(_key(file, after), header)
        return Tail(after, header.leader_epoch)

    def _last_batch(self, file: SegmentFile) -> LastBatch:
        """A mounted log is read from its last known batch on."""
        if file.blobs:
            return self._cache.of(("last batch", file), partial(last_batch, file))
        key = "last batch", file.path, file.inode
        found = last_batch(file, self._cache.of(key, lambda: None))
        self._cache.put(key, found.header)
        return found

    def _committed(self, limit: int = OFFSET_MAX) -> Committed:
        log, limit = self._log, limit if limit < self.end_offset else OFFSET_MAX
        # The end of a log identifies its batches, but not those of further copies. If these are
        # mounted, the result is valid for this listing only.
        others = [file for other in log.others for file in other.segments]
        listing = None if all(file.blobs for file in others) else self
        key = "committed", log, self._tail, limit, listing
        return self._cache.of(key, partial(committed_of, log, limit))

    def _once(self, files: Sequence[SegmentFile], key: Hashable, make: Callable[[], Made]) -> Made:
        """The cached result of `make` for these files, if they have not changed. Files of this
        machine are read again: preallocated files keep their size, and the clock's resolution may
        hide a change."""
        return self._cache.of(key, make) if all(file.blobs for file in files) else make()

    def _read_topic_id(self, sides: tuple[tuple[str, Blob], ...]) -> str | None:
        if not sides:
            return None
        with staged(replace(self._log, segments=(), sides=sides), ()) as directory:
            return id_text_of(str(directory))

    def _noted_epochs(self) -> list[EpochEntry]:
        with staged(replace(self._log, segments=()), ()) as directory:
            return leader_epochs(directory)


def _key(file: SegmentFile, offset: int) -> Hashable:
    """The key for the header before an offset. It does not depend on the next segment."""
    return "before", replace(file, next_offset=0, is_clipped=False), offset


class FollowedLogs:
    """The logs below some paths. `costs`: whether a refresh needs requests to a store, or reads
    archives."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.costs = any(map(is_elsewhere, options.paths))
        self._cache = ObjectCache()
        # directories of this machine, with the brokers' checkpoints
        self._brokers: set[str] = set()
        self._were_found = False

    def refresh(self) -> dict[TopicPartition, tuple[FollowedLog, int]]:
        """Lists the logs again. FileNotFoundError: there is no log below the paths, and never was.
        StoreError."""
        return attempted(lambda is_final: self._opened(self._listed(is_final=is_final)))

    def _listed(self, *, is_final: bool) -> list[PartitionLog]:
        """The logs. FileNotFoundError: an object was removed during the listing, or there is no log
        below the paths. The latter is accepted at the final attempt, if there were logs before."""
        options = self._options
        self._cache.next_round()
        try:
            found = find_partitions(
                options.stored_paths,
                options.cluster_id,
                options.data_keys,
                self._cache,
                lambda name: options.takes(*name),
                options.is_compacted,
            )
        except FileNotFoundError:
            if not self._were_found or not is_final:
                raise
            found = []
        self._were_found = True
        is_packed = any(file.blobs for log in found for file in log.segments)
        self.costs = is_packed or any(map(is_elsewhere, options.paths))
        self._forget(found)
        return found

    def _opened(
        self, found: Sequence[PartitionLog]
    ) -> dict[TopicPartition, tuple[FollowedLog, int]]:
        options = self._options
        watermarks = HighWatermarks() if options.stop_at_high_watermark else None
        make = partial(FollowedLog, options=options, cache=self._cache)
        logs = in_parallel(make, found, is_mounted=are_mounted(found))
        return {log.name: (log, log.readable_until(watermarks)) for log in logs}

    def _forget(self, found: list[PartitionLog]) -> None:
        """Removes the copies of brokers' checkpoints that have changed."""
        brokers = {log.broker for log in found if log.broker}
        for broker in self._brokers - brokers:
            forget(broker)
        self._brokers = brokers


def cut(file: SegmentFile, offset: int, bytes_max: int) -> tuple[int, int]:
    """The offset after as many batches from `offset` on as fit in `bytes_max` bytes, but at least
    one batch; and their approximate size in bytes. A segment in a store is cut only at index
    entries. Without an index, the result is the whole segment."""
    if not file.blobs or file.is_gzipped:
        return _cut_by_headers(file, offset, bytes_max)
    with closing(Blocks(file.blob_of_log, file.size)) as blocks:
        look = RangeRecords(Direct(blocks), 0, file.size)
        hints = Boundaries(file, look)
        first = hints.before_position(hints.before_offset(offset))
        if not hints.exist or file.size - first <= bytes_max:
            return file.next_offset, file.size - first
        position: int | None = hints.before_position(first + bytes_max)
        while position is not None and position < file.size:
            header = header_at(look, position)  # None: damage at 0, where no entry leads
            if header is not None and header.base_offset > offset:
                return min(header.base_offset, file.next_offset), position - first
            position = hints.from_position(position + 1)
        return file.next_offset, file.size - first


def _cut_by_headers(file: SegmentFile, offset: int, bytes_max: int) -> tuple[int, int]:
    taken = 0
    with records_near(file, offset) as records:
        try:
            for header in counted(records):
                if header.last_offset < offset:
                    continue
                if taken and taken + header.size > bytes_max:
                    return max(header.base_offset, offset + 1), taken
                taken += header.size
        except CorruptRecordsError:  # the task that reads the rest of the segment reports it
            taken = file.size
    return file.next_offset, taken
