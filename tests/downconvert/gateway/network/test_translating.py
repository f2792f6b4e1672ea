"""An old fetch on its way through callbacks, step by step: when it is asked, taken and left."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from downconvert import ConversionPolicy, LazyRecodedRecords
from downconvert.gateway.network import translating
from downconvert.gateway.network.sockets.streams import PIECE_SIZE
from downconvert.gateway.network.translated_fetches import OLD_FETCHES
from downconvert.gateway.network.translating import Translation
from downconvert.gateway.network.upstream import framed
from downconvert.gateway.session.exchanges import TURN, Ask, HangUp, Reply, Response, Steps
from downconvert.gateway.session.repeated import RepeatedFetch, User
from downconvert.gateway.session.waiting import LONGEST
from downconvert.protocol.responses import ResponseSend
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec, MemoryRecords
from tests.downconvert.broker.asking import frame
from tests.downconvert.gateway.serving import LENGTH
from tests.downconvert.gateway.session.test_repeated import ASKED_ID, batch, of_cluster
from tests.downconvert.gateway.talk import fetch_body
from tests.downconvert.storage.logs import batch as stored

from .sides import Side, Upstream

VERSION = 3
CLUSTERS_VERSION = 12
USER = User(None, "c", "p")  # type: ignore[arg-type]  # nothing is counted
READ_WHOLE = of_cluster(batch(), high_watermark=8)


def to_broker(*, may_write: bool = True) -> Upstream:
    """A connection to a broker that sends nothing on."""
    made = Upstream(Side("the broker"), last_id=ASKED_ID - 1)
    made.stream.is_writable = may_write
    return made


def asked(wait: int = 0) -> Ask:
    return Ask(ApiKey.Fetch, CLUSTERS_VERSION, fetch_body(3, wait=wait))


def request(wait: int = 0) -> memoryview:
    data = frame(ApiKey.Fetch, VERSION, fetch_body(3, max_bytes=300, wait=wait))
    return memoryview(LENGTH.pack(len(data)) + data)


def translation(*yielded: Any, reply: Reply | None = None, known: Any = None) -> Translation:
    def exchange() -> Steps:
        yield from (step for step in yielded)
        return reply or Response(ResponseSend([bytearray(b"answer")]))

    return Translation(exchange, request(), 1.5, known)


def repeated(wait: int = 0) -> RepeatedFetch:
    body = fetch_body(3, max_bytes=300, wait=wait)
    ask = Ask(ApiKey.Fetch, CLUSTERS_VERSION, body)
    data = framed(ask)
    at = len(data) - 30
    return RepeatedFetch(VERSION, body, data, at, ConversionPolicy(), USER)


def test_exactly_the_fetches_of_old_formats_are_translated() -> None:
    assert {(int.from_bytes(one[:2]), int.from_bytes(one[2:])) for one in OLD_FETCHES} == {
        (ApiKey.Fetch, version) for version in range(4)
    }


@pytest.mark.parametrize(("wait", "seconds"), [(-1, 0), (7000, 7), ((1 << 31) - 1, LONGEST)])
def test_the_cluster_may_wait_as_long_as_the_client_said(wait: int, seconds: float) -> None:
    first = translation(asked(wait))
    first.begin(to_broker())  # type: ignore[arg-type]
    assert first.wait == seconds
    again = translation(asked(), known=repeated(wait))
    again.begin(to_broker())  # type: ignore[arg-type]
    assert again.wait == seconds


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("may_write", [True, False])
def test_the_cluster_is_asked_at_once_if_it_takes_requests(is_known: bool, may_write: bool) -> None:
    upstream = to_broker(may_write=may_write)
    one = translation(asked(), known=repeated() if is_known else None)
    assert one.begin(upstream) is may_write  # type: ignore[arg-type]
    assert len(upstream.stream.writes) == may_write
    assert one.is_for_task is not may_write
    assert one.correlation_id == (ASKED_ID if may_write else None)
    assert (one.repeated is not None) == (is_known and may_write)
    if one.repeated is None:
        assert isinstance(one.step, Ask)


def test_an_exchange_begins_early_if_the_last_response_was_large() -> None:
    known = repeated()
    known.is_large = True
    one = translation(asked(), known=known)
    assert one.begin(to_broker())  # type: ignore[arg-type]
    assert one.repeated is None
    assert isinstance(one.step, Ask)


@pytest.mark.parametrize(
    "step",
    [
        TURN,
        Ask(ApiKey.Fetch, VERSION, None),
        Ask(ApiKey.Produce, 9, Message(acks=0, timeout_ms=5, topic_data=[])),
    ],
    ids=["takes time", "is the client's own", "has no response"],
)
def test_a_step_other_than_a_request_with_a_response_is_left_to_the_task(step: Any) -> None:
    def exchange() -> Iterator[Any]:
        while True:
            yield step
            time.sleep(0.002)  # longer than the event loop may work for one client

    upstream = to_broker()
    one = Translation(exchange, request(), 1.5)  # type: ignore[arg-type]
    assert not one.begin(upstream)  # type: ignore[arg-type]
    assert one.is_for_task
    assert one.step is step
    assert not upstream.stream.writes


@pytest.mark.parametrize(
    ("size", "is_small"),
    [(3, False), (4, True), (PIECE_SIZE - 4, True), (PIECE_SIZE - 3, False), (-1, False)],
)
def test_a_response_of_a_piece_at_most_is_taken_in_one_call(size: int, is_small: bool) -> None:
    known = repeated()
    known.is_large = is_small
    one = translation(asked(), known=known)
    one.begin(to_broker())  # type: ignore[arg-type]
    assert one.is_small(size) is is_small
    assert one.is_for_task is not is_small
    assert known.is_large is not is_small  # as the next one is expected to be


def test_a_known_response_is_made_without_an_exchange() -> None:
    one = translation(asked(), known=repeated())
    one.begin(to_broker())  # type: ignore[arg-type]
    assert not one.take(memoryview(READ_WHOLE), to_broker())  # type: ignore[arg-type]
    assert one.answered is not None
    assert one.answered.records == 5
    assert one.correlation_id is None
    assert int.from_bytes(one.answered.frame[4:8]) == one.header.correlation_id


def test_a_response_with_an_error_is_left_to_the_exchange() -> None:
    one = translation(asked(), known=repeated())
    one.begin(to_broker())  # type: ignore[arg-type]
    failed = memoryview(of_cluster(b"", error_code=3))
    assert not one.take(failed, to_broker())  # type: ignore[arg-type]
    assert one.answered is None
    assert isinstance(one.step, Response)
    assert one.whole_response() is not None


def test_the_cluster_is_asked_again_while_the_exchange_wants_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(translating, "INLINE_SECONDS", 10.0)  # however slow the machine is
    one, upstream = translation(asked(), TURN, asked()), to_broker()
    one.begin(upstream)  # type: ignore[arg-type]
    assert one.take(memoryview(READ_WHOLE), upstream)  # type: ignore[arg-type]
    assert one.correlation_id == ASKED_ID + 1
    assert len(upstream.stream.writes) == 2
    upstream.stream.is_writable = False
    more = translation(asked(), asked())
    more.begin(to_broker())  # type: ignore[arg-type]
    assert not more.take(memoryview(READ_WHOLE), upstream)  # type: ignore[arg-type]
    assert len(upstream.stream.writes) == 2
    assert more.is_for_task


def reply(size: int = 10, **options: Any) -> Response:
    return Response(ResponseSend([bytearray(size)]), **options)


def converting() -> Response:
    records = MemoryRecords(stored(0, codec=Codec.ZSTD))
    send = LazyRecodedRecords(records, {"zstd": "gzip"}).to_send()
    return Response(ResponseSend([bytearray(4), send, bytearray(4)]))


@pytest.mark.parametrize(
    ("response", "is_sent"),
    [
        (reply(), True),
        (reply(PIECE_SIZE), True),
        (reply(PIECE_SIZE + 1), False),
        (reply(ends=HangUp("over")), False),
        (HangUp("over"), False),
        (converting(), False),
    ],
)
def test_only_a_small_response_that_is_ready_is_sent_at_once(
    response: Reply, is_sent: bool
) -> None:
    one = translation(asked(), reply=response)
    one.begin(to_broker())  # type: ignore[arg-type]
    one.take(memoryview(READ_WHOLE), to_broker())  # type: ignore[arg-type]
    found = one.whole_response()
    assert (found is not None) is is_sent
    if found is not None:
        assert len(found[1]) == found[0].size
        assert found[0].completed
