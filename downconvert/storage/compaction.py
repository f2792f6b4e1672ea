"""Which records of a compacted topic stay: the last one of each key, by Kafka's rules.

* A record without a key goes, and so does every record of an aborted transaction.
* A record without a value (a tombstone) stays until its batch's delete horizon, which is set when
  it is first cleaned (KAFKA-8522). In v0 and v1, which have no horizon, it stays.
* The end of a transaction stays while data of that transaction is left, and then to its horizon.
* The last batch of a producer stays, empty if need be: the broker needs its sequence number.

Offsets stay as they are. Batches that lose nothing are copied; others keep their base and last
offset, codec and producer.

Not here: segments and their replacement (compact_log.py)."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from hashlib import blake2b

from records import BatchHeader, Records, TimestampType
from records.builder import build, build_empty
from records.formats import V2
from records.reader import Record, read_batch

from .producer_state import read_marker
from .transactions import AbortedRanges


class LatestOffsets:
    """The last offset of each key. Keys are remembered by a digest of 16 bytes, as in Kafka."""

    __slots__ = ("_offsets",)

    def __init__(self) -> None:
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, key: bytes, offset: int) -> None:
        self._offsets[_digest(key)] = offset

    def is_latest(self, key: bytes, offset: int) -> bool:
        return offset >= self._offsets.get(_digest(key), -1)


@dataclass(slots=True)
class CompactionCount:
    """What went in, and what was left."""

    batches_in: int = 0
    batches_out: int = 0
    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class Cleaner:
    """Cleans the batches of one log, segment after segment."""

    def __init__(
        self,
        latest: LatestOffsets,
        aborted: AbortedRanges,
        last_of_producers: Collection[int],
        *,
        now: int,
        horizon: int,
    ) -> None:
        """`last_of_producers`: the last offsets of the producers' last batches. `now` and `horizon`
        are milliseconds: tombstones that are seen for the first time stay up to `horizon`."""
        self.count = CompactionCount()
        self._latest = latest
        self._aborted = aborted
        self._last_of_producers = last_of_producers
        self._now = now
        self._horizon = horizon
        self._with_data: set[int] = set()  # producers of transactions that have data in the log

    def clean(self, records: Records) -> Iterator[bytes]:
        """The batches that stay, as they are then. CorruptRecordsError: what cannot be read."""
        for header in records.batches():
            self.count.batches_in += 1
            self.count.bytes_in += header.size
            if header.is_control:
                data = self._control(records, header)
            else:
                data = self._data(records, header)
            if data is not None:
                self.count.batches_out += 1
                self.count.bytes_out += len(data)
                yield data

    def _data(self, records: Records, header: BatchHeader) -> bytes | None:
        if header.is_transactional:
            self._with_data.add(header.producer_id)
        found = list(read_batch(records, header))
        kept = [] if self._aborted.cover(header) else [r for r in found if self._stays(r, header)]
        self.count.records_in += len(found)
        self.count.records_out += len(kept)
        if not kept:
            return self._emptied(header)
        horizon = header.base_timestamp if header.has_delete_horizon else None
        if header.magic == V2 and horizon is None and any(r.value is None for r in kept):
            horizon = self._horizon
        elif len(kept) == len(found):
            return _copied(records, header)
        return _rebuilt(kept, header, horizon)

    def _stays(self, record: Record, header: BatchHeader) -> bool:
        if record.key is None or not self._latest.is_latest(record.key, record.offset):
            return False
        is_due = header.has_delete_horizon and self._now >= header.base_timestamp
        return record.value is not None or not is_due

    def _emptied(self, header: BatchHeader) -> bytes | None:
        if header.magic < V2 or header.last_offset not in self._last_of_producers:
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
        )

    def _control(self, records: Records, header: BatchHeader) -> bytes | None:
        if read_marker(records, header) is None:
            return _copied(records, header)
        has_data = header.producer_id in self._with_data
        self._with_data.discard(header.producer_id)
        if has_data or header.last_offset in self._last_of_producers:
            return _copied(records, header)
        if not header.has_delete_horizon:
            return _rebuilt(list(read_batch(records, header)), header, self._horizon)
        return None if self._now >= header.base_timestamp else _copied(records, header)


def latest_offsets(latest: LatestOffsets, records: Records, aborted: AbortedRanges) -> None:
    """Takes note of the keys of a segment, those of aborted transactions left out."""
    for header in records.batches():
        if not header.is_control and not aborted.cover(header):
            for record in read_batch(records, header):
                if record.key is not None:
                    latest.add(record.key, record.offset)


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


def _copied(records: Records, header: BatchHeader) -> bytes:
    data = bytearray(header.size)
    records.read_into(memoryview(data), header.position)
    return bytes(data)


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=16).digest()
