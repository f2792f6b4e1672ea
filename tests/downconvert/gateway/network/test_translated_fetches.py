"""Old fetches among requests that pass, callback by callback, in a test's own time."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.gateway.network import translating
from downconvert.gateway.network.sockets.ended import UnreachableError
from downconvert.gateway.network.sockets.streams import PIECE_SIZE
from downconvert.gateway.session.client_identity import ClientIdentity
from downconvert.gateway.session.exchanges import Response
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.request_memory import RequestMemory
from tests.downconvert.broker.asking import frame, parsed
from tests.downconvert.gateway.cluster import Through
from tests.downconvert.gateway.serving import LENGTH
from tests.downconvert.gateway.session.test_repeated import batch, of_cluster
from tests.downconvert.gateway.talk import fetch_body, values_of
from tests.waiting import SECONDS

from .sides import BROKER, DAY, IDLE, REQUEST_TIMEOUT, WAIT, Between, known, request, response, run

VERSION = 2
CORRELATION = 7  # of the helpers' requests


@pytest.fixture
def through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Through]:
    monkeypatch.setattr(translating, "INLINE_SECONDS", 10.0)  # however slow the machine is
    with known(tmp_path) as found:
        yield found


def old_fetch(offset: int = 0) -> bytes:
    data = frame(ApiKey.Fetch, VERSION, fetch_body(offset, max_bytes=3000, wait=int(WAIT * 1000)))
    return LENGTH.pack(len(data)) + data


def clusters(between: Between, records: bytes | None = None, **fields: int) -> bytes:
    """The cluster's response to the last request."""
    options = {"high_watermark": 8, "last_stable_offset": 8} | fields
    data = of_cluster(batch() if records is None else records, **options)
    return data[:4] + between.upstream.last_id.to_bytes(4) + data[8:]


def response_to(between: Between) -> Message:
    """The response that the client was sent."""
    data = bytes(between.client.sent)
    between.client.sent.clear()
    found: Message = parsed(ApiKey.Fetch, VERSION, data).responses[0].partitions[0]
    return found


def test_an_old_fetch_is_translated_and_counted_the_first_time_and_later(through: Through) -> None:
    async def use(between: Between) -> None:
        await between.begin()
        for number in range(1, 4):
            between.now, between.day = 200.0 * number, DAY + number
            between.session.client_id = "of the request before"
            between.client.arrive(old_fetch())
            assert between.client.deadline.limits[-1] == between.now + REQUEST_TIMEOUT + WAIT
            assert not between.passing.is_idle
            between.now += 3
            between.broker.arrive(clusters(between))
            size = len(between.client.sent)
            assert values_of(response_to(between)) == [bytes([n]) * 9 for n in range(8)]
            assert between.client.deadline.limits[-1] == between.now + IDLE
            assert between.passing.is_idle
            assert between.passing.requests == number
            assert between.counted.served[-1] == ("Fetch", 3.0, len(old_fetch()), size)
            assert between.upstream.responses[-1] == (str(BROKER), 3.0, "Fetch")
            assert between.session.client_id == "test"
            assert between.rows()["Fetch", VERSION] == number
            assert between.rows("translated")["Fetch", VERSION] == number
            assert between.rows("records_converted")["Fetch", VERSION] == 8 * number
        ((topic, _, seen),) = between.session.shared.last_old.rows()
        assert (topic, seen) == ("t", DAY + 3)
        assert len(between.session.repeated) == 1
        assert not between.counted.errors

    run(through, use)


def test_the_first_fetch_after_a_login_takes_no_memory_of_those_who_log_in(
    through: Through,
) -> None:
    async def use(between: Between) -> None:
        await between.begin()
        identity = between.session.identity
        identity.begin_request()
        of_requests = identity.memory
        identity.memory = RequestMemory(0).of("before the login")
        between.client.arrive(old_fetch())
        assert identity.memory is of_requests
        between.broker.arrive(clusters(between))
        assert between.passing.is_idle

    run(through, use)


def test_nothing_passes_while_an_old_fetch_is_under_way_and_then_it_does(
    through: Through,
) -> None:
    async def use(between: Between) -> None:
        await between.begin()
        between.client.arrive(request(1))
        between.client.arrive(old_fetch())  # it waits for the response before it
        assert between.broker.sent == request(1)
        between.broker.arrive(response(1))
        sent = bytes(between.broker.sent)
        assert len(sent) > len(request(1))
        between.client.arrive(request(2) + old_fetch())
        assert between.broker.sent == sent
        between.broker.arrive(clusters(between))
        assert between.broker.sent == sent + request(2)

    run(through, use)


def test_old_fetches_that_wait_for_each_other_wake_no_task(through: Through) -> None:
    """Waking it for each of them costs as much as translating one."""
    count = 5

    async def use(between: Between) -> None:
        await between.begin()
        between.client.arrive(old_fetch() * count)
        for _ in range(count):
            await asyncio.sleep(0)  # the task has seen that requests wait
            between.client.wakes = 0
            between.client.arrive(old_fetch())
            between.broker.arrive(clusters(between))
            assert len(values_of(response_to(between))) == 8
            assert not between.client.wakes
        for _ in range(count):
            between.broker.arrive(clusters(between))
        assert between.passing.requests == 2 * count
        assert between.passing.is_idle

    run(through, use)


