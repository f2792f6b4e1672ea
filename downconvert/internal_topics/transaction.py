"""The state of a transactional id: its producer, and the partitions of its transaction.

```
             first partition             EndTxn, or time is up          markers are written
  Empty ────────────────▶ Ongoing ──────────────▶ PrepareCommit ──────────▶ CompleteCommit
    ▲                        ▲   └──────────────▶ PrepareAbort  ──────────▶ CompleteAbort
    └ InitProducerId         └──────────── first partition ──────────────────────┘
```

Values are immutable: each step returns the next one. Numbers and names are those of Kafka's
TransactionState. The steps are those of TransactionMetadata, for clients before KIP-890's second
part.

Not here: who may take a step (broker/transactions/coordinator.py), the stored form
(transaction_records.py)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from downconvert.storage import TopicPartition
from records import ControlRecordType

NO_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
EPOCH_MAX: Final = 0x7FFF  # the last one is only used to fence, and no producer gets it


class State(IntEnum):
    """The state of a transactional id."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """Kafka's name of it: PrepareCommit."""
        return self.name.title().replace("_", "")


PREPARED: Final = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
COMPLETE: Final = (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
# The states from which each state can be reached.
_BEFORE: Final = {
    State.EMPTY: {State.EMPTY, *COMPLETE},
    State.ONGOING: {State.ONGOING, State.EMPTY, *COMPLETE},
    State.PREPARE_COMMIT: {State.ONGOING},
    State.PREPARE_ABORT: {State.ONGOING},
    State.COMPLETE_COMMIT: {State.PREPARE_COMMIT},
    State.COMPLETE_ABORT: {State.PREPARE_ABORT},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transactional id at one moment. Times in milliseconds since the epoch, or -1."""

    transactional_id: str
    producer_id: int
    epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH  # before the producer continued after an error [KIP-360]
    previous_producer_id: int = NO_ID  # whose epochs were exhausted
    next_producer_id: int = NO_ID  # after this one is complete; Kafka 4 may have stored one
    timeout_ms: int
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()  # without a marker yet
    start_time: int = NO_TIME
    update_time: int = NO_TIME

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided, and markers are being written."""
        return self.state in PREPARED

    @property
    def is_open(self) -> bool:
        return self.state is State.ONGOING or self.is_prepared

    @property
    def has_exhausted_epochs(self) -> bool:
        return self.epoch >= EPOCH_MAX - 1

    @property
    def marker(self) -> ControlRecordType:
        """The marker that ends it."""
        commits = self.state is State.PREPARE_COMMIT
        return ControlRecordType.COMMIT if commits else ControlRecordType.ABORT

    def has_timed_out(self, open_ms: float) -> bool:
        """`open_ms`: for how long it has been open."""
        return self.state is State.ONGOING and open_ms > self.timeout_ms

    def has_expired(self, now: int, expiration_ms: int) -> bool:
        """Whether the id has been unused for so long that it may be forgotten."""
        return not self.is_open and now - self.update_time >= expiration_ms

    # --- steps

    def with_epoch(self, epoch: int, last_epoch: int, timeout_ms: int, now: int) -> "Transaction":
        """After InitProducerId."""
        return replace(
            self._step(State.EMPTY, now),
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            start_time=NO_TIME,
        )

    def with_producer_id(
        self, producer_id: int, last_epoch: int, timeout_ms: int, now: int
    ) -> "Transaction":
        """After InitProducerId with a new producer id, because the epochs of this one are
        exhausted."""
        return replace(
            self.with_epoch(0, last_epoch, timeout_ms, now),
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
        )

    def with_partitions(self, partitions: Iterable[TopicPartition], now: int) -> "Transaction":
        """After AddPartitionsToTxn."""
        return replace(
            self._step(State.ONGOING, now),
            last_epoch=NO_EPOCH,  # the epoch is in use, so the producer got it
            partitions=self.partitions.union(partitions),
            start_time=self.start_time if self.state is State.ONGOING else now,
        )

    def prepared(self, now: int, *, commits: bool, fences: bool = False) -> "Transaction":
        """After the decision to commit or abort. `fences`: the producer did not ask for it, and its
        epoch is old from now on."""
        step = self._step(State.PREPARE_COMMIT if commits else State.PREPARE_ABORT, now)
        epoch = min(self.epoch + 1, EPOCH_MAX)
        return replace(step, epoch=epoch, last_epoch=NO_EPOCH) if fences else step

    def completed(self, now: int) -> "Transaction":
        """After all markers were written."""
        commits = self.state is State.PREPARE_COMMIT
        step = self._step(State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT, now)
        step = replace(step, partitions=frozenset())
        if self.next_producer_id == NO_ID:
            return step
        return replace(step, producer_id=self.next_producer_id, epoch=0, next_producer_id=NO_ID)

    def _step(self, state: State, now: int) -> "Transaction":
        assert self.state in _BEFORE[state], f"{self.state.title} before {state.title}"
        return replace(self, state=state, update_time=now)
