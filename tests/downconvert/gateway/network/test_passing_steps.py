"""Requests and responses that pass, callback by callback: without sockets, in a test's own time."""

import asyncio

import pytest

from downconvert.gateway.network.passing import PART_MIN, UNANSWERED_MAX
from downconvert.gateway.network.sockets.ended import (
    SilentBrokerError,
    StalledError,
    UnreachableError,
)
from downconvert.gateway.network.sockets.splicing import WORTHWHILE
from downconvert.protocol.errors import BadRequestError
from tests.downconvert.gateway.cluster import Through
from tests.downconvert.gateway.serving import LENGTH

from .sides import (
    BROKER,
    IDLE,
    REQUEST_TIMEOUT,
    WAIT,
    Between,
    request,
    response,
    run,
)


def test_requests_pass_only_while_that_is_wanted(passing: Through) -> None:
    async def use(between: Between) -> None:
        between.client.arrive(request(1))
        assert not between.broker.sent
        task = await between.begin()
        assert between.broker.sent == request(1)  # what had arrived is looked at again
        between.passing.finish()
        between.client.arrive(request(2))
        assert between.broker.sent == request(1)
        between.broker.arrive(response(1))
        assert await task is None
        assert between.client.sent == response(1)
        between.client.arrive(request(3))
        assert between.broker.sent == request(1)

    run(passing, use)


def test_a_request_passes_when_all_of_it_is_there_and_it_is_of_a_known_kind(
    passing: Through,
) -> None:
    async def use(between: Between) -> None:
        task = await between.begin()
        whole = request(1)
        between.client.arrive(whole[:-1])
        assert not between.broker.sent
        assert await task is None  # the task waits for the rest
        between.client.available = whole + request(2) + request(3, client_id="other")
        again = await between.begin()
        assert between.broker.sent == whole + request(2)
        assert between.client.available == request(3, client_id="other")
        between.broker.arrive(response(1))
        assert not again.done()  # the other one is looked at once all before it are answered
        between.broker.arrive(response(2))
        assert await again is None
        assert between.session.client_id == "test"
        assert between.rows()["Heartbeat", 3] == 3
        assert between.rows("translated")["Heartbeat", 3] == 0

    run(passing, use)


@pytest.mark.parametrize("size", [8, 12])
def test_a_request_too_short_for_its_header_does_not_pass(passing: Through, size: int) -> None:
    async def use(between: Between) -> None:
        task = await between.begin()
        between.client.arrive(LENGTH.pack(size) + request(1)[4:])
        assert not between.broker.sent
        assert await task is None

    run(passing, use)


def test_log_lines_name_the_client_of_the_last_request(passing: Through) -> None:
    """One connection may have several, as a proxy's has."""
    assert passing.passes(request(1, waits=True, client_id="other")[4:])

    async def use(between: Between) -> None:
        assert between.session.client_id == "other"
        await between.begin()
        between.client.arrive(request(1))
        assert between.session.client_id == "test"
        between.client.arrive(request(2, waits=True, client_id="other"))
        assert between.session.client_id == "other"

    run(passing, use)


def test_few_requests_wait_for_their_responses_at_a_time(passing: Through) -> None:
    async def use(between: Between) -> None:
        await between.begin()
        between.client.arrive(b"".join(request(n) for n in range(UNANSWERED_MAX + 2)))
        assert between.broker.sent == b"".join(request(n) for n in range(UNANSWERED_MAX))
        between.broker.sent.clear()
        between.broker.arrive(response(0))
        assert between.broker.sent == request(UNANSWERED_MAX)
        between.broker.is_writable = False
        between.broker.sent.clear()
        between.broker.arrive(response(1))
        assert not between.broker.sent  # it takes no more now

    run(passing, use)


def test_each_request_has_its_own_time_and_its_own_count(passing: Through) -> None:
    async def use(between: Between) -> None:
        await between.begin()
        timer = between.client.deadline.limits
        between.client.arrive(request(1, waits=True))
        assert timer[-1] == 100 + REQUEST_TIMEOUT + WAIT
        between.now = 101.0
        between.client.arrive(request(2))
        assert timer[-1] == 100 + REQUEST_TIMEOUT + WAIT  # the first one is waited for
        between.now = 104.0
        between.broker.arrive(response(1, 500))
        assert timer[-1] == 104 + REQUEST_TIMEOUT
        between.now = 105.5
        between.broker.arrive(response(2))
        assert timer[-1] == 105.5 + IDLE
        sizes = len(request(1, waits=True)), len(request(2))
        assert between.counted.served == [
            ("Fetch", 4.0, sizes[0], 504),
            ("Heartbeat", 4.5, sizes[1], 24),
        ]
        assert between.passing.requests == 2
        assert between.upstream.responses == [
            (str(BROKER), 4.0, "Fetch"),
            (str(BROKER), 1.5, "Heartbeat"),
        ]

    run(passing, use)


