"""The state of a log's producers: their last batches, and open transactions.

The state at some offset is written to `<offset>.snapshot` when a segment is rolled and when the log
is closed. The headers of later batches update it. The last stable offset and the entries of
transaction indexes come from it.

Not here: refusing a wrong sequence number (the broker), leaving aborted records out of a read
(log.py)."""

from collections.abc import Iterable
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from downconvert.storage.disk.files import Files, read_file, replace_file
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.indexes.transaction_index import AbortedTransaction
from records import BatchHeader, Records
from records.batches.control import ControlRecordType, EndTransactionMarker
from records.batches.reader import read_batch
from records.crc32c import crc32c

SNAPSHOT_HEAD: Final = Struct(">hIi")  # version, CRC-32C of the rest, entries
SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")
SNAPSHOT_VERSION: Final = 1
COUNT: Final = Struct(">i")
CRC_END: Final = SNAPSHOT_HEAD.size - COUNT.size
assert SNAPSHOT_ENTRY.size == 46

ENDS_TRANSACTION: Final = (ControlRecordType.ABORT, ControlRecordType.COMMIT)
NONE: Final = -1


class ProducerState(NamedTuple):
    """One producer's entry in a snapshot. -1 means no value.

    It is a tuple because each batch of a producer makes one."""

    producer_id: int
    epoch: int
    last_sequence: int = NONE
    last_offset: int = NONE
    offset_delta: int = 0  # from the first to the last offset of its last batch
    timestamp: int = NONE
    coordinator_epoch: int = NONE
    transaction_start: int = NONE  # first offset of its open transaction


class ProducerStates:
    """The producers of a log at some offset."""

    __slots__ = ("_open", "producers")

    def __init__(self, producers: Iterable[ProducerState] = ()) -> None:
        self.producers = {state.producer_id: state for state in producers}
        # The first offsets of open transactions by producer, the oldest first. Offsets rise, so a
        # new one goes to the end. Each fetch reads the first one.
        self._open: dict[int, int] = {}
        self._sort_open()

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the oldest open transaction, or None. Records from there on are not
        stable yet."""
        return next(iter(self._open.values()), None)

    def update(
        self, header: BatchHeader, marker: EndTransactionMarker | None
    ) -> AbortedTransaction | None:
        """Applies the next batch; `marker` is the result of `read_marker` for it.

        Returns the transaction that it aborts, for the transaction index."""
        if header.producer_id < 0:
            return None
        state = self.producers.get(header.producer_id)
        if state is None or state.epoch != header.producer_epoch:
            start = NONE if state is None else state.transaction_start
            coordinator = NONE if state is None else state.coordinator_epoch
            state = ProducerState(
                header.producer_id,
                header.producer_epoch,
                coordinator_epoch=coordinator,
                transaction_start=start,
            )
        if not header.is_control:
            start = state.transaction_start
            if header.is_transactional and start < 0:
                start = self._open[header.producer_id] = header.base_offset
            self.producers[header.producer_id] = ProducerState(
                header.producer_id,
                header.producer_epoch,
                header.last_sequence,
                header.last_offset,
                header.last_offset_delta,
                header.max_timestamp,
                state.coordinator_epoch,
                start,
            )
            return None
        if marker is None:  # an emptied control batch, or one that ends no transaction
            return None
        self.producers[header.producer_id] = state._replace(
            timestamp=header.max_timestamp,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_start=NONE,
        )
        self._open.pop(header.producer_id, None)
        if marker.type is ControlRecordType.COMMIT or state.transaction_start < 0:
            return None
        stable = self.first_open_offset
        return AbortedTransaction(
            header.producer_id,
            state.transaction_start,
            header.last_offset,
            header.last_offset + 1 if stable is None else stable,
        )

    def expire(self, now: int, expiration_ms: int) -> int:
        """Forgets producers without an open transaction that have written nothing for
        `expiration_ms`.

        Times are in milliseconds. A producer is as old as the youngest record of its last batch.
        Returns the number of forgotten producers [ProducerStateManager.removeExpiredProducers]."""
        expired = [
            producer_id
            for producer_id, state in self.producers.items()
            if state.transaction_start < 0 and now - state.timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        return len(expired)

    def of(self, producer_ids: Iterable[int]) -> dict[int, ProducerState | None]:
        """The current states of some producers, for `restore`."""
        return {producer_id: self.producers.get(producer_id) for producer_id in producer_ids}

    def restore(self, states: dict[int, ProducerState | None]) -> None:
        """Puts some producers back into earlier states."""
        for producer_id, state in states.items():
            if state is None:
                self.producers.pop(producer_id, None)
            else:
                self.producers[producer_id] = state
        self._sort_open()

    def _sort_open(self) -> None:
        states = self.producers.values()
        starts = [(s.transaction_start, s.producer_id) for s in states if s.transaction_start >= 0]
        self._open = {producer_id: start for start, producer_id in sorted(starts)}


def read_marker(records: Records, header: BatchHeader) -> EndTransactionMarker | None:
    """The transaction marker in a control batch. None if the batch is not a control batch, or has
    another kind of control record.

    `header` is one of `records.batches()`."""
    if not header.is_control:
        return None
    for record in read_batch(records, header):
        at = records.origin + header.position
        if ControlRecordType.parse(record.key, at) in ENDS_TRANSACTION:
            return EndTransactionMarker.parse(record.key, record.value, at)
        break
    return None


def read_snapshot(path: Path) -> ProducerStates:
    """CorruptFileError: the file is damaged. OSError: there is no such file."""
    data = read_file(path)
    if len(data) < SNAPSHOT_HEAD.size:
        raise CorruptFileError("is too short for a snapshot", str(path))
    version, crc, count = SNAPSHOT_HEAD.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptFileError(f"version {version} is not known", str(path))
    if crc != crc32c(data[CRC_END:]):
        raise CorruptFileError("its checksum does not match", str(path))
    body = data[SNAPSHOT_HEAD.size :]
    if len(body) != count * SNAPSHOT_ENTRY.size:
        raise CorruptFileError(f"{count} producers do not fit its size", str(path))
    return ProducerStates(ProducerState(*fields) for fields in SNAPSHOT_ENTRY.iter_unpack(body))


def write_snapshot(files: Files, path: Path, states: ProducerStates) -> None:
    """Writes a snapshot. Returns when it is synced."""
    entries = [SNAPSHOT_ENTRY.pack(*state) for state in states.producers.values()]
    crc = crc32c(COUNT.pack(len(entries)) + b"".join(entries))
    head = SNAPSHOT_HEAD.pack(SNAPSHOT_VERSION, crc, len(entries))
    replace_file(files, path, head + b"".join(entries))
