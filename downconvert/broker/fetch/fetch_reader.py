"""Reads the partitions of one fetch, one after the other.

The order of decisions for each partition is Kafka's (KafkaApis, ReplicaManager). A partition that
cannot be read gets an error, and the others get their records. If much must be converted, the fetch
is read in turns, and other requests are handled between two turns.

Not here: the records of one partition (reading.py, reading_converted.py), the policy of conversions
(conversions.py), when a fetch is answered and when it waits (handlers/fetch.py)."""

from typing import Final

from downconvert.access.operations import READ, Kind
from downconvert.access.permissions import allows
from downconvert.access.quotas import WINDOW
from downconvert.broker.exchange import Exchange
from downconvert.broker.partition import Partition
from downconvert.broker.replication.leader_epochs import EpochEnd
from downconvert.broker.state import BrokerState
from downconvert.broker.topics import Topic
from downconvert.conversion.plan import SMALL_SIZE_MAX
from downconvert.conversion.recode import LazyRecodedSend
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.fetch_versions import (
    FIRST_BATCH_WHOLE_SINCE,
    FOLLOWERS_SERVE_SINCE,
    LEADERS_TOLD_SINCE,
    ZSTD_SINCE,
    known_code,
)
from downconvert.protocol.schemas import Message
from downconvert.serving.conversions import names_of, zstd_recode
from downconvert.serving.fetch_assembly import error_code_of
from records import RecordsError
from records.files.zero_copy import ZeroCopySend
from records.logged import log_of
from records.units import MiB

from .contribution import (
    RECORDS_SIZE_MAX,
    Contribution,
    FetchPause,
    Reading,
    ReadLimits,
    nothing,
)
from .fetch_read import FetchRead
from .fetch_request import FetchRequest
from .idle import IdleLook
from .reading import all_available, read_as_is
from .reading_converted import Reader, read_converted
from .session import Asked

LOG: Final = log_of(__name__)
UNKNOWN: Final = -1  # an offset, an epoch

# Bytes of the log measured in one turn. A turn takes a millisecond if nothing is compressed, and
# some tens of milliseconds if everything is recompressed.
MEASURED_SIZE_MAX: Final = MiB

PARTITIONS_A_TURN: Final = 1_000  # some milliseconds, if there is little to read

