"""Fetch sessions: a client that fetches many partitions names only those that changed [KIP-227].

Both sides remember the partitions of a session. A request contains only changes, and the response
has only partitions with new data. An epoch that grows with each request keeps both sides in step.

Not here: reading a partition (fetch_reader.py)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import SystemRandom
from threading import Lock
from typing import Final, Protocol, TypeAlias

from downconvert.access.rights import Access
from downconvert.broker.partition import Partition
from downconvert.broker.replication.leader_epochs import NO_EPOCH
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.fetch_versions import TOPIC_IDS_SINCE
from downconvert.protocol.schemas import Message

NO_SESSION: Final = 0
INITIAL, FINAL = 0, -1  # epochs of full requests; FINAL begins no session
EPOCH_MAX: Final = 2**31 - 1
ID_MAX: Final = 2**31 - 1
UNKNOWN: Final = -1  # an offset

# A session without a request for this long may be evicted by any other [FetchSession.scala].
IDLE_MAX: Final = 120.0  # seconds

LARGE: Final = 1_000  # partitions; a request for more takes more than a few milliseconds

# The limit of all sessions together. A partition takes some 300 bytes, and a request of 100 MB can
# name millions.
PARTITIONS_MAX: Final = 200_000
# Characters of a topic's name. A longer one, which no topic has, counts as more partitions.
NAME_SIZE: Final = 256

# The topic's name or id, as in the request, and the partition's index.
PartitionKey: TypeAlias = tuple[str | bytes, int]


@dataclass(frozen=True, slots=True)
class Idle:
    """A partition where nothing was found: the kind of request, and the partition's state."""

    partition: Partition
    request: tuple[int, bool]  # version, and whether it reads only committed records
    state: tuple[object, ...]
    leader_epoch: int


@dataclass(slots=True, eq=False)
class Asked:
    """A partition in a fetch request."""

    topic: str | bytes  # its name, or its id
    index: int
    offset: int
    max_bytes: int  # not negative
    leader_epoch: int
    last_epoch: int  # of the client's last record
    start_offset: int  # of a follower's log
    idle: Idle | None = None  # set if nothing was found for it

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.index


def asked_in(version: int, topics: Iterable[Message]) -> dict[PartitionKey, Asked]:
    """The partitions of a request. If a partition is named twice, the last one counts, as in
    Kafka."""
    found: dict[PartitionKey, Asked] = {}
    for topic in topics:
        name = topic.topic_id if version >= TOPIC_IDS_SINCE else topic.topic
        for one in topic.partitions:
            found[name, one.partition] = Asked(
                name,
                one.partition,
                one.fetch_offset,
                max(0, one.partition_max_bytes),  # a client may send a negative number
                max(NO_EPOCH, one.current_leader_epoch),  # any negative number means none
                max(NO_EPOCH, one.last_fetched_epoch),
                one.log_start_offset,
            )
    return found


class Context(Protocol):
    """The partitions of a request, with or without a session.

    is_session: whether the same partitions will be fetched again. skips_idle: whether the response
    may omit partitions without new data."""

    asked: list[Asked]
    is_session: bool
    skips_idle: bool

    def response(self, results: list[Message], now: float) -> Message:
        """The response's body. It has the `results` that are due, but not yet grouped into
        topics."""


@dataclass(slots=True, eq=False)
class Cached:
    """A partition of a session, and the last result sent to its client."""

    asked: Asked
    high_watermark: int = UNKNOWN
    start_offset: int = UNKNOWN

    def is_news(self, result: Message) -> bool:
        """Whether the response must contain this partition. Remembers the result."""
        fields = result.__dict__
        start, code = fields.get("log_start_offset", UNKNOWN), fields.get("error_code", 0)
        news = (
            has_records(result)
            or self.high_watermark != result.high_watermark
            or self.start_offset != start
            or code != ErrorCode.NONE
            or "diverging_epoch" in fields
        )
        # Errors are sent each time. So is the first result after an error.
        self.high_watermark = UNKNOWN if code else result.high_watermark
        self.start_offset = start
        return news


def has_records(result: Message) -> bool:
    records = result.records
    return bool(records.size if hasattr(records, "size") else len(records))


class Session:
    """The partitions of a client, in the order in which they are read."""

    __slots__ = (
        "access",
        "by_id",
        "epoch",
        "id",
        "is_privileged",
        "last_used",
        "partitions",
        "size",
    )

    def __init__(
        self,
        id_: int,
        cached: Iterable[Cached],
        *,
        by_id: bool,
        is_privileged: bool,
        now: float,
        access: Access | None = None,
    ) -> None:
        """`access`: the rights of its client. Clients with other rights may not use the session,
        because they may not know its topics. size: what its partitions count as."""
        self.id = id_
        self.access = access
        self.epoch = 1
        self.partitions = {one.asked.key: one for one in cached}
        self.size = sum(map(_size, self.partitions))
        self.by_id = by_id
        self.is_privileged = is_privileged
        self.last_used = now