def test_a_broker_answers_the_next_request_from_its_last_response_on(passing: Through) -> None:
    async def use(between: Between) -> None:
        await between.begin()
        between.client.arrive(request(1) + request(2))
        between.now = 104.0
        between.broker.arrive(response(1) + response(2))
        assert [seconds for _, seconds, _ in between.upstream.responses] == [4.0, 0.0]

    run(passing, use)


def test_responses_come_together_and_in_pieces(passing: Through) -> None:
    async def use(between: Between) -> None:
        await between.begin()
        between.client.arrive(request(1) + request(2) + request(3))
        large = response(2, 3 * PART_MIN)
        whole = response(1) + large + response(3)
        cut = len(response(1)) + 100
        between.broker.arrive(whole[:cut])
        assert between.client.sent == response(1)  # a little of the next one waits for more
        between.now = 110.0
        between.broker.arrive(whole[cut : cut + PART_MIN])
        assert between.client.sent == whole[: cut + PART_MIN]
        assert between.client.deadline.limits[-1] == 110 + REQUEST_TIMEOUT
        assert between.passing.requests == 1
        between.broker.arrive(whole[cut + PART_MIN :])
        assert between.client.sent == whole
        assert between.passing.requests == 3
        assert [sent for *_, sent in between.counted.served] == [24, len(large), 24]

    run(passing, use)


def test_the_beginning_of_a_response_gives_the_rest_time(passing: Through) -> None:
    async def use(between: Between) -> None:
        await between.begin()
        between.client.arrive(request(1))
        between.now = 120.0
        between.broker.arrive(response(1, PART_MIN)[:50])
        assert between.client.deadline.limits[-1] == 120 + REQUEST_TIMEOUT

    run(passing, use)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (response(2), "another request"),
        (LENGTH.pack(3) + bytes(20), "a response of 3 bytes"),
        (LENGTH.pack(-1) + bytes(20), "a response of -1 bytes"),
    ],
)
def test_a_response_that_cannot_be_one_ends_the_connection(
    passing: Through, data: bytes, text: str
) -> None:
    async def use(between: Between) -> None:
        task = await between.begin()
        between.client.arrive(request(1) + request(2))
        between.broker.arrive(data)
        with pytest.raises(BadRequestError, match=text):
            await task
        assert not between.client.sent
        between.broker.arrive(response(1))
        assert not between.client.sent

    run(passing, use)


@pytest.mark.parametrize("is_large", [True, False])
def test_a_response_is_sent_as_fast_as_the_client_takes_it(
    passing: Through, is_large: bool
) -> None:
    async def use(between: Between) -> None:
        await between.begin()
        between.client.arrive(request(1) + request(2))
        size = 5000 + WORTHWHILE if is_large else 7000
        between.client.is_writable = is_large
        between.broker.arrive(response(1, size)[:5000])
        between.broker.arrive(response(2))  # nothing is sent on meanwhile
        assert len(between.client.sent) == 5000
        if not is_large:
            for _ in range(5):
                await asyncio.sleep(0)
            assert not between.broker.copied
        between.client.is_writable = True
        for _ in range(5):
            await asyncio.sleep(0)
        assert between.broker.copied == [size + 4 - 5000]
        assert len(between.client.sent) == size + 4 + len(response(2))
        assert between.passing.requests == 2
        assert [sent for *_, sent in between.counted.served] == [size + 4, 24]

    run(passing, use)


def test_a_client_that_sends_no_more_requests_times_out(passing: Through) -> None:
    async def use(between: Between) -> None:
        task = await between.begin()
        assert between.client.deadline.limit == 100 + IDLE
        between.client.time_out(TimeoutError())
        with pytest.raises(TimeoutError):
            await task

    run(passing, use)


@pytest.mark.parametrize(
    ("begins", "text"),
    [
        (b"", f"broker {BROKER} has not answered in 37 s"),
        (response(1, 900)[:20], "the broker has neither sent nor taken a byte in 30 s"),
        (response(1, 2 * PART_MIN)[:PART_MIN], "the broker has neither sent nor taken a byte"),
    ],
)
def test_a_broker_that_falls_silent_is_named_with_the_request(
    passing: Through, begins: bytes, text: str
) -> None:
    async def use(between: Between) -> None:
        task = await between.begin()
        between.client.arrive(request(1, waits=True) + request(2))
        between.broker.arrive(begins)
        between.client.time_out(TimeoutError())
        with pytest.raises(UnreachableError, match=text) as raised:
            await task
        assert str(raised.value).startswith("Fetch v12 of client id 'test': ")
        assert isinstance(raised.value.__cause__, StalledError if begins else SilentBrokerError)

    run(passing, use)
