"""The transaction coordinator decides which producer may write, and ends transactions.

Every step is stored in `__transaction_state` before it takes effect. The stored state decides
whether a transaction is committed. Markers follow at once, or later after a crash or if a partition
cannot take them. So a transaction ends in the same way in all its partitions.

The rules are those of Kafka's TransactionCoordinator, for clients that add partitions themselves
(before KIP-890's second part). One difference is intended. If a producer starts while another's
transaction is open, that transaction is aborted and the producer is answered at once. In Kafka the
producer must retry.

Locks: `check_batch` takes no lock, because its caller may hold a partition's lock. The
coordinator's lock is not held while markers are written.

Not here: the states (internal_topics/transaction.py), the log (state_topic.py), timers
(sweep.py)."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

from downconvert.broker.config import BrokerConfig
from downconvert.broker.time_of_day import TimeOfDay
from downconvert.broker.topics import Topics
from downconvert.internal_topics.transaction import NO_EPOCH, State, Transaction
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.storage import TopicPartition
from records import BatchHeader
from records.logged import log_of

from .counts import Counts, Outcome
from .markers import Markers
from .producer_ids import ProducerIds
from .state_topic import StateTopic

LOG: Final = log_of(__name__)


@dataclass(frozen=True, slots=True)
class Producer:
    """The sender of a request: a transactional id, with the producer's id and epoch."""

    transactional_id: str
    producer_id: int
    epoch: int


