"""Another thread, or a commit, between two steps of the coordinator does no harm.

A step is stopped where it takes a lock, or says what it is about to do; then the other happens.

Not here: threads that do as they like (test_threads.py), a broker that dies (test_recovery.py)."""

import logging
from collections.abc import Callable
from threading import Thread

from downconvert.broker import Broker
from downconvert.broker.partition import Partition
from downconvert.protocol.errors import ErrorCode
from tests.downconvert.broker.transacting import (
    NOW,
    ONE,
    TIMEOUT_MS,
    ZERO,
    Producing,
    committed,
    is_stable,
    state,
)

SECONDS = 60.0
COORDINATOR = "downconvert.broker.transactions.coordinator"


class Stopping:
    """A lock that calls a function once, just before it is first taken."""

    def __init__(self, lock: object, meanwhile: Callable[[], None]) -> None:
        self._lock = lock
        self._meanwhile: Callable[[], None] | None = meanwhile

    def __enter__(self) -> None:
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()
        self._lock.__enter__()  # type: ignore[attr-defined]

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(*error)  # type: ignore[attr-defined]


class Hearing(logging.Handler):
    """Has something happen at the first line that holds these words."""

    def __init__(self, words: str, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self._words, self._meanwhile, self.has_heard = words, meanwhile, False

    def emit(self, record: logging.LogRecord) -> None:
        if self._words in record.getMessage() and not self.has_heard:
            self.has_heard = True
            self._meanwhile()


def markers(partition: Partition) -> int:
    return sum(header.is_control for _, header in partition.log.batches())


def test_two_threads_never_write_the_markers_of_one_transaction(
    broker: Broker, producer: Producing
) -> None:
    producer.write([b"a"])
    producer.write([b"b"], ONE)
    first, second = (broker.topics["t"].partitions[index] for index in (0, 1))

    def complete() -> None:
        """This is what the thread does that looks for transactions without markers."""
        thread = Thread(target=broker.transactions.complete_prepared, args=(NOW,))
        thread.start()
        thread.join(SECONDS)
        assert not thread.is_alive()
        assert state(broker).transaction_state == "PrepareCommit"

    second.lock = Stopping(second.lock, complete)  # type: ignore[assignment]
    assert producer.end() is ErrorCode.NONE
    assert (markers(first), markers(second)) == (1, 1)
    assert state(broker).transaction_state == "CompleteCommit"


def test_a_transaction_that_is_committed_as_its_time_ends_stays_committed(
    broker: Broker, producer: Producing
) -> None:
    producer.write([b"a"])
    told: list[ErrorCode] = []
    hearing = Hearing("is aborted after", lambda: told.append(producer.end()))
    logger = logging.getLogger(COORDINATOR)
    logger.addHandler(hearing)
    try:
        broker.transactions.abort_timed_out(NOW + TIMEOUT_MS / 1000 + 1)
    finally:
        logger.removeHandler(hearing)
    assert told == [ErrorCode.NONE]
    assert state(broker).transaction_state == "CompleteCommit"
    assert committed(broker, ZERO) == [b"a"]
    assert is_stable(broker)
    assert producer.add(ZERO) == [ErrorCode.NONE]  # it is not fenced


def test_an_id_that_is_used_again_as_it_expires_is_kept(
    broker: Broker, producer: Producing
) -> None:
    week = 7 * 86_400.0 + 1
    later = Producing(broker, now=NOW + week)
    lock = broker.transactions.lock

    def use() -> None:
        assert later.begin() is ErrorCode.NONE

    broker.transactions.lock = Stopping(lock, use)  # type: ignore[assignment]
    broker.transactions.expire(NOW + week)
    assert later.epoch == producer.epoch + 1
    assert state(broker).producer_epoch == later.epoch


def test_a_producer_that_continues_while_another_begins_is_fenced(
    broker: Broker, producer: Producing
) -> None:
    other = Producing(broker)
    lock = broker.transactions.lock

    def begin() -> None:
        assert other.begin() is ErrorCode.NONE

    broker.transactions.lock = Stopping(lock, begin)  # type: ignore[assignment]
    assert producer.begin(goes_on=True) in (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    )
    assert state(broker).producer_epoch == other.epoch


def test_a_transaction_that_is_committed_just_before_its_abort_is_decided_stays_committed(
    broker: Broker, producer: Producing
) -> None:
    producer.write([b"a"])
    told: list[ErrorCode] = []
    lock = Stopping(broker.transactions.lock, lambda: told.append(producer.end()))
    broker.transactions.lock = lock  # type: ignore[assignment]
    broker.transactions.abort_timed_out(NOW + TIMEOUT_MS / 1000 + 1)
    assert told == [ErrorCode.NONE]
    assert committed(broker, ZERO) == [b"a"]
    assert producer.add(ZERO) == [ErrorCode.NONE]  # it is not fenced


def test_markers_that_another_thread_has_just_written_are_not_written_again(
    broker: Broker, producer: Producing
) -> None:
    producer.write([b"a"])
    (partition, _) = broker.topics["t"].partitions.values()
    usual = partition.lock

    def fail() -> None:
        raise OSError("the disk")

    partition.lock = Stopping(usual, fail)  # type: ignore[assignment]
    assert producer.end() is ErrorCode.NONE
    partition.lock = usual
    assert (markers(partition), state(broker).transaction_state) == (0, "PrepareCommit")
    lock = Stopping(broker.transactions.lock, lambda: broker.transactions.complete_prepared(NOW))
    broker.transactions.lock = lock  # type: ignore[assignment]
    broker.transactions.complete_prepared(NOW)
    assert (markers(partition), state(broker).transaction_state) == (1, "CompleteCommit")
