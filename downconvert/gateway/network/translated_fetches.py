"""The old fetches of one client, which are translated in callbacks, one at a time.

Not here: how one is translated (translating.py), its time-outs, and sending its response
(passing.py)."""

from functools import partial
from struct import Struct
from typing import Final

from downconvert.gateway.figures import Counters
from downconvert.gateway.session.client_identity import FETCH
from downconvert.gateway.session.exchanges import Ask, Response
from downconvert.gateway.session.repeated import key_of
from downconvert.gateway.session.session import Session
from downconvert.protocol.fetch_versions import AS_ON_DISK_SINCE
from downconvert.protocol.schemas import ApiKey

from .translating import Translation
from .upstream import LENGTH, Upstream, framed

START: Final = Struct(">i4si")  # length, API and version, correlation id
# API and version of the requests that are translated here.
OLD_FETCHES: Final = frozenset(
    ApiKey.Fetch.to_bytes(2) + version.to_bytes(2) for version in range(AS_ON_DISK_SINCE)
)


class TranslatedFetches:
    """`current`: the fetch that is under way; None: there is none."""

    __slots__ = ("_counters", "_session", "_time", "current")

    def __init__(self, session: Session, counters: Counters) -> None:
        self._session = session
        self._counters = counters
        self._time = 0.0  # time of day at which the current fetch arrived
        self.current: Translation | None = None

    def size_of(self, data: memoryview) -> int:
        """The size of the old fetch at the start of the received bytes, with its length field. 0:
        there is none, so the task handles them."""
        if len(data) < START.size:
            return 0
        size, kind, _ = START.unpack_from(data)
        stop: int = LENGTH.size + size
        is_whole = kind in OLD_FETCHES and stop <= len(data)
        return stop if is_whole and self._session.is_settled else 0

    def begin(self, data: memoryview, upstream: Upstream, now: float, time: float) -> bool:
        """Sends a fetch, a frame with its length, to the cluster. Returns False if the task must
        continue instead. `now`: by the event loop's clock. `time`: of day.

        Raises errors of the exchange and ConnectionEndedError."""
        session, whole = self._session, memoryview(bytes(data))
        session.identity.begin_request()
        exchange = partial(session.exchange, whole[LENGTH.size :], len(whole) - LENGTH.size, time)
        known, self._time = session.repeated.get(key_of(whole)), time
        self.current = translation = Translation(exchange, whole, now, known)
        if not translation.begin(upstream):
            return False
        if translation.repeated is None:
            assert isinstance(translation.step, Ask)
            session.remember(
                whole, translation.step, partial(framed, client_id=session.full_client_id)
            )
        return True

    def take(self, data: memoryview, upstream: Upstream) -> memoryview | bytearray | None:
        """Takes a whole response of the cluster, a frame. Returns the client's response. None: the
        cluster has been asked again, or the task must continue. Raises as `begin` does."""
        translation, session = self.current, self._session
        assert translation is not None
        if translation.take(data, upstream):
            return None
        answered, repeated = translation.answered, translation.repeated
        if answered is not None:
            assert repeated is not None
            repeated.count(answered, session.shared, self._time)
            session.client_id = repeated.user.client_id
            return answered.frame
        found = translation.whole_response()
        if found is None:
            return None
        assert isinstance(translation.step, Response)
        if translation.step.errors:
            self._counters.errors_answered(FETCH, translation.step.errors)
        send, frame = found
        session.sent(send)
        return frame

    def finish(self, sent: int, now: float) -> None:
        """Ends and counts the current fetch. Its response has `sent` bytes."""
        translation, self.current = self.current, None
        assert translation is not None
        memory = self._session.identity.memory
        if memory.taken:  # few fetches need it
            memory.release()
        sizes = LENGTH.size + len(translation.frame), sent
        seconds = now - translation.started
        self._counters.request_served(FETCH, seconds, self._session.rule, *sizes)

    def hand_over(self) -> Translation:
        """Gives the current fetch to the task."""
        translation, self.current = self.current, None
        assert translation is not None
        translation.begin_exchange()
        return translation