class Transactions:
    """The transactions of a broker, by transactional id. Thread-safe."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        topic: StateTopic,
        markers: Markers,
        producer_ids: ProducerIds,
        time_of_day: TimeOfDay,
        counts: Counts,
    ) -> None:
        """Reads what is stored. A broker that only reads coordinates nothing."""
        self._config = config
        self._topics = topics
        self._topic = topic
        self._markers = markers
        self._producer_ids = producer_ids
        self._time_of_day = time_of_day
        self._counts = counts
        self.lock = Lock()  # held while a state changes
        # Values are replaced, never changed, so they can be read without the lock.
        self._kept = topic.read() if config.is_writable else {}
        self._ending: set[str] = set()  # ids whose markers a thread is writing
        self._stuck: set[str] = set()  # ids whose markers cannot be written, already logged
        self._opened: dict[tuple[str, int], float] = {}  # by id and start time, in seconds
        # Called when there are transactions.
        self.on_change: Callable[[float], None] = lambda _: None
        counts.watch(lambda: sum(one.is_open for one in self.all().values()))
        self._log_open()

    # --- state

    def all(self) -> Mapping[str, Transaction]:
        """All transactional ids, in their current states."""
        return dict(self._kept)

    def get(self, transactional_id: str) -> Transaction | None:
        return self._kept.get(transactional_id)

    @property
    def partitions_count(self) -> int:
        """The partitions of `__transaction_state`."""
        return self._topic.count

    def refusal(self) -> str | None:
        """Why this broker coordinates no transactions. None: it does."""
        if not self._config.is_writable:
            return "this broker only reads"
        alone = (self._config.node_id,)
        for partition in self._topics.with_others.copy():
            if partition.replicas != alone or partition.leader not in (*alone, None):
                return "transactions are served by a broker that is alone, and this one has others"
        return None

    def check_batch(
        self, transactional_id: str | None, at: TopicPartition, batch: BatchHeader
    ) -> None:
        """ApiError: the batch is not in a transaction that is open in this partition."""
        self.check_producer(transactional_id, at, (batch.producer_id, batch.producer_epoch))

    def check_producer(
        self, transactional_id: str | None, at: TopicPartition, producer: tuple[int, int]
    ) -> None:
        """ApiError: a producer, by id and epoch, has no transaction open in this partition."""
        producer_id, epoch = producer
        one = None if transactional_id is None else self._kept.get(transactional_id)
        if transactional_id is None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "no transactional id")
        if one is None or one.producer_id != producer_id:
            message = f"producer {producer_id} is not that of {transactional_id[:100]!r}"
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)
        if one.epoch != epoch:
            self._counts.fenced()
            message = f"the producer's epoch is {one.epoch}, and not {epoch}"
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, message)
        if one.is_prepared:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction is about to end")
        if one.state is not State.ONGOING or at not in one.partitions:
            raise ApiError(ErrorCode.TRANSACTION_ABORTABLE, f"{at} is not in the transaction")

    # --- requests of clients

    def new_producer_id(self) -> int:
        """An unused producer id. OSError, StorageError: the disk failed."""
        return self._producer_ids.take(lambda: [one.producer_id for one in self.all().values()])

    def begin_producer(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        now: float,
    ) -> tuple[int, int]:
        """InitProducerId: returns a producer's id and epoch, which fence all other producers of the
        transactional id. An open transaction is aborted.

        expected: the id and epoch that the producer has, if it continues after an error.
        ApiError: it may not; OSError, StorageError: the disk failed."""
        self._check_begin(transactional_id, timeout_ms)
        one = self._kept.get(transactional_id)
        if one is None:
            one = self._new(transactional_id, timeout_ms)
        self._check_expected(one, expected)
        if one.state is State.ONGOING:
            LOG.info("transactional id %s: a new producer aborts the old one's", _short(one))
            self._abort(one, Outcome.FENCED, now)
            expected = None
        with self.lock:
            one = self._kept.get(transactional_id, one)
            if one.is_open:  # its markers are being written, or another producer was faster
                raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
            self._check_expected(one, expected)
            one = self._bumped(one, timeout_ms, expected, self._time_of_day.ms(now))
            self._store(one, now)
        self.on_change(now)
        return one.producer_id, one.epoch

    def add(self, producer: Producer, partitions: Collection[TopicPartition], now: float) -> None:
        """AddPartitionsToTxn: adds partitions to the transaction, and begins one if none is open.
        ApiError: it may not."""
        with self.lock:
            one = self._find(producer)
            if one.epoch != producer.epoch:
                raise self._fenced(one, producer)
            if one.is_prepared:
                raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
            if one.state is State.ONGOING and one.partitions.issuperset(partitions):
                return
            begins = one.state is not State.ONGOING
            self._store(one.with_partitions(partitions, self._time_of_day.ms(now)), now)
            if begins:
                self._counts.begun()

    def end(self, producer: Producer, now: float, *, commits: bool) -> None:
        """EndTxn: returns when the outcome is stored, and usually when the transaction is complete.
        ApiError: it may not."""
        with self.lock:
            one = self._find(producer)
            if one.epoch != producer.epoch:
                raise self._fenced(one, producer)
            complete = State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT
            if one.state is complete:
                return  # a repeated request
            prepared = State.PREPARE_COMMIT if commits else State.PREPARE_ABORT
            if one.state is prepared:
                raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
            if one.state is not State.ONGOING:
                message = f"the transactional id is in state {one.state.title}"
                raise ApiError(ErrorCode.INVALID_TXN_STATE, message)
            one = one.prepared(self._time_of_day.ms(now), commits=commits)
            self._store(one, now)
            self._counts.ended(Outcome.COMMITTED if commits else Outcome.ABORTED)
        self._complete(one.transactional_id, now)

    # --- timers

    def complete_prepared(self, now: float) -> None:
        """Writes missing markers: after a crash, or when a partition did not take one."""
        for one in self.all().values():
            if one.is_prepared:
                self._complete(one.transactional_id, now)

    def abort_timed_out(self, now: float) -> None:
        """Aborts transactions that have been open for longer than their timeout. The time of day
        counts only when a transaction is seen first, because the system's clock may be set."""
        time = self._time_of_day.ms(now)
        before, self._opened = self._opened, {}
        for one in self.all().values():
            key = one.transactional_id, one.start_time
            opened = before.get(key, now - max(time - one.start_time, 0) / 1000)
            if one.state is State.ONGOING:
                self._opened[key] = opened
            if one.has_timed_out(1000 * (now - opened)):
                message = "transactional id %s: its transaction is aborted after %d ms"
                LOG.warning(message, _short(one), one.timeout_ms)
                try:
                    self._abort(one, Outcome.TIMED_OUT, now)
                except ApiError as error:
                    LOG.warning(
                        "transactional id %s: its transaction cannot be aborted yet: %s",
                        _short(one),
                        error.code.name,
                    )

    def expire(self, now: float) -> None:
        """Forgets transactional ids that have not been used for a long time."""
        time = self._time_of_day.ms(now)
        for one in self.all().values():
            if not one.has_expired(time, self._config.transactional_id_expiration_ms):
                continue
            with self.lock:
                if self._kept.get(one.transactional_id) is not one:
                    continue
                if not self._topic.forget(one.transactional_id, now):
                    del self._kept[one.transactional_id]
                    LOG.info("transactional id %s has expired", _short(one))

    # --- details

    def _check_begin(self, transactional_id: str, timeout_ms: int) -> None:
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "no transactional id")
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        is_new = transactional_id not in self._kept
        if is_new and len(self._kept) >= self._config.transactional_ids_max:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "there are too many transactional ids")

    def _new(self, transactional_id: str, timeout_ms: int) -> Transaction:
        """A transactional id that is not stored yet."""
        return Transaction(
            transactional_id=transactional_id,
            producer_id=self.new_producer_id(),
            timeout_ms=timeout_ms,
        )

    def _check_expected(self, one: Transaction, expected: tuple[int, int] | None) -> None:
        """ApiError: the producer that wants to continue has been fenced."""
        if expected is None or one.epoch == NO_EPOCH:
            return
        producer_id, epoch = expected
        is_current = producer_id == one.producer_id and epoch in (one.epoch, one.last_epoch)
        # Its epochs were exhausted, and the response with its new id was lost.
        is_previous = producer_id == one.previous_producer_id and epoch == one.last_epoch
        if not (is_current or is_previous):
            raise self._fenced(one, Producer(one.transactional_id, producer_id, epoch))

    def _bumped(
        self, one: Transaction, timeout_ms: int, expected: tuple[int, int] | None, time: int
    ) -> Transaction:
        if expected is not None and one.epoch != NO_EPOCH and expected[1] == one.last_epoch:
            return one  # a repeated request
        last_epoch = NO_EPOCH if expected is None else one.epoch
        if one.has_exhausted_epochs:
            producer_id = self.new_producer_id()
            return one.with_producer_id(producer_id, last_epoch, timeout_ms, time)
        return one.with_epoch(one.epoch + 1, last_epoch, timeout_ms, time)

    def _find(self, producer: Producer) -> Transaction:
        if not producer.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "no transactional id")
        one = self._kept.get(producer.transactional_id)
        if one is None or one.producer_id != producer.producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return one

    def _fenced(self, one: Transaction, producer: Producer) -> ApiError:
        self._counts.fenced()
        LOG.info(
            "transactional id %s: producer %d of epoch %d is fenced by %d of epoch %d",
            _short(one),
            producer.producer_id,
            producer.epoch,
            one.producer_id,
            one.epoch,
        )
        return ApiError(ErrorCode.PRODUCER_FENCED, f"the epoch is {one.epoch}")

    def _abort(self, one: Transaction, why: Outcome, now: float) -> None:
        """Aborts an open transaction and fences its producer. ApiError: the log failed."""
        with self.lock:
            if self._kept.get(one.transactional_id) is not one:
                return  # the state has changed in the meantime
            prepared = one.prepared(self._time_of_day.ms(now), commits=False, fences=True)
            self._store(prepared, now)
            self._counts.ended(why)
        self._complete(one.transactional_id, now)

    def _complete(self, transactional_id: str, now: float) -> None:
        """Writes the markers of a prepared transaction. When all are written, stores that it is
        complete."""
        with self.lock:
            one = self._kept.get(transactional_id)
            if one is None or not one.is_prepared or transactional_id in self._ending:
                return
            self._ending.add(transactional_id)
        time = self._time_of_day.ms(now)
        try:
            epoch = self._topic.coordinator_epoch(transactional_id)
            failed = self._markers.write(one, epoch, now, time)
            with self.lock:
                if failed:
                    self._kept[transactional_id] = replace(one, partitions=frozenset(failed))
                else:
                    self._store(one.completed(time), now)
        except ApiError as error:
            self._log_stuck(one, f"it cannot be written: {error.code.name}")
            return
        finally:
            self._ending.discard(transactional_id)
        if failed:
            name = min(failed)
            self._log_stuck(one, f"no marker in {len(failed)} partitions; {name}: {failed[name]}")
        else:
            self._stuck.discard(transactional_id)

    def _store(self, one: Transaction, now: float) -> None:
        """Stores a state. ApiError: that failed, and nothing has changed. The caller holds the
        lock."""
        code = self._topic.store(one, now)
        if code:
            raise ApiError(code)
        self._kept[one.transactional_id] = one

    def _log_stuck(self, one: Transaction, why: str) -> None:
        if one.transactional_id not in self._stuck:
            self._stuck.add(one.transactional_id)
            LOG.warning("transactional id %s: %s; it is tried again", _short(one), why)

    def _log_open(self) -> None:
        prepared = sum(one.is_prepared for one in self._kept.values())
        ongoing = sum(one.state is State.ONGOING for one in self._kept.values())
        if prepared or ongoing:
            LOG.info(
                "%d transactional ids: %d have an open transaction, %d are being completed now",
                len(self._kept),
                ongoing,
                prepared,
            )


def _short(one: Transaction) -> str:
    """An id, shortened for log lines."""
    return ascii(one.transactional_id[:100])