NOT_LED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class FetchReader:
    """Reads for one fetch, in the thread that owns its exchange.

    max_bytes: of the log, in the whole response. is_reported: whether the follower's offset has
    been noted."""

    def __init__(self, broker: BrokerState, exchange: Exchange, request: FetchRequest) -> None:
        self._broker = broker
        self._exchange = exchange
        self._request = request
        self.max_bytes = max(0, min(request.max_bytes, broker.config.fetch_max_bytes))
        access = exchange.client.access
        if access is not None and access.consumer_byte_rate is not None:
            self.max_bytes = min(self.max_bytes, int(access.consumer_byte_rate * WINDOW))
        self._access = access if access is not None and access.is_closed else None
        self.is_reported = not request.is_follower

    def below_min_bytes(
        self, asked_for: list[Asked], min_bytes: int, now: float
    ) -> FetchRead | None:
        """The available bytes, if sizes alone show that they are less than `min_bytes`. None: there
        may be enough, or only reading shows it."""
        if self._request.magic is None or self._request.is_follower:
            return None  # reading unconverted records costs as little as checking them
        found = FetchRead()
        for asked in asked_for:
            enough = min(min_bytes - found.size, asked.max_bytes, MEASURED_SIZE_MAX)
            try:
                _, partition = self._partition(asked)
                partition.check(asked.leader_epoch, leader=True)
                # Clients of older formats read up to the high watermark. This fixes the
                # state of the log that later reads use.
                _, up_to, _ = partition.offsets(asked.offset, now, stable=False)
                if asked.offset == up_to:  # true for most waiting fetches
                    size: int | None = 0
                elif min_bytes <= 1:
                    return None
                else:
                    size = all_available(partition, asked.offset, up_to, max(enough, 1))
            except (ApiError, RecordsError, OSError):
                return None
            if size is None:
                return None
            found.add(Message(), partition, Contribution(b"", size, up_to))
        found.is_whole = True
        return found if found.results and found.size < min_bytes else None

    def read_some(
        self, read: FetchRead, asked_for: list[Asked], look: IdleLook | None, now: float
    ) -> FetchPause | None:
        """Reads as many further partitions as fit a turn into `read`. Returns the pause that must
        follow, or None if all are read."""
        measured, start = 0, len(read.results)
        for asked in asked_for[start : start + PARTITIONS_A_TURN]:
            if measured >= MEASURED_SIZE_MAX:
                return FetchPause.TURN
            before = read.size
            pause = self._read_one(read, asked, look, now)
            if pause is not None:
                return pause
            if not isinstance(read.results[-1].records, ZeroCopySend):
                measured += read.size - before
        if len(read.results) < len(asked_for):
            return FetchPause.TURN
        read.is_whole = True
        return None

    def _read_one(
        self, read: FetchRead, asked: Asked, look: IdleLook | None, now: float
    ) -> FetchPause | None:
        """Reads one partition. Returns the pause that must follow, or None if the partition is
        complete."""
        index = asked.index
        result = Message(key=(asked.topic, index), partition_index=index, high_watermark=UNKNOWN)
        contribution: Contribution | None = None
        partition: Partition | None = None
        try:
            topic, partition = self._partition(asked)
            idle = None if look is None else look.before(partition)
            found = self._contribution(read, asked, topic, partition, result, now)
            if isinstance(found, FetchPause):
                return found
            contribution = found
            if idle is not None and not contribution.source_size:
                has_diverged = hasattr(result, "diverging_epoch")
                if not has_diverged and contribution.scanned_end_offset >= self.bound(partition):
                    asked.idle = idle
        except (ApiError, RecordsError, OSError) as error:
            read.has_news = True
            self._refuse(result, partition, error_code_of(error))
        except Exception:
            LOG.exception("a defect: partition %s of %s", index, asked.topic)
            read.has_news = True
            result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        self._exchange.work = None
        if contribution is None:
            contribution = nothing(asked.offset)
        result.records = contribution.records
        read.add(result, partition, contribution)
        return None

    def _partition(self, asked: Asked) -> tuple[Topic, Partition]:
        """The topic and the partition. Raises ApiError if they are missing, or may not be read."""
        if self._access is not None and not self._may_read(asked.topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topics = self._broker.topics
        if isinstance(asked.topic, str):
            topic = topics.by_name.get(asked.topic)
        elif (topic := topics.by_id(asked.topic)) is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = None if topic is None else topic.partitions.get(asked.index)
        if topic is None or partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic, partition

    def _may_read(self, name: str | bytes) -> bool:
        """Whether a client with limited rights may read a topic. Such clients are not offered
        versions with topic ids."""
        assert self._access is not None
        return isinstance(name, str) and allows(self._access, Kind.TOPIC, name, READ)

    def _contribution(
        self,
        read: FetchRead,
        asked: Asked,
        topic: Topic,
        partition: Partition,
        result: Message,
        now: float,
    ) -> Contribution | FetchPause:
        request = self._request
        must_lead = request.is_follower or request.version < FOLLOWERS_SERVE_SINCE
        partition.check(asked.leader_epoch, leader=must_lead)
        reports_stable_offset = request.magic is None  # the last stable offset
        start_offset, high_watermark, last_stable_offset = partition.offsets(
            asked.offset, now, stable=reports_stable_offset
        )
        last_stable_offset = last_stable_offset if reports_stable_offset else UNKNOWN
        up_to = last_stable_offset if request.is_committed else high_watermark
        if request.is_follower:
            up_to = self.bound(partition)
        result.aborted_transactions = None
        diverging = None
        if asked.last_epoch != UNKNOWN:
            diverging = _divergence(asked, partition, start_offset)
        if diverging is not None:
            contribution: Contribution = nothing(asked.offset)
            result.diverging_epoch = Message(**diverging._asdict())
            read.has_news = True
        else:
            found: Contribution | Reading | None = self._exchange.work
            if found is None:
                found = self._records(read, asked, topic, partition, up_to, start_offset)
            if isinstance(found, Contribution):
                contribution = found
            else:
                self._exchange.work = found
                try:
                    pause = next(found)
                except StopIteration as end:
                    contribution = end.value
                else:
                    self._exchange.holds_turns = True
                    return pause
                self._note_conversion(contribution, topic, read)
            if request.is_committed:
                result.aborted_transactions = aborted_in(partition, asked.offset, contribution)
        if not self.is_reported and diverging is None:
            self._note_follower(asked, partition, now)
        result.high_watermark = high_watermark
        result.last_stable_offset = last_stable_offset
        result.log_start_offset = start_offset
        return contribution

    def _records(
        self,
        read: FetchRead,
        asked: Asked,
        topic: Topic,
        partition: Partition,
        up_to: int,
        start_offset: int,
    ) -> Contribution | Reading:
        """The records of a partition, or the turns in which they are read."""
        request, size, made_size = self._request, read.size, read.made_size
        magic = request.magic
        if magic is None and asked.offset == up_to and asked.offset >= start_offset:
            return nothing(up_to)  # the usual case, found without reading
        if made_size > self._broker.config.fetch_max_bytes:
            return nothing(asked.offset)  # a later fetch gets the records
        is_hard = request.version < FIRST_BATCH_WHOLE_SINCE
        max_bytes = max(0, min(asked.max_bytes, self.max_bytes - size))
        left = RECORDS_SIZE_MAX - made_size
        limits = ReadLimits(max_bytes, is_hard or not size, is_hard, left)
        if magic is None and (request.version >= ZSTD_SINCE or request.is_follower):
            return read_as_is(
                partition,
                asked.offset,
                up_to,
                limits,
                is_follower=request.is_follower,
                is_committed=request.is_committed,
            )
        return self._converted(asked, topic, partition, up_to, limits)

    def _converted(
        self, asked: Asked, topic: Topic, partition: Partition, up_to: int, limits: ReadLimits
    ) -> Contribution | Reading:
        """The records for a client that cannot read all formats, or not all codecs."""
        request, magic, may_convert = self._request, self._request.magic, topic.may_convert
        broker, exchange = self._broker, self._exchange
        config, client, cache = broker.config, exchange.client, broker.conversion_cache
        reader = Reader(broker.planning_slots, client.id, exchange.wake, cache)
        client_id = exchange.request.header.client_id
        names = names_of(client.software_name, client.software_version, client_id)
        if magic is None:
            policy = broker.policies.policy_for(config.policy, topic.name, names)
            recode = zstd_recode(policy, may_convert=may_convert)
            return read_as_is(
                partition,
                asked.offset,
                up_to,
                limits,
                reader=reader,
                recode=recode,
                is_committed=request.is_committed,
            )
        if not may_convert and not request.is_follower:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        policy = broker.chunk_budget.small
        # A small range needs no large chunks.
        if asked.offset < up_to and limits.max_bytes > SMALL_SIZE_MAX:
            exchange.holds_turns = True
            policy = broker.chunk_budget.policy_for(client.id)
        policy = broker.policies.policy_for(policy, topic.name, names)
        return read_converted(
            partition,
            asked.offset,
            up_to,
            limits,
            magic=magic,
            policy=policy,
            reader=reader,
        )

    def _note_conversion(self, contribution: Contribution, topic: Topic, read: FetchRead) -> None:
        """Counts converted bytes, and notes whether the client's fetches may take long. `read`: the
        earlier partitions."""
        records, made_size = contribution.records, 0
        if not isinstance(records, bytes | ZeroCopySend):
            made_size = records.size
            read.made_size += made_size
        if isinstance(records, LazyRecodedSend):
            self._exchange.client.is_converting = True
        elif self._request.magic is not None:
            if not isinstance(records, bytes):
                read.converted.append((topic.name, records))
            if read.size + max(contribution.source_size, made_size) > SMALL_SIZE_MAX:
                self._exchange.client.is_converting = True

    def _note_follower(self, asked: Asked, partition: Partition, now: float) -> None:
        """Notes the follower's offset. As in Kafka, this response still has the high watermark from
        before, and the next response has the new one."""
        epoch = self._exchange.request.body.replica_state.replica_epoch
        if partition.follower_fetched(self._request.replica_id, asked.offset, now, epoch):
            self._broker.purgatory.notify(partition.key)

    def bound(self, partition: Partition) -> int:
        """The offset below which this client may read."""
        request = self._request
        return partition.bound(request.replica_id, committed=request.is_committed)

    def _refuse(self, result: Message, partition: Partition | None, code: ErrorCode) -> None:
        version = self._request.version
        result.error_code = known_code(code, version)
        if partition is not None and code in NOT_LED and version >= LEADERS_TOLD_SINCE:
            result.current_leader = Message(
                leader_id=UNKNOWN if partition.leader is None else partition.leader,
                leader_epoch=partition.leader_epoch,
            )


def _divergence(asked: Asked, partition: Partition, start_offset: int) -> EpochEnd | None:
    """Where the client's log diverges from this log [KIP-595]. None: nowhere."""
    if asked.offset < start_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return partition.divergence(asked.offset, asked.last_epoch)


def aborted_in(partition: Partition, offset: int, contribution: Contribution) -> list[Message]:
    """The aborted transactions among the records from `offset` on, which the client leaves out."""
    if contribution.source is None:
        return []
    return [
        Message(producer_id=one.producer_id, first_offset=one.first_offset)
        for one in partition.aborted(offset, contribution.source)
    ]