def test_an_old_fetch_waits_until_the_client_has_taken_what_was_sent(through: Through) -> None:
    async def use(between: Between) -> None:
        await between.begin()
        between.client.arrive(request(1))
        between.client.is_writable = False
        between.broker.arrive(response(1))
        between.broker.sent.clear()
        between.client.arrive(old_fetch())
        assert not between.broker.sent
        between.client.is_writable = True
        for _ in range(3):
            await asyncio.sleep(0)
        assert between.broker.sent

    run(through, use)


@pytest.mark.parametrize("code", [3, 6])
def test_error_codes_of_old_fetches_are_counted(through: Through, code: int) -> None:
    async def use(between: Between) -> None:
        await between.begin()
        for _ in range(2):
            between.client.arrive(old_fetch())
            between.broker.arrive(clusters(between, b"", error_code=code))
            assert response_to(between).error_code == code
        assert between.counted.errors == [("Fetch", {code: 1})] * 2

    run(through, use)


def test_a_response_in_pieces_is_taken_when_it_is_whole(through: Through) -> None:
    async def use(between: Between) -> None:
        await between.begin()
        between.client.arrive(old_fetch())
        whole = clusters(between)
        between.now = 150.0
        between.broker.arrive(whole[:3])
        between.broker.arrive(whole[3:-1])
        assert between.client.deadline.limits[-1] == 150 + REQUEST_TIMEOUT
        assert not between.client.sent
        between.broker.arrive(whole[-1:])
        assert len(values_of(response_to(between))) == 8

    run(through, use)


def test_more_is_asked_for_while_the_response_is_short(through: Through) -> None:
    async def use(between: Between) -> None:
        await between.begin()
        between.client.arrive(old_fetch())
        between.now = 150.0
        between.broker.arrive(clusters(between, high_watermark=16, last_stable_offset=16))
        assert not between.client.sent
        assert between.client.deadline.limits[-1] >= 150 + REQUEST_TIMEOUT
        rest = clusters(between, batch(first=8), high_watermark=16, last_stable_offset=16)
        between.broker.arrive(rest)
        assert len(values_of(response_to(between))) == 16
        assert between.passing.requests == 1

    run(through, use)


def test_an_old_fetch_that_is_answered_without_the_cluster_is_left_to_the_task(
    through: Through,
) -> None:
    """A client that claims to be a broker is refused."""
    body = fetch_body(0)
    body.replica_id = 3
    data = frame(ApiKey.Fetch, VERSION, body)

    async def use(between: Between) -> None:
        task = await between.begin()
        between.client.arrive(LENGTH.pack(len(data)) + data)
        translation = await asyncio.wait_for(task, SECONDS)
        assert isinstance(translation.step, Response)
        assert not between.broker.sent

    run(through, use)


def test_a_large_response_is_left_to_the_task(through: Through) -> None:
    async def use(between: Between) -> None:
        task = await between.begin()
        between.client.arrive(old_fetch())
        between.broker.arrive(LENGTH.pack(PIECE_SIZE) + bytes(50))
        translation = await asyncio.wait_for(task, SECONDS)
        assert translation is not None
        assert translation.is_large
        assert between.passing.is_idle
        assert len(between.broker.available) == 54

    run(through, use)


def test_the_response_to_another_request_ends_the_connection(through: Through) -> None:
    async def use(between: Between) -> None:
        task = await between.begin()
        between.client.arrive(old_fetch())
        data = clusters(between)
        between.broker.arrive(data[:4] + bytes(4) + data[8:])
        with pytest.raises(BadRequestError):
            await asyncio.wait_for(task, SECONDS)
        assert not between.client.sent

    run(through, use)


@pytest.mark.parametrize("begins", [False, True])
def test_a_broker_that_falls_silent_is_named_with_the_old_fetch(
    through: Through, begins: bool
) -> None:
    async def use(between: Between) -> None:
        task = await between.begin()
        between.client.arrive(old_fetch())
        between.broker.arrive(clusters(between)[:20] if begins else b"")
        between.client.time_out(TimeoutError())
        text = "neither sent nor taken a byte in 30 s" if begins else "not answered in 37 s"
        with pytest.raises(UnreachableError, match=text) as raised:
            await task
        assert str(raised.value).startswith("Fetch v2 of client id 'test': ")

    run(through, use)


@pytest.mark.parametrize("way", ["in part", "not settled", "the client does not read", "expired"])
def test_an_old_fetch_is_left_to_the_task_unless_it_can_go_on_at_once(
    through: Through, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    async def use(between: Between) -> None:
        if way == "not settled":
            monkeypatch.setattr(ClientIdentity, "has_fetch_rate", True)
        if way == "expired":
            monkeypatch.setattr(ClientIdentity, "has_expired", lambda _, now: now >= DAY)
        task = await between.begin()
        if way == "the client does not read":
            between.broker.is_writable = False
        size = -1 if way == "in part" else len(old_fetch())
        between.client.arrive(old_fetch()[:size])
        assert await asyncio.wait_for(task, SECONDS) is None
        assert not between.broker.sent
        assert between.client.available == old_fetch()[:size]

    run(through, use)


def test_a_request_passes_only_until_the_login_expires(
    through: Through, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(between: Between) -> None:
        task = await between.begin()
        between.client.arrive(request(1))
        between.broker.arrive(response(1))
        monkeypatch.setattr(ClientIdentity, "has_expired", lambda _, now: now >= DAY)
        between.broker.sent.clear()
        between.client.arrive(request(2))
        assert await asyncio.wait_for(task, SECONDS) is None
        assert not between.broker.sent

    run(through, use)
