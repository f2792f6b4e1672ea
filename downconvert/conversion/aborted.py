"""Finds the batches that belong to aborted transactions, and the markers of transactions.

This follows Kafka's newer consumers. An aborted transaction is active from its first offset until
its producer's ABORT marker. Transactional batches of an active producer are left out. If its last
offset is known, it also ends there, even if compaction has removed its marker.

Not here: the source of the list (a segment's .txnindex), data above the last stable offset."""

from collections.abc import Iterable

from records.batch import BatchHeader
from records.batches.control import ControlRecordType
from records.batches.reader import read_batch
from records.files.source import Records

from .policy import AbortedTransaction


class AbortedTransactions:
    """Decides for each transactional or control batch of a log, in the order of their offsets."""

    __slots__ = ("_active", "_later")

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        """`transactions`: in any order."""
        self._later = sorted(transactions, key=lambda t: t.first_offset, reverse=True)
        self._active: dict[int, int | None] = {}  # producer id -> last offset

    def leaves_out(self, records: Records, header: BatchHeader) -> bool:
        """Whether a batch is a marker, which converts to nothing, or belongs to an aborted
        transaction."""
        if header.is_control:
            marker = next(read_batch(records, header, verify=False), None)
            if marker is not None and marker.key is not None:
                self.marker(header.producer_id, header.last_offset, marker.key)
            return True
        return header.is_transactional and self.holds(
            header.producer_id, header.base_offset, header.last_offset
        )

    def holds(self, producer_id: int, base_offset: int, last_offset: int) -> bool:
        """Whether a transactional batch of this producer is to be left out."""
        self._begin(last_offset)
        if producer_id not in self._active:
            return False
        ends = self._active[producer_id]
        if ends is not None and base_offset > ends:
            del self._active[producer_id]
            return False
        return True

    def marker(self, producer_id: int, offset: int, key: bytes) -> None:
        """Notes a control record, which ends a transaction. No batch of that transaction need have
        been seen: its data may be earlier, or compaction may have removed it."""
        self._begin(offset)
        if ControlRecordType.of(key) is ControlRecordType.ABORT:
            self._active.pop(producer_id, None)

    def _begin(self, offset: int) -> None:
        """Activates the transactions that begin at or before this offset."""
        while self._later and self._later[-1].first_offset <= offset:
            transaction = self._later.pop()
            self._active[transaction.producer_id] = transaction.last_offset
