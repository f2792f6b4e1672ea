"""Fetch sessions: a client that fetches many partitions names only those that changed [KIP-227].

Both sides remember the partitions of a session. A request contains only changes, and the response
has only partitions with new data. An epoch that grows with each request keeps both sides in step.

Not here: one session (session.py), reading a partition (fetch_reader.py)."""

from collections.abc import Callable, Iterable
from random import SystemRandom
from threading import Lock
from typing import Final, Protocol

from downconvert.access.rights import Access
from downconvert.broker.replication.leader_epochs import NO_EPOCH
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.fetch_versions import TOPIC_IDS_SINCE
from downconvert.protocol.schemas import Message

from .session import IDLE_MAX, Asked, Cached, PartitionKey, Session, has_records, size_of

NO_SESSION: Final = 0
INITIAL, FINAL = 0, -1  # epochs of full requests; FINAL begins no session
EPOCH_MAX: Final = 2**31 - 1
ID_MAX: Final = 2**31 - 1

LARGE: Final = 1_000  # partitions; a request for more takes more than a few milliseconds

# The limit of all sessions together. A partition takes some 300 bytes, and a request of 100 MB can
# name millions.
PARTITIONS_MAX: Final = 200_000


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
                session.size += size_of(key)
        for key in forgotten:
            if partitions.pop(key, None) is not None:
                session.size -= size_of(key)
        self._partitions += session.size - before
        session.last_used = now
        self._sessions[session.id] = self._sessions.pop(session.id)
        if not partitions or not self._has_room(0, now):
            self._remove(session.id)
            if partitions:
                raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return Sessionless(list(asked.values()))  # a partition may be both added and forgotten
        self._note_size(session)
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
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
            size = sum(size_of(one.asked.key) for one in cached)
            if not cached or not self._has_room(size, now):
                return NO_SESSION
            value = (is_follower, len(cached))
            if len(self._sessions) >= self._slots and not self._evict(value, now):
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

    def _has_room(self, size: int, now: float) -> bool:
        """Whether partitions of this size fit in. If not, sessions that were idle for too long are
        removed. Otherwise one large session would keep all others out, long after its client has
        gone."""
        while self._partitions + size > PARTITIONS_MAX:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now - oldest.last_used <= IDLE_MAX:
                return False
            self._remove(oldest.id)
        return True

    def _evict(self, value: tuple[bool, int], now: float) -> bool:
        """Makes room for a session of this value. Evicts the least recently used session, if it
        was idle for too long. Otherwise, the least valuable one, if it is worth less."""
        found: Session | None = next(iter(self._sessions.values()), None)
        if found is None:
            return False
        if now - found.last_used <= IDLE_MAX:
            is_follower, _ = value
            candidates = (
                one
                for one in self._sessions.values()
                if one.may_make_room(for_follower=is_follower)
            )
            found = min(candidates, key=lambda one: one.value, default=None)
            if found is None or found.value >= value:
                return False
        self._remove(found.id)
        return True

    def _remove(self, id_: int) -> None:
        session = self._sessions.pop(id_, None)
        if session is not None:
            self.large.discard(id_)
            self._partitions -= session.size
            session.epoch = FINAL  # invalidates its waiting requests


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