class FetchSessions:
    """The sessions of a broker. Thread-safe."""

    def __init__(self, slots: int, random: Callable[[int, int], int] | None = None) -> None:
        self._slots = slots
        # Ids cannot be guessed, because any client that knows an id could disturb the session.
        self._random = random or SystemRandom().randint
        self._sessions: dict[int, Session] = {}  # the most recently used one at the end
        self.large: set[int] = set()  # the ids of those with many partitions
        self._partitions = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The number of partitions of all sessions. Long names count as several."""
        return self._partitions

    def begin(
        self,
        version: int,
        request: Message,
        now: float,
        *,
        is_follower: bool,
        access: Access | None = None,
    ) -> Context:
        """The context of a request. `access`: the client's rights. Raises ApiError for an
        unexpected session id or epoch, and for a session with other rights."""
        asked = asked_in(version, request.topics)
        id_, epoch = request.session_id, request.session_epoch
        if epoch in (INITIAL, FINAL):
            if id_ != NO_SESSION:
                with self._lock:
                    self._remove(id_)
            if epoch == FINAL:
                return Sessionless(list(asked.values()))
            by_id = version >= TOPIC_IDS_SINCE
            partitions = list(asked.values())
            return Full(self, partitions, by_id=by_id, is_follower=is_follower, access=access)
        forgotten = [
            (topic.topic_id if version >= TOPIC_IDS_SINCE else topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ]
        with self._lock:
            session = self._sessions.get(id_)
            if session is None or not (session.access is access or session.access == access):
                raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            if session.epoch != epoch:
                raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            if session.by_id != (version >= TOPIC_IDS_SINCE):
                raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
            return self._continue(session, asked, forgotten, now)

    def _continue(
        self,
        session: Session,
        asked: dict[PartitionKey, Asked],
        forgotten: list[PartitionKey],
        now: float,
    ) -> Context:
        partitions = session.partitions
        before = session.size
        for key, one in asked.items():
            if key in partitions:
                partitions[key].asked = one
            else:
                partitions[key] = Cached(one)
                session.size += _size(key)
        for key in forgotten:
            if partitions.pop(key, None) is not None:
                session.size -= _size(key)
        self._partitions += session.size - before
        if not partitions or self._partitions > PARTITIONS_MAX:
            self._remove(session.id)
            if partitions:
                raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return Sessionless(list(asked.values()))  # a partition may be both added and forgotten
        self._note_size(session)
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        session.last_used = now
        self._sessions[session.id] = self._sessions.pop(session.id)
        return Incremental(self, session, session.epoch, list(partitions.values()))

    def create(
        self,
        cached: list[Cached],
        *,
        by_id: bool,
        is_follower: bool,
        now: float,
        access: Access | None = None,
    ) -> int:
        """Creates a session and returns its id. 0: there are too many."""
        with self._lock:
            size = sum(_size(one.asked.key) for one in cached)
            if not cached or self._partitions + size > PARTITIONS_MAX:
                return NO_SESSION
            if len(self._sessions) >= self._slots and not self._evict(is_follower, now):
                return NO_SESSION
            id_ = self._random(1, ID_MAX)
            while id_ in self._sessions:
                id_ = self._random(1, ID_MAX)
            session = Session(
                id_, cached, by_id=by_id, is_privileged=is_follower, now=now, access=access
            )
            self._sessions[id_] = session
            self._partitions += size
            self._note_size(session)
            return id_

    def changed_results(
        self, session: Session, epoch: int, results: list[Message]
    ) -> list[Message]:
        """The results that are due. Partitions with records move to the end, so that every
        partition is first at some time. Raises ApiError if the session's epoch has advanced
        meanwhile."""
        with self._lock:
            if session.epoch != epoch:
                raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            partitions, due = session.partitions, []
            for result in results:
                key = result.key
                if key in partitions and partitions[key].is_news(result):
                    due.append(result)
                    if has_records(result):
                        partitions[key] = partitions.pop(key)
            return due

    def _note_size(self, session: Session) -> None:
        if len(session.partitions) >= LARGE:
            self.large.add(session.id)
        else:
            self.large.discard(session.id)

    def _evict(self, for_follower: bool, now: float) -> bool:
        """Makes room by evicting the least recently used session, if it was idle for too long, or
        if it is a consumer's and a follower needs the room."""
        for session in self._sessions.values():
            if now - session.last_used > IDLE_MAX or (for_follower and not session.is_privileged):
                self._remove(session.id)
                return True
            if not for_follower:
                return False
        return False

    def _remove(self, id_: int) -> None:
        session = self._sessions.pop(id_, None)
        if session is not None:
            self.large.discard(id_)
            self._partitions -= session.size
            session.epoch = FINAL  # invalidates its waiting requests


def _size(key: PartitionKey) -> int:
    """How many partitions it counts as."""
    return 1 + len(key[0]) // NAME_SIZE


class Sessionless:
    """A full fetch without a session."""

    is_session = skips_idle = False

    def __init__(self, asked: list[Asked]) -> None:
        self.asked = asked

    def response(self, results: list[Message], _now: float) -> Message:
        return Message(session_id=NO_SESSION, results=results)


class Full:
    """A full fetch that begins a session."""

    is_session, skips_idle = True, False

    def __init__(
        self,
        sessions: FetchSessions,
        asked: list[Asked],
        *,
        by_id: bool,
        is_follower: bool,
        access: Access | None,
    ) -> None:
        self.asked = asked
        self._sessions = sessions
        self._by_id = by_id
        self._is_follower = is_follower
        self._access = access

    def response(self, results: list[Message], now: float) -> Message:
        cached = [Cached(asked) for asked in self.asked]
        for one, result in zip(cached, results, strict=True):
            one.is_news(result)
        id_ = self._sessions.create(
            cached,
            by_id=self._by_id,
            is_follower=self._is_follower,
            now=now,
            access=self._access,
        )
        return Message(session_id=id_, results=results)


class Incremental:
    """An incremental fetch."""

    is_session = skips_idle = True

    def __init__(
        self, sessions: FetchSessions, session: Session, epoch: int, cached: list[Cached]
    ) -> None:
        self.asked = [one.asked for one in cached]
        self._sessions = sessions
        self._session = session
        self._epoch = epoch

    def response(self, results: list[Message], _now: float) -> Message:
        try:
            due = self._sessions.changed_results(self._session, self._epoch, results)
        except ApiError as error:
            return Message(error_code=error.code, session_id=self._session.id, results=[])
        return Message(session_id=self._session.id, results=due)
