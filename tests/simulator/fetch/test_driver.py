"""The sending side and the reading side, face to face over real sockets."""

import socket
from collections.abc import Sequence
from threading import Thread

import pytest

from simulator.fetch.consumers import Consumers, Expected, Reading
from simulator.fetch.driver import REQUEST, RESPONSE_HEAD, Driver, Tally
from simulator.fetch.fetches import Fetch
from simulator.fetch.plan import digest
from simulator.fetch.responses import BytesSend

RESPONSES = [bytes([number]) * size for number, size in enumerate((1, 70_000, 0, 400_000, 12))]
FETCHES = [Fetch(0, number, 0, 0) for number in range(len(RESPONSES))]
EXPECTED = [Expected(len(response), digest(response), 10) for response in RESPONSES]


def ready(fetch: Fetch) -> BytesSend:
    return BytesSend(RESPONSES[fetch.position])


def face_to_face(
    consumers: int, slow: int, expected: Sequence[Expected] = EXPECTED, rate: int = 200_000
) -> tuple[Tally, Reading]:
    """Everything that both sides saw when each fast consumer has read all responses."""
    ours, theirs = zip(*(socket.socketpair() for _ in range(consumers + slow)), strict=True)
    driver = Driver(ours, FETCHES, ready)
    thread = Thread(target=driver.run)
    thread.start()
    answered: list[int] = []
    reading = Consumers(theirs, expected, slow, rate, answered.append).run()
    thread.join(20)
    assert not thread.is_alive()
    assert answered == list(range(1, reading.responses + 1))
    return driver.tally, reading


def test_every_consumer_reads_every_response() -> None:
    tally, reading = face_to_face(3, 0)
    assert (tally.responses, tally.broken) == (15, 0)
    assert tally.promised == tally.sent == 3 * sum(map(len, RESPONSES)) == reading.size
    assert (reading.responses, reading.records, reading.wrong) == (15, 150, 0)
    assert len(reading.latencies) == len(reading.first_bytes) == 15
    for first, last in zip(reading.first_bytes, reading.latencies, strict=True):
        assert 0 < first <= last < 20


def test_slow_consumers_do_not_delay_others_and_stop_with_them() -> None:
    tally, reading = face_to_face(2, 2, rate=10_000)
    assert reading.seconds < 20  # one of the responses alone takes a slow one 40 seconds
    assert 10 <= reading.responses < 20
    assert reading.wrong == 0
    assert len(reading.latencies) == 10  # those of slow ones say nothing about the sender
    assert tally.broken == 0


def test_a_slow_consumer_keeps_its_rate() -> None:
    """The fast consumer gets its response after the slow one has read `count` of them."""
    rate, count = 50_000, 10
    (near, slow_near), (fast, slow) = zip(*(socket.socketpair() for _ in range(2)), strict=True)
    response = b"a" * 992
    whole = RESPONSE_HEAD.pack(len(response)) + response

    def send() -> None:
        with near, slow_near:
            for _ in range(count):
                slow_near.recv(REQUEST.size, socket.MSG_WAITALL)
                slow_near.sendall(whole)
            slow_near.recv(REQUEST.size, socket.MSG_WAITALL)
            near.sendall(whole)
            near.recv(REQUEST.size)  # until it has read that

    thread = Thread(target=send)
    thread.start()
    expected = [Expected(len(response), digest(response), 1)]
    reading = Consumers((fast, slow), expected, 1, rate, lambda _: None).run()
    thread.join(20)
    assert reading.wrong == 0
    assert reading.responses == count + 1
    assert len(whole) * (count - 1) / rate <= reading.seconds < 20  # no pause before the first


def test_a_response_begins_in_the_turn_of_its_request() -> None:
    log: list[str] = []

    class Logged(BytesSend):
        def write_to(self, channel: object, budget: int | None = None) -> int:
            log.append("write")
            return super().write_to(channel, budget)

    def respond(fetch: Fetch) -> Logged:
        log.append("ask")
        return Logged(RESPONSES[fetch.position])

    pairs = [socket.socketpair() for _ in range(3)]
    for _, theirs in pairs:
        theirs.sendall(REQUEST.pack(1))
        theirs.shutdown(socket.SHUT_WR)  # nothing more is asked
    tally = Driver([ours for ours, _ in pairs], FETCHES, respond).run()
    assert log == 3 * ["ask", "write"]
    assert tally.responses == 3
    for _, theirs in pairs:
        theirs.close()


@pytest.mark.parametrize(
    "other",
    [
        EXPECTED[1]._replace(size=69_999),
        EXPECTED[1]._replace(digest=digest(b"something else")),
    ],
)
def test_an_unplanned_response_is_detected(other: Expected) -> None:
    _, reading = face_to_face(2, 0, [EXPECTED[0], other, *EXPECTED[2:]])
    assert reading.wrong == 2


class _Lying(BytesSend):
    """Promises ten bytes more than it has."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.size += 10


def test_a_broken_promise_is_detected() -> None:
    ours, theirs = socket.socketpair()
    driver = Driver([ours], FETCHES, lambda fetch: _Lying(RESPONSES[fetch.position]))
    with theirs:
        theirs.sendall(REQUEST.pack(0))
        thread = Thread(target=driver.run)
        thread.start()
        assert theirs.recv(RESPONSE_HEAD.size, socket.MSG_WAITALL) == RESPONSE_HEAD.pack(11)
        assert theirs.recv(1) == RESPONSES[0]
    thread.join(20)
    assert (driver.tally.broken, driver.tally.promised, driver.tally.sent) == (1, 11, 1)


def test_consumers_that_go_away_end_the_driver() -> None:
    ours, theirs = zip(*(socket.socketpair() for _ in range(3)), strict=True)
    driver = Driver(ours, FETCHES, ready)
    theirs[0].sendall(REQUEST.pack(3))  # and never reads the response
    theirs[1].sendall(REQUEST.pack(0)[:2])  # the beginning of a request
    for connected in theirs:
        connected.close()
    assert driver.run().responses == 0
