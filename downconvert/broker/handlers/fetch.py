"""Fetch: records from an offset on, in the client's format.

A response waits under the same conditions as in Kafka (ReplicaManager, DelayedFetch). A fetch that
finds too little waits. When there is more, or its time is up, all of it is read again. For a client
that needs conversion, sizes are checked first, so that nothing is converted if the log has too
little.

Not here: how each partition is read (fetch_reader.py), sessions (fetch_session.py)."""

from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.fetch.contribution import FetchPause, nothing
from downconvert.broker.fetch.fetch_read import FetchRead
from downconvert.broker.fetch.fetch_reader import FetchReader
from downconvert.broker.fetch.fetch_request import WAIT_MAX, FetchRequest, request_of
from downconvert.broker.fetch.fetch_session import LARGE, Context
from downconvert.broker.fetch.idle import IdleLook
from downconvert.broker.fetch.reading import available, ends_with_its_segment
from downconvert.broker.fetch.session import Asked
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.fetch_versions import FLEXIBLE_SINCE, TOPIC_IDS_SINCE
from downconvert.protocol.known_requests import FRAME_SIZE_MAX
from downconvert.protocol.requests import Request
from downconvert.protocol.schemas import Message
from records import RecordsError

UNKNOWN: Final = -1  # an offset


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    request = exchange.request
    wanted = request.derived
    if wanted is None:
        try:
            wanted = request.derived = request_of(request.version, request.body)
        except ApiError as error:
            exchange.reply(_refused(request, error.code))
            return
    assert isinstance(wanted, FetchRequest)
    context: Context | None = wanted.context
    if context is None:
        try:
            context = broker.fetch_sessions.begin(
                request.version,
                request.body,
                now,
                is_follower=wanted.is_follower,
                access=exchange.client.access,
            )
        except ApiError as error:
            exchange.reply(Message(error_code=error.code))
            return
    if request.size > FRAME_SIZE_MAX:  # smaller requests are shared, and must not change
        # While the fetch waits, it holds only the partitions that it needs, and not the whole
        # request.
        request.body.topics, request.body.forgotten_topics_data = [], []
    Fetch(broker, exchange, context, wanted, now).begin(now)


def _refused(request: Request, code: ErrorCode) -> Message:
    """The response to a request that is invalid as a whole. In versions without topic ids, each
    partition has the error, because the oldest versions have no field for an error of the
    request."""
    topics = request.body.topics if request.version < TOPIC_IDS_SINCE else []
    return Message(
        error_code=code,
        responses=[
            Message(
                topic=topic.topic,
                partitions=[
                    Message(
                        partition_index=one.partition,
                        error_code=code,
                        high_watermark=UNKNOWN,
                        records=b"",
                    )
                    for one in topic.partitions
                ],
            )
            for topic in topics
        ],
    )


