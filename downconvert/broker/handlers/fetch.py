"""Fetch: records from where a client says, in the format that it reads.

The order of decisions for each partition, and when an answer waits, are Kafka's (KafkaApis,
ReplicaManager, DelayedFetch). A fetch that finds too little is read again, as a whole, when there
is more or its time is up. One for which records have to be converted is looked at first: where the
log has too little for it, nothing is converted before it waits. Where much has to be converted, it
is read in turns, between which other requests are worked on.

Not here: what a partition contributes (reading.py), the policy of conversions (conversions.py),
sessions (fetch_session.py)."""

import logging
from itertools import groupby
from typing import Final

from downconvert.broker.access.quotas import WINDOW
from downconvert.broker.conversions import (
    ZSTD_SINCE,
    is_enabled,
    magic_of,
    names_of,
    policy_for,
    zstd_recode,
)
from downconvert.broker.errors import ApiError, ErrorCode
from downconvert.broker.exchange import Exchange
from downconvert.broker.fetch_assembly import error_code_of, known_code
from downconvert.broker.fetch_read import FetchRead
from downconvert.broker.fetch_session import Asked, Context, Key, Sessionless, asked_in
from downconvert.broker.idle import IdleLook
from downconvert.broker.partition import Partition
from downconvert.broker.reading import (
    Contribution,
    Limits,
    all_available,
    available,
    nothing,
    read_as_is,
    read_converted,
)
from downconvert.broker.replication.leader_epochs import EpochEnd
from downconvert.broker.state import BrokerState
from downconvert.broker.topics import Topic
from downconvert.broker.wire.schemas import Message
from downconvert.conversion.recode import LazyRecodedSend
from records import RecordsError
from records.units import MiB
from records.zero_copy import ZeroCopySend

LOG: Final = logging.getLogger(__name__)
UNKNOWN: Final = -1  # an offset, an epoch
READ_COMMITTED: Final = 1

# Versions of Fetch.
FIRST_BATCH_WHOLE_SINCE: Final = 3
SESSIONS_SINCE: Final = 7
FOLLOWERS_SERVE_SINCE: Final = 11
REPLICA_STATE_SINCE: Final = 15
LEADERS_TOLD_SINCE: Final = 16

# Of the log, measured in one turn: a millisecond where nothing is compressed, some tens where
# everything is compressed again.
TURN_SIZE: Final = MiB

# Longer than any client waits for an answer.
WAIT_MAX: Final = 60.0  # seconds

NOT_LED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    request, version = exchange.request.body, exchange.request.version
    follower = replica_of(request, version) >= 0
    context: Context
    try:
        if version < SESSIONS_SINCE:
            context = Sessionless(list(asked_in(version, request.topics).values()))
        else:
            context = broker.fetch_sessions.begin(version, request, now, is_follower=follower)
    except ApiError as error:
        exchange.reply(Message(error_code=error.code))
        return
    Fetch(broker, exchange, context, now).begin(now)


def replica_of(request: Message, version: int) -> int:
    """The id of the follower that asks; negative for a consumer."""
    state = request.replica_state
    return int(state.replica_id if version >= REPLICA_STATE_SINCE else request.replica_id)


