"""Idempotent producers: which batch may follow a producer's last one, and which is a duplicate.

A producer that gets no response retries. A duplicate of one of its last five batches is answered
with the offsets of the first copy. Storage knows each producer's last batch from the log. The four
batches before it are kept here, for up to PRODUCERS_MAX producers. A restart forgets them. Kafka
forgets those since the last snapshot.

The rules are those of Kafka's ProducerAppendInfo since 2.5: an unknown producer may begin with any
sequence number [KIP-360], so UNKNOWN_PRODUCER_ID is never answered.

Not here: the producers' state in storage (downconvert/storage/producers/producer_state.py)."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.storage.producers.producer_state import ProducerState
from records import BatchHeader
from records.batch import SEQUENCE_MAX

BATCHES_KEPT: Final = 5  # a producer's maximum of requests in flight
# Checks that a transaction's batch may be appended; ApiError: it may not.
CheckBatch: TypeAlias = Callable[[BatchHeader], None]
PRODUCERS_MAX: Final = 10_000  # of one partition, with more than one known batch


class KnownBatch(NamedTuple):
    """A producer's batch that is in the log."""

    epoch: int
    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int  # milliseconds; the highest of its records


class Sequences:
    """The last batches of one partition's producers. Callers hold the partition's lock."""

    __slots__ = ("_recent",)

    def __init__(self) -> None:
        self._recent: dict[int, deque[KnownBatch]] = {}

    def __len__(self) -> int:
        """The number of producers with more than one known batch."""
        return len(self._recent)

    def checked(
        self,
        header: BatchHeader,
        producers: Mapping[int, ProducerState],
        check_batch: CheckBatch | None,
    ) -> KnownBatch | None:
        """As `duplicate_of`, after `check_batch` if the batch belongs to a transaction.

        ApiError: there is no transaction coordinator to check it."""
        has_begun = is_in_open_transaction(header, producers)
        if header.is_transactional:
            if check_batch is None:
                raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            if not has_begun:  # a batch of an ended transaction is no duplicate
                check_batch(header)
        known = self.duplicate_of(header, producers)
        if known is None and has_begun and check_batch is not None:
            check_batch(header)
        return known

    def duplicate_of(
        self, header: BatchHeader, producers: Mapping[int, ProducerState]
    ) -> KnownBatch | None:
        """The same batch in the log, if it is a duplicate; None: append it. `producers`: of the
        log.

        ApiError: it may not follow the producer's last batch."""
        # Batches of coordinators have no sequence numbers.
        if header.producer_id < 0 or header.base_sequence < 0:
            return None
        state = producers.get(header.producer_id)
        if state is None:
            self._recent.pop(header.producer_id, None)
            return None
        if header.producer_epoch == state.epoch:
            sent = header.producer_epoch, header.base_sequence, header.last_sequence
            for known in self._of(state):
                if (known.epoch, known.base_sequence, known.last_sequence) == sent:
                    return known
        if header.producer_epoch < state.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {state.producer_id} has epoch {state.epoch}, "
                f"the batch {header.producer_epoch}",
            )
        is_new_epoch = header.producer_epoch != state.epoch
        expected = 0 if is_new_epoch else (state.last_sequence + 1) & SEQUENCE_MAX
        if header.base_sequence != expected:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {state.producer_id} sends sequence number {header.base_sequence}, "
                f"expected is {expected}",
            )
        if state.transaction_start >= 0 and not header.is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {state.producer_id} has a transaction open here",
            )
        return None

    def add_batch(self, header: BatchHeader, base_offset: int) -> None:
        """Adds a producer's batch that was appended at this offset."""
        recent = self._recent.pop(header.producer_id, None) or deque(maxlen=BATCHES_KEPT)
        recent.append(
            KnownBatch(
                header.producer_epoch,
                header.base_sequence,
                header.last_sequence,
                base_offset,
                base_offset + header.last_offset_delta,
                header.max_timestamp,
            )
        )
        self._recent[header.producer_id] = recent  # moved to the end, so evicted last
        if len(self._recent) > PRODUCERS_MAX:
            del self._recent[next(iter(self._recent))]

    def _of(self, state: ProducerState) -> deque[KnownBatch]:
        """The producer's last batches that the log still has."""
        recent = self._recent.setdefault(state.producer_id, deque(maxlen=BATCHES_KEPT))
        while recent and recent[-1].last_offset > state.last_offset:  # the log was truncated
            recent.pop()
        if not recent or recent[-1].last_offset != state.last_offset:
            recent.clear()
            recent.append(_last_of(state))
        return recent


def is_in_open_transaction(header: BatchHeader, producers: Mapping[int, ProducerState]) -> bool:
    """Whether the batch belongs to a transaction that is open in the log."""
    state = producers.get(header.producer_id) if header.is_transactional else None
    return (
        state is not None and state.transaction_start >= 0 and state.epoch == header.producer_epoch
    )


def _last_of(state: ProducerState) -> KnownBatch:
    return KnownBatch(
        state.epoch,
        (state.last_sequence - state.offset_delta) & SEQUENCE_MAX,
        state.last_sequence,
        state.last_offset - state.offset_delta,
        state.last_offset,
        state.timestamp,
    )