class Fetch:
    """A fetch until its response. It waits for records in the purgatory, or for its next turn in
    its exchange's owner."""

    def __init__(
        self,
        broker: BrokerState,
        exchange: Exchange,
        context: Context,
        request: FetchRequest,
        now: float,
    ) -> None:
        self._broker = broker
        self._exchange = exchange
        self._context = context
        self._request = request
        self._reader = reader = FetchReader(broker, exchange, request)
        self._min_bytes = min(request.min_bytes, max(reader.max_bytes, 1))  # it gets no more
        named = exchange.request.elements
        self._deadline = now + min(request.wait, WAIT_MAX * LARGE / max(named, LARGE))
        self._asked = context.asked  # without the idle ones
        self._idle: list[Asked] = []
        self._look = self._new_look(now) if context.is_session else None
        self._read = FetchRead()
        self._has_looked = False  # whether logs of other processes were just checked

    # --- turns, and waiting

    def begin(self, now: float) -> None:
        """Reads, unless sizes alone show that there is too little data to convert."""
        if self._look is not None:
            self._asked, self._idle = self._look.split(self._asked)
        found = None
        if self._deadline > now:
            found = self._reader.below_min_bytes(self._asked, self._min_bytes, now)
        if found is None:
            self.resume(now)
        else:
            self._wait(found, now)

    def resume(self, now: float) -> None:
        """Continues reading. Then answers, or waits for more records or for the next turn."""
        read = self._read
        pause = self._reader.read_some(read, self._asked, self._look, now)
        if pause is FetchPause.TURN:
            self._exchange.post_turn(self.resume)
        elif pause is FetchPause.WAKE:
            self._exchange.pause(self.resume)
        elif read.size >= self._min_bytes or self._deadline <= now or self._is_final:
            self._answer(now)
        else:
            read.drop_records()
            self._broker.chunk_budget.release(self._exchange.client.id)
            self._wait(read, now)

    def _wait(self, read: FetchRead, now: float) -> None:
        self._read = read
        keys = [partition.key for partition, _, _ in read.found if partition is not None]
        keys += [asked.idle.partition.key for asked in self._idle if asked.idle is not None]
        self._has_looked = True
        self._broker.purgatory.watch(self, keys, now, self._deadline, self._exchange)

    def is_due(self) -> bool:
        """Whether there are enough records now, or a partition has changed in another way."""
        read = self._read
        if not read.is_whole:
            return False
        size = 0
        # The first call, at the start of the wait, finds changes that came before and so notified
        # nobody. Logs of other processes were checked just before it. Their changes never notify,
        # so later calls check them, too.
        has_looked, self._has_looked = self._has_looked, False
        idle_ones = self._new_look(0.0).changed(self._idle, written_here=has_looked)
        looked_at = [
            *zip(self._asked, read.found, strict=True),
            *(
                (asked, (idle.partition, idle.leader_epoch, nothing(asked.offset)))
                for asked, idle in idle_ones
            ),
        ]
        for asked, (partition, epoch, contribution) in looked_at:
            if partition is None:
                continue
            if partition.leader_epoch != epoch:
                return True
            up_to, scanned_end_offset = (
                self._reader.bound(partition),
                contribution.scanned_end_offset,
            )
            if up_to > scanned_end_offset and self._min_bytes <= 1:
                return True
            is_one_range = self._request.magic is None and contribution.source_size
            if is_one_range and ends_with_its_segment(partition, asked.offset, up_to):
                return True  # it gets no more, however long it waits
            try:
                more = available(
                    partition, max(asked.offset, scanned_end_offset), up_to, asked.max_bytes
                )
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
            (self._request.version, self._request.is_committed),
            self._broker.time_of_day.at(now),  # times of files are times of day
            is_follower=self._request.is_follower,
        )

    def complete(self, now: float, *, timed_out: bool) -> None:
        """Reads everything again, because the earlier records may have been deleted."""
        if self._read.is_whole:
            self._read, self._reader.is_reported = FetchRead(), True
            if self._context.is_session:
                self._look = self._new_look(now)
            if self._look is None:
                self._asked = self._context.asked
            elif timed_out:  # idle partitions have just been checked
                self._asked, more = self._look.split(self._asked)
                self._idle += more
            else:
                self._asked, self._idle = self._look.split(self._context.asked)
            # Any records are enough now. If there are none, because only a marker was written, the
            # fetch keeps waiting, because an old client would repeat it at once.
            self._min_bytes = 0 if timed_out else min(self._min_bytes, 1)
        self.resume(now)

    @property
    def _is_final(self) -> bool:
        """Whether to answer now, even without records."""
        return self._read.has_news or not (self._read.results or self._idle)

    # --- answering

    def _answer(self, now: float) -> None:
        body = self._context.response(self._read.results, now)
        if self._read.has_news and _cannot_say(self._request.version, body.results):
            code = ErrorCode.UNSUPPORTED_VERSION
            body = Message(error_code=code, session_id=body.session_id, results=[])
        body.responses = []
        before: str | bytes | None = None
        partitions: list[Message] = []
        for result in body.results:
            topic = result.key[0]
            if topic != before:
                before, partitions = topic, []
                field = "topic_id" if isinstance(topic, bytes) else "topic"
                body.responses.append(Message(**{field: topic, "partitions": partitions}))
            partitions.append(result)
        self._exchange.converted = self._read.converted
        self._exchange.reply(body)


def _cannot_say(version: int, results: list[Message]) -> bool:
    """Whether a log has diverged from the client's, and the version has no field for that. A later
    version has begun the session then. Kafka refuses it, too."""
    return version < FLEXIBLE_SINCE and any(hasattr(one, "diverging_epoch") for one in results)