class Fetch:
    """A fetch until it is answered. It waits in the purgatory for records, and with its exchange's
    owner for its next turn."""

    def __init__(
        self, broker: BrokerState, exchange: Exchange, context: Context, now: float
    ) -> None:
        self._broker = broker
        self._exchange = exchange
        self._context = context
        self._version = exchange.request.version
        request = exchange.request.body
        self._replica_id = replica_of(request, self._version)
        self._is_reported = self._replica_id < 0  # how far a follower is, is known
        # Clients of older formats cannot ask for it: the field is 0 in those versions.
        self._is_committed = request.isolation_level == READ_COMMITTED
        self._max_bytes = max(0, min(request.max_bytes, broker.config.fetch_max_bytes))
        rate = None if exchange.client.access is None else exchange.client.access.consumer_byte_rate
        if rate is not None:
            self._max_bytes = min(self._max_bytes, int(rate * WINDOW))
        self._min_bytes = min(request.min_bytes, max(self._max_bytes, 1))
        self._deadline = now + min(max(0.0, request.max_wait_ms / 1000), WAIT_MAX)
        self._magic = magic_of(self._version)
        self._starts: dict[Key, int] = {}  # how far earlier turns came
        self._so_far: Contribution | None = None  # of the partition that is being converted
        self._asked = context.asked  # but for those that are idle
        self._idle: list[Asked] = []
        self._look = self._new_look(now)
        self._read = FetchRead()

    # --- turns, and waiting

    def begin(self, now: float) -> None:
        """Reads, unless it is plain that there is too little to convert."""
        self._asked, self._idle = self._look.split(self._context.asked)
        found = self._too_little() if self._deadline > now else None
        if found is None:
            self.resume(now)
        else:
            self._wait(found, now)

    def resume(self, now: float) -> None:
        """Reads on; then answers, waits for more records, or for the next turn."""
        read = self._read
        if not self._read_some(read, now):
            self._exchange.post_turn(self.resume)
        elif self._is_final or read.size >= self._min_bytes or self._deadline <= now:
            self._answer(now)
        else:
            read.drop_records()
            self._broker.chunk_budget.release(self._exchange.client.id)
            self._wait(read, now)

    def _wait(self, read: FetchRead, now: float) -> None:
        self._read = read
        keys = [partition.key for partition in read.partitions if partition is not None]
        keys += [asked.idle.partition.key for asked in self._idle if asked.idle is not None]
        self._broker.purgatory.watch(self, keys, now, self._deadline, self._exchange)

    def is_due(self) -> bool:
        """Whether there is enough by now, or something has happened to a partition."""
        read = self._read
        if not read.is_whole:
            return False
        size = 0
        looked_at = [
            *zip(self._asked, read.partitions, read.epochs, read.contributions, strict=True),
            *(
                (asked, idle.partition, idle.leader_epoch, nothing(asked.offset))
                for asked, idle in self._new_look(0.0).changed(self._idle)
            ),
        ]
        for asked, partition, epoch, contribution in looked_at:
            if partition is None:
                continue
            if partition.leader_epoch != epoch:
                return True
            up_to, seen_to = self._bound(partition), contribution.seen_to
            if up_to > seen_to and self._min_bytes <= 1:
                return True
            try:
                more = available(partition, max(asked.offset, seen_to), up_to, asked.max_bytes)
            except (RecordsError, OSError):
                return True
            size += min(asked.max_bytes, contribution.source_size + more)
            if size >= self._min_bytes:
                return True
        return False

    def _new_look(self, now: float) -> IdleLook:
        return IdleLook(
            self._broker.topics,
            self._context,
            (self._version, self._is_committed),
            now,
            is_follower=self._replica_id >= 0,
        )

    def complete(self, now: float, *, timed_out: bool) -> None:
        """Everything is read again, as what was read before may be gone."""
        if self._read.is_whole:
            self._read, self._is_reported = FetchRead(), True
            self._look = self._new_look(now)
            if timed_out:  # the idle ones have just been looked at
                self._asked, more = self._look.split(self._asked)
                self._idle += more
            else:
                self._asked, self._idle = self._look.split(self._context.asked)
            # Whatever is found is enough now. But if nothing is found, because only a marker came,
            # the fetch waits on: an old client would ask again at once.
            self._min_bytes = 0 if timed_out else min(self._min_bytes, 1)
        self.resume(now)

    @property
    def _is_final(self) -> bool:
        """Whether it is answered however little there is."""
        return self._read.has_news or not (self._read.results or self._idle)

    # --- reading

    def _too_little(self) -> FetchRead | None:
        """What there is, if that is less than the client wants at least, by a look at sizes; None:
        it may be enough, or it has to be read to be known."""
        if self._magic is None or self._replica_id >= 0:
            return None  # what goes out as it is costs as little to read as to look at
        found = FetchRead()
        for asked in self._asked:
            enough = min(self._min_bytes - found.size, asked.max_bytes, TURN_SIZE)
            try:
                _, partition = self._partition(asked)
                partition.check(asked.leader_epoch, leader=True)
                up_to = self._bound(partition)
                if asked.offset == up_to:  # most of those that wait
                    size: int | None = 0
                elif self._min_bytes <= 1:
                    return None
                else:
                    size = all_available(partition, asked.offset, up_to, max(enough, 1))
            except (ApiError, RecordsError, OSError):
                return None
            if size is None:
                return None
            found.add(Message(), partition, Contribution(b"", size, up_to))
        found.is_whole = True
        return found if found.results and found.size < self._min_bytes else None

    def _read_some(self, read: FetchRead, now: float) -> bool:
        """Reads the partitions that have not been read; whether that was all of them."""
        measured = 0
        for asked in self._asked[len(read.results) :]:
            if measured >= TURN_SIZE:
                return False
            before = read.size
            if not self._read_one(read, asked, now):
                return False
            if not isinstance(read.results[-1].records, ZeroCopySend):
                measured += read.size - before
        read.is_whole = True
        return True

    def _read_one(self, read: FetchRead, asked: Asked, now: float) -> bool:
        """Whether it is done with."""
        result = Message(key=asked.key, partition_index=asked.index, high_watermark=UNKNOWN)
        contribution = nothing(asked.offset)
        partition: Partition | None = None
        try:
            topic, partition = self._partition(asked)
            idle = self._look.before(partition)
            contribution = self._contribution(read, asked, topic, partition, result, now)
            if idle is not None and not contribution.source_size and contribution.is_whole:
                is_told = hasattr(result, "diverging_epoch")
                if not is_told and contribution.seen_to >= self._bound(partition):
                    asked.idle = idle
        except (ApiError, RecordsError, OSError) as error:
            read.has_news = True
            self._refuse(result, partition, error_code_of(error))
        except Exception:
            LOG.exception("a defect: partition %s of %s", asked.index, asked.topic)
            read.has_news = True
            result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        if not contribution.is_whole:
            self._starts[asked.key], self._so_far = contribution.seen_to, contribution
            return False
        if self._so_far is not None and self._so_far.source_size:
            del self._starts[asked.key]  # if it is read again, from its beginning
        self._so_far = None
        result.records = contribution.records
        read.add(result, partition, contribution)
        return True

    def _partition(self, asked: Asked) -> tuple[Topic, Partition]:
        """ApiError: there is none that may be read here."""
        topic, partition = self._find(asked)
        if topic is None and isinstance(asked.topic, bytes):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        if topic is None or partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic, partition

    def _find(self, asked: Asked) -> tuple[Topic | None, Partition | None]:
        topics, name = self._broker.topics, asked.topic
        topic = topics.by_id(name) if isinstance(name, bytes) else topics.get(name)
        return topic, None if topic is None else topic.partitions.get(asked.index)

    def _contribution(
        self,
        read: FetchRead,
        asked: Asked,
        topic: Topic,
        partition: Partition,
        result: Message,
        now: float,
    ) -> Contribution:
        is_follower = self._replica_id >= 0
        must_lead = is_follower or self._version < FOLLOWERS_SERVE_SINCE
        partition.check(asked.leader_epoch, leader=must_lead)
        high_watermark, start_offset = partition.high_watermark, partition.start_offset
        last_stable_offset = partition.last_stable_offset if self._magic is None else UNKNOWN
        up_to = last_stable_offset if self._is_committed else high_watermark
        if is_follower:
            up_to = self._bound(partition)
        result.aborted_transactions = None
        diverging = None
        if asked.last_epoch != UNKNOWN:
            diverging = _divergence(asked, partition, start_offset)
        if diverging is not None:
            contribution = nothing(asked.offset)
            result.diverging_epoch = Message(**diverging._asdict())
            read.has_news = True
        else:
            contribution = self._records(asked, topic, partition, up_to, start_offset, read.size)
            if self._is_committed:
                result.aborted_transactions = aborted_in(partition, asked.offset, contribution)
        if not self._is_reported and diverging is None and contribution.is_whole:
            self._note_follower(asked, partition, now)
        result.high_watermark = high_watermark
        result.last_stable_offset = last_stable_offset
        result.log_start_offset = start_offset
        return contribution

    def _records(
        self,
        asked: Asked,
        topic: Topic,
        partition: Partition,
        up_to: int,
        start_offset: int,
        size: int,
    ) -> Contribution:
        limits = Limits(
            max_bytes=max(0, min(asked.max_bytes, self._max_bytes - size)),
            first=not size or self._version < FIRST_BATCH_WHOLE_SINCE,
            is_hard=self._version < FIRST_BATCH_WHOLE_SINCE,
        )
        if self._magic is None and asked.offset == up_to and asked.offset >= start_offset:
            return nothing(up_to)  # as most are; nothing is read to find that out
        if self._magic is None and (self._version >= ZSTD_SINCE or self._replica_id >= 0):
            is_follower = self._replica_id >= 0
            return read_as_is(
                partition,
                asked.offset,
                up_to,
                limits,
                is_follower=is_follower,
                is_committed=self._is_committed,
                start=self._starts.get(asked.key),
            )
        may_convert = is_enabled(topic.config)
        names, config = names_of(self._exchange), self._broker.config
        if self._magic is None:
            policy = policy_for(config.policy, config.recode_rules, topic.name, names)
            recode = zstd_recode(policy, may_convert=may_convert)
            contribution = read_as_is(
                partition,
                asked.offset,
                up_to,
                limits,
                recode=recode,
                is_committed=self._is_committed,
                start=self._starts.get(asked.key),
            )
            if isinstance(contribution.records, LazyRecodedSend):
                self._exchange.client.is_converting = True
            return contribution
        if not may_convert and self._replica_id < 0:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        policy = config.policy
        if asked.offset < up_to:  # else there is nothing to convert
            policy = self._broker.chunk_budget.policy_for(self._exchange.client.id)
        policy = policy_for(policy, config.recode_rules, topic.name, names)
        return read_converted(
            partition,
            asked.offset,
            up_to,
            limits,
            magic=self._magic,
            policy=policy,
            budget=self._broker.memory_budget,
            start=self._starts.get(asked.key),
            so_far=self._so_far,
        )

    def _note_follower(self, asked: Asked, partition: Partition, now: float) -> None:
        """This answer has the high watermark of before, the next one has the new one [Kafka]."""
        epoch = self._exchange.request.body.replica_state.replica_epoch
        if partition.follower_fetched(self._replica_id, asked.offset, now, epoch):
            self._broker.purgatory.notify(partition.key)

    def _bound(self, partition: Partition) -> int:
        return partition.bound(self._replica_id, committed=self._is_committed)

    # --- answering

    def _refuse(self, result: Message, partition: Partition | None, code: ErrorCode) -> None:
        result.error_code = known_code(code, self._version)
        if partition is not None and code in NOT_LED and self._version >= LEADERS_TOLD_SINCE:
            result.current_leader = Message(
                leader_id=UNKNOWN if partition.leader is None else partition.leader,
                leader_epoch=partition.leader_epoch,
            )

    def _answer(self, now: float) -> None:
        body = self._context.answer(self._read.results, now)
        body.responses = [
            Message(**{_topic_field(topic): topic}, partitions=list(results))
            for topic, results in groupby(body.results, key=lambda result: result.key[0])
        ]
        self._exchange.reply(body)


def _divergence(asked: Asked, partition: Partition, start_offset: int) -> EpochEnd | None:
    """Where the client's records diverge from this log; None: nowhere [KIP-595]."""
    if asked.offset < start_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return partition.divergence(asked.offset, asked.last_epoch)


def _topic_field(topic: str | bytes) -> str:
    return "topic_id" if isinstance(topic, bytes) else "topic"


def aborted_in(partition: Partition, offset: int, contribution: Contribution) -> list[Message]:
    """The aborted transactions that a client leaves out of what it gets from `offset` on."""
    if contribution.source is None:
        return []
    return [
        Message(producer_id=one.producer_id, first_offset=one.first_offset)
        for one in partition.aborted(offset, contribution.source)
    ]
