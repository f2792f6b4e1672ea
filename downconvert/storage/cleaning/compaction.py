"""Decides by Kafka's rules which records of a compacted log stay: the last one of each key.

* A record without a key is removed, and so is every record of an aborted transaction.
* A record without a value (a tombstone) stays until its batch's delete horizon, which is set when
  it is first cleaned (KAFKA-8522). v0 and v1 have no horizon. Their tombstones stay until the log
  was cleaned up to them and the segment has not changed for `delete.retention.ms` since.
* A transaction marker stays while data of that transaction is left, and then until its horizon.
* The last batch of an active producer stays, even without records, because the broker needs its
  sequence number. If the producer has no other batch, its transaction marker stays.

Offsets stay the same. Batches that lose no record are copied. The others keep their base and last
offset, codec and producer."""

from collections.abc import Iterable
from dataclasses import dataclass, fields

from downconvert.storage.producers.producer_state import ProducerState, read_marker
from downconvert.storage.producers.transactions import AbortedRanges
from records import BatchHeader, Records, TimestampType
from records.batches.builder import build, build_empty
from records.batches.reader import Record, read_batch
from records.formats import V2

from .offset_map import OffsetMap


@dataclass(slots=True)
class CompactionCount:
    """Batches, records and bytes before and after."""

    batches_in: int = 0
    batches_out: int = 0
    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def add(self, other: "CompactionCount") -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class LastOfProducers:
    """Finds the last batch of each active producer."""

    __slots__ = ("_epochs", "_offsets")

    def __init__(self, producers: Iterable[ProducerState]) -> None:
        self._offsets: dict[int, int] = {}
        self._epochs: dict[int, int] = {}  # of producers without data
        for state in producers:
            if state.last_offset >= 0:
                self._offsets[state.producer_id] = state.last_offset
            else:
                self._epochs[state.producer_id] = state.epoch

    def has(self, header: BatchHeader) -> bool:
        producer_id = header.producer_id
        if producer_id in self._offsets:
            return self._offsets[producer_id] == header.last_offset
        return header.is_control and self._epochs.get(producer_id) == header.producer_epoch


class Cleaner:
    """Cleans the batches of one log, from its beginning on, in order."""

    def __init__(
        self,
        latest: OffsetMap,
        aborted: AbortedRanges,
        last_of_producers: LastOfProducers,
        *,
        now: int,
        delete_retention_ms: int,
        end: int,
    ) -> None:
        """`latest` has the keys below the offset `end`; later records stay. `now` is in
        milliseconds. Tombstones that are cleaned for the first time get a delete horizon
        `delete_retention_ms` later."""
        self.count = CompactionCount()
        self._latest = latest
        self._aborted = aborted
        self._last_of_producers = last_of_producers
        self._now = now
        self._horizon = now + delete_retention_ms
        self._end = end
        self._with_data: set[int] = set()  # producers of transactions that have data in the log

    def clean(
        self, records: Records, header: BatchHeader, *, keeps_tombstones: bool = True
    ) -> bytes | None:
        """A batch of `records` after cleaning. None if it is removed.

        `keeps_tombstones`: whether tombstones of v0 and v1 stay. CorruptRecordsError: records
        cannot be read."""
        self.count.batches_in += 1
        self.count.bytes_in += header.size
        if header.is_control:
            data = self._control(records, header)
        else:
            data = self._data(records, header, keeps_tombstones)
        if data is not None:
            self.count.batches_out += 1
            self.count.bytes_out += len(data)
        return data

    def _data(self, records: Records, header: BatchHeader, keeps_tombstones: bool) -> bytes | None:
        if header.is_transactional:
            self._with_data.add(header.producer_id)
        is_aborted = self._aborted.cover(header)
        if header.base_offset >= self._end and not is_aborted:
            return self._copied(records, header)
        keeps = keeps_tombstones
        if header.magic == V2:
            keeps = not header.has_delete_horizon or self._now < header.base_timestamp
        count, kept = 0, []
        for record in read_batch(records, header):
            count += 1
            if not is_aborted and self._stays(record, keeps):
                kept.append(record)
        self.count.records_in += count
        self.count.records_out += len(kept)
        if not kept:
            return self._emptied(header) if self._last_of_producers.has(header) else None
        horizon = header.base_timestamp if header.has_delete_horizon else None
        if header.magic == V2 and horizon is None and any(r.value is None for r in kept):
            horizon = self._horizon
        elif len(kept) == count:
            return _bytes_of(records, header)
        return _rebuilt(kept, header, horizon)

    def _copied(self, records: Records, header: BatchHeader) -> bytes:
        self.count.records_in += header.records_count or 0
        self.count.records_out += header.records_count or 0
        return _bytes_of(records, header)

    def _stays(self, record: Record, keeps_tombstones: bool) -> bool:
        if record.offset >= self._end:
            return True
        if record.key is None or record.offset < self._latest.get(record.key):
            return False
        return record.value is not None or keeps_tombstones

    def _emptied(self, header: BatchHeader) -> bytes | None:
        if header.magic < V2:
            return None
        return build_empty(
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            max_timestamp=header.max_timestamp,
            timestamp_type=header.timestamp_type,
            leader_epoch=header.leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
            control=header.is_control,
        )

    def _control(self, records: Records, header: BatchHeader) -> bytes | None:
        if read_marker(records, header) is None:
            if not header.records_count and not self._last_of_producers.has(header):
                return None  # emptied while its producer was active
            return _bytes_of(records, header)
        has_data = header.producer_id in self._with_data
        self._with_data.discard(header.producer_id)
        if has_data:
            return _bytes_of(records, header)
        if not header.has_delete_horizon:
            return _rebuilt(list(read_batch(records, header)), header, self._horizon)
        if self._now < header.base_timestamp:
            return _bytes_of(records, header)
        return self._emptied(header) if self._last_of_producers.has(header) else None


def note_latest(
    latest: OffsetMap, records: Records, header: BatchHeader, aborted: AbortedRanges, start: int
) -> bool:
    """Adds the keys of a batch from the offset `start` on, except those of aborted transactions.

    False if the map is full and lacks some of them."""
    if header.is_control or aborted.cover(header) or header.last_offset < start:
        return True
    for record in read_batch(records, header):
        if record.key is None or record.offset < start:
            continue
        if not latest.put(record.key, record.offset):
            return False
    return True


def _rebuilt(kept: list[Record], header: BatchHeader, horizon: int | None) -> bytes:
    kind = header.timestamp_type
    if header.magic < V2:
        kind = TimestampType.CREATE if kind is TimestampType.NONE else kind
        return build(kept, magic=header.magic, codec=header.codec, timestamp_type=kind)
    return build(
        kept,
        magic=V2,
        codec=header.codec,
        timestamp_type=kind,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        base_timestamp=header.base_timestamp if horizon is None else None,
        delete_horizon=horizon,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
    )


def _bytes_of(records: Records, header: BatchHeader) -> bytes:
    data = bytearray(header.size)
    records.read_into(memoryview(data), header.position)
    return bytes(data)
