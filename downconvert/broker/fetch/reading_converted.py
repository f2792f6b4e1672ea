"""Reads a partition for a client of an older format.

A range may convert to nothing: markers, and batches without records at or after the fetch offset
because of compaction. An old client that gets nothing fetches the same offset for ever. So a
conversion reads on, across batches and segments, until there is a record. It never sends a record
below the fetch offset, because some clients would pass it to the application.

A response's size is planned in turns of some milliseconds, however large a batch is. A range of
more than 64 KiB begins in a turn of its own. So when a thousand clients reconnect, other requests
are handled between any two of their ranges.

Not here: the policy (conversions.py), chunks shared with other clients (shared_range.py), the order
of decisions (fetch_reader.py)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from downconvert import ConversionPolicy, LazyDownConvertRecords
from downconvert.broker.partition import Partition
from downconvert.conversion.plan import SMALL_SIZE_MAX
from downconvert.conversion.skip import skip
from downconvert.protocol.joined_send import JoinedSend
from downconvert.serving.fetch_assembly import (
    end_offset_of,
    hard_size,
    has_record_from,
    may_join_next,
)
from downconvert.serving.planning_slots import PlanningSlots, Wake
from downconvert.storage import StorageError
from records import BatchHeader, FileRecords, RecordsError
from records.files.sends import Send
from records.formats import V2
from records.units import MiB

from .contribution import (
    Contribution,
    FetchPause,
    Reading,
    ReadLimits,
    Turns,
    nothing,
)
from .conversion_cache import ConversionCache
from .planning import planned
from .shared_range import CHUNK_SIZE, Asker, Ends, SharedRange, take

# Bytes of a log, without anything for the client, that are skipped in one turn. A turn takes some
# milliseconds. Then other requests have theirs.
SKIP_SIZE: Final = 16 * MiB


class Reader(NamedTuple):
    """The client of a read (the number of its connection, and the callback that resumes it after a
    wait), and shared state (the slots for planning, and the cache)."""

    slots: PlanningSlots
    client: int = 0
    wake: Wake = lambda: None
    cache: ConversionCache | None = None


def read_converted(
    partition: Partition,
    offset: int,
    up_to: int,
    limits: ReadLimits,
    *,
    magic: int,
    policy: ConversionPolicy,
    reader: Reader,
) -> Reading:
    """Records converted to messages of format `magic`, none of them below `offset`.

    No lock of the partition is held while anything is measured. Raises RecordsError if the next
    batch is damaged or refused."""
    return _Conversion(partition, offset, up_to, limits, magic, policy, reader).read()


@dataclass(slots=True)
class _Conversion:
    partition: Partition
    offset: int
    up_to: int
    limits: ReadLimits
    magic: int
    policy: ConversionPolicy
    reader: Reader

    def read(self) -> Reading:
        partition, limits, policy, offset = self.partition, self.limits, self.policy, self.offset
        position, up_to, skipped = offset, self.up_to, 0
        cache: ConversionCache | None = None  # set when it is needed
        has_paused = False
        try:
            while True:
                records = partition.read(position, limits.max_bytes, up_to)
                if not limits.fit(records):
                    # There are no records, or they do not fit into this response.
                    return nothing(position if records.size else max(position, up_to))
                if records.size > SMALL_SIZE_MAX and not has_paused:
                    has_paused = True
                    yield FetchPause.TURN
                if not policy.trim_compressed and (after := _after_what_is_below(records, offset)):
                    position = after
                    continue
                is_tail = records.size < limits.max_bytes
                # The cache is not for small fetches in the middle of a log, which share no chunk
                # boundary.
                if cache is None and (is_tail or records.size >= CHUNK_SIZE):
                    cache = self._cache()
                if cache is not None and (is_tail or records.size >= CHUNK_SIZE):
                    shared = take(cache, records, self._asker, is_tail=is_tail)
                    if shared.ends is Ends.IN_PROGRESS:  # wait, to send it in this response
                        shared.close()
                        yield FetchPause.WAKE
                        continue
                    if shared.size:
                        return (yield from self._after(shared, records))
                    if shared.ends is Ends.LATER:
                        yield FetchPause.TURN
                        continue
                converted = yield from self._planned(records, offset)
                if converted.size:
                    return (yield from self._alone(converted, records))
                found = skip(partition.read(position, SKIP_SIZE, up_to), self.magic, offset, policy)
                if found.next_offset is None:  # it has no whole entry
                    return nothing(up_to)
                # If offsets in the log decrease, the last skipped batch may end below the position.
                first = next(records.batches(), None)
                passed = position if first is None else first.last_offset + 1
                position = max(passed, found.next_offset)
                skipped += found.size
                if skipped >= SKIP_SIZE:
                    skipped = 0
                    yield FetchPause.TURN
        finally:
            if cache is not None:
                cache.leave(self.reader.client)

    def _cache(self) -> ConversionCache | None:
        """The cache, if it takes conversions by this policy."""
        cache = self.reader.cache
        return cache if cache is not None and cache.keeps(self.policy) else None

    @property
    def _asker(self) -> Asker:
        reader, room = self.reader, self.limits.room
        return Asker(reader.client, self.magic, self.offset, self.policy, room, reader.wake)

    def _planned(self, records: FileRecords, offset: int) -> Turns[LazyDownConvertRecords]:
        """The records from `offset` on, to be converted while they are sent."""
        reader = self.reader
        begin = partial(LazyDownConvertRecords.in_steps, records, self.magic, offset, self.policy)
        return planned(begin, reader.client, reader.slots, reader.wake)

    def _alone(self, converted: LazyDownConvertRecords, records: FileRecords) -> Reading:
        """Reads a range that is not shared, and the following ranges."""
        first = None if converted.is_held else _plain_first(records, self.offset)
        size_max = hard_size(converted.size, self.limits.room, converted.head, first)
        sends: list[Send] = [converted.to_send(size_max)]
        size = records.size
        if size_max is None and converted.is_whole:
            size += yield from self._join(records, sends)
        return self._contribution(sends, size)

    def _after(self, shared: SharedRange, records: FileRecords) -> Reading:
        """Reads a range that begins with shared chunks. Uncached records follow, and are converted
        while they are sent. If these are damaged, the next fetch begins at the damage and reports
        it."""
        sends: list[Send] = [*shared.sends]
        size, room = shared.source_size, self.limits.room
        size_max = hard_size(shared.size, room, lambda: shared.head)
        if size_max is not None:
            shared.cut(size_max)
            return self._contribution(sends, size)
        if shared.ends is Ends.ALL:
            size = records.size
            size += yield from self._join(records, sends, shared.end_offset)
            return self._contribution(sends, size)
        rest = records.slice(size, records.size - size)
        try:
            if shared.ends is Ends.UNCACHED:
                converted = yield from self._planned(rest, self.offset)
                left = room - shared.size
                if converted.size and left > 0:
                    sends.append(converted.to_send(min(left, converted.size)))
                return self._contribution(sends, records.size)
            following = next(rest.batches(), None)
        except (RecordsError, OSError):
            following = None
        return self._contribution(sends, size, following and following.base_offset)

    def _join(
        self,
        records: FileRecords,
        sends: list[Send],
        end_of: Callable[[FileRecords], int | None] = end_offset_of,
    ) -> Turns[int]:
        """Adds records of the next segments, as far as they fit. Returns their bytes in the log.
        `end_of`: the offset after the last batch of `records`.

        If these are damaged, the next fetch begins at the damage and reports it."""
        size = used = records.size
        size_max, room = self.limits.max_bytes, self.limits.room
        try:
            while may_join_next(used, size_max - used):
                end, end_of = end_of(records), end_offset_of
                if end is None or end >= self.up_to:
                    break
                records = self.partition.read(end, size_max - used, self.up_to)
                if not 0 < records.size <= size_max - used:
                    break
                converted = yield from self._planned(records, end)
                used += records.size
                left = room - sum(send.size for send in sends)
                if min(left, converted.size) > 0:
                    sends.append(converted.to_send(min(left, converted.size)))
                if not converted.is_whole or left < converted.size:
                    break
        except (RecordsError, StorageError, OSError):
            pass
        return used - size

    def _contribution(
        self, sends: list[Send], source_size: int, scanned_end_offset: int | None = None
    ) -> Contribution:
        records = sends[0] if len(sends) == 1 else JoinedSend(sends)
        return Contribution(
            records, source_size, self.up_to if scanned_end_offset is None else scanned_end_offset
        )


def _plain_first(records: FileRecords, offset: int) -> BatchHeader | None:
    """The first batch, if it is uncompressed and the response begins with one of its records."""
    header = next(records.batches(), None)
    if header is None or header.magic < V2 or header.codec:
        return None
    if header.is_transactional or header.is_control:
        return None
    return header if header.base_offset >= offset and header.records_count else None


def _after_what_is_below(records: FileRecords, offset: int) -> int | None:
    """The offset after the first batch, if none of its records is at or after `offset`.

    Kafka would send such a batch, if it is compressed and not trimmed. The client would drop all of
    it, and fetch the same offset again."""
    header = next(records.batches(), None)
    if header is None or header.magic < V2 or header.base_offset >= offset:
        return None
    return None if has_record_from(records, header, offset) else header.last_offset + 1
