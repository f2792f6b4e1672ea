"""A selector watches what a connection needs, and an error ends only its own connection."""

import logging
import selectors
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.broker.endings import End
from downconvert.broker.exchange import Client, Exchange
from downconvert.broker.network.clock import Clock
from downconvert.broker.network.connection import Connection, ConnectionEndedError, Incoming
from downconvert.broker.network.served_connections import ServedConnections
from downconvert.broker.network.serving import Serving
from downconvert.protocol.errors import BadRequestError, ExpiredSessionError, FailedLoginError
from downconvert.protocol.requests import Request, RequestHeader
from downconvert.protocol.responses import ResponseSend
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.limits import Limits
from downconvert.serving.places import Places
from downconvert.serving.request_memory import RequestMemory
from downconvert.serving.unread import UnreadResponses
from downconvert.storage import LogDir
from records import CorruptRecordsError
from tests.downconvert.broker.asking import value

LIMITS = Limits(idle=600, request=30)
ADDRESS = "192.0.2.1"


class Thread:
    """A thread's connections, and a client for each."""

    def __init__(self, broker: Broker) -> None:
        self.selector = selectors.DefaultSelector()
        self.places = Places()
        self.broker = broker
        self.clock = Clock()
        self.unread = UnreadResponses(0)
        serving = Serving(broker, LIMITS, RequestMemory(1000), self.unread, self.clock, [].append)
        self.served = ServedConnections(serving, self.selector)
        self.sockets: list[socket.socket] = []

    def connection(self, now: float = 0.0) -> Connection:
        channel, client = socket.socketpair()
        self.sockets += [channel, client]
        place = self.places.take(ADDRESS, 100, 100)
        number = len(self.sockets)
        incoming = Incoming(1000, RequestMemory(1000).of(ADDRESS))
        made = Connection(Client(number, ADDRESS), channel, incoming, place, now)
        self.served.add(made)
        self.served.watch(made)
        return made

    def watched(self) -> list[Connection]:
        return [key.data for key in self.selector.get_map().values()]


@pytest.fixture
def thread(tmp_path: Path) -> Iterator[Thread]:
    with LogDir.open(tmp_path) as log_dir:
        thread = Thread(Broker(log_dir))
        yield thread
        for one in thread.sockets:
            one.close()
        thread.selector.close()


@pytest.mark.parametrize(
    ("error", "level", "message"),
    [
        (ConnectionEndedError(), logging.INFO, "closed the connection"),
        (ConnectionResetError(), logging.INFO, "closed the connection"),
        (TimeoutError(), logging.INFO, "closed the connection"),
        (ssl.SSLEOFError(), logging.INFO, "closed the connection"),
        (ssl.SSLZeroReturnError(), logging.INFO, "closed the connection"),
        (BadRequestError("a request of 7 bytes"), logging.INFO, "a request of 7 bytes"),
        (ssl.SSLError("no TLS"), logging.INFO, "no TLS"),
        (CorruptRecordsError("bad", 7), logging.WARNING, "its response cannot be finished"),
        (KeyError("defect"), logging.ERROR, "a defect: 192.0.2.1 is disconnected"),
    ],
)
def test_an_error_ends_one_connection_only(
    thread: Thread, caplog: pytest.LogCaptureFixture, error: Exception, level: int, message: str
) -> None:
    caplog.set_level(logging.DEBUG, "downconvert.broker")
    other, one = thread.connection(), thread.connection()

    def fail(_connection: Connection) -> None:
        raise error

    thread.served.guarded(one, fail)
    assert thread.watched() == [other]
    assert one.channel.fileno() < 0
    assert len(thread.places) == 1
    assert any(
        record.levelno == level and message in record.getMessage() for record in caplog.records
    )


@pytest.mark.parametrize(
    ("error", "refusal", "reason", "why"),
    [
        (ConnectionEndedError(), "", End.CLIENT, "the client closed the connection"),
        (ConnectionEndedError(), "wrong password", End.LOGIN, "wrong password"),
        (ConnectionResetError(), "wrong password", End.LOGIN, "wrong password"),
        (FailedLoginError("Fetch before"), "", End.LOGIN, "Fetch before"),
        (ExpiredSessionError("its token"), "", End.EXPIRED, "its token"),
        (BadRequestError("7 bytes"), "", End.REQUEST, "7 bytes"),
        (OSError(5, "no I/O"), "", End.REQUEST, "no I/O"),
        (CorruptRecordsError("bad", 7), "", End.RESPONSE, "its response cannot be finished"),
        (KeyError("x"), "", End.DEFECT, "a defect"),
    ],
)
def test_each_end_is_counted_and_logged_with_its_reason(
    thread: Thread,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    refusal: str,
    reason: End,
    why: str,
) -> None:
    caplog.set_level(logging.INFO, "downconvert.broker")
    one = thread.connection(now=thread.clock() - 100)
    one.last_activity = thread.clock()
    one.client.refusal = refusal
    held = Exchange(one.client, request_of(one), 0.0)
    one.exchange, one.frame = held, memoryview(b"next")

    def fail(_connection: Connection) -> None:
        raise error

    thread.served.guarded(one, fail)
    counts = {end: value(thread.broker, "connections_ended_total", reason=end.value) for end in End}
    assert {end for end in End if counts[end]} == {reason}
    last = caplog.records[-1]
    assert vars(last)["fields"]["reason"] == reason.value
    assert vars(last)["fields"]["seconds"] == pytest.approx(100, abs=5)
    assert why in last.getMessage()
    assert held.is_abandoned
    left: list[object] = [one.exchange, one.send, one.frame]
    assert left == [None] * 3


def request_of(one: Connection) -> Request:
    header = RequestHeader(ApiKey.Metadata, 1, 7, one.client.client_id, 10)
    return Request(header, Message(), 20)


def test_a_connection_that_sends_is_not_read_and_one_that_moves_waits_for_nothing(
    thread: Thread,
) -> None:
    one = thread.connection()
    one.send = ResponseSend([bytearray(9)])
    one.waits_to_write = True
    thread.served.watch(one)
    (key,) = thread.selector.get_map().values()
    assert key.events == selectors.EVENT_WRITE
    thread.served.leave(one)
    assert (thread.watched(), one.interest, one.waits_to_write) == ([], 0, False)


def test_a_channel_that_has_nothing_now_ends_nothing(thread: Thread) -> None:
    one = thread.connection()
    thread.served.guarded(one, lambda found: found.channel.recv(1, socket.MSG_DONTWAIT))
    assert thread.watched() == [one]


def test_a_connection_that_was_handed_over_is_left_alone(thread: Thread) -> None:
    one = thread.connection()
    thread.served.leave(one)
    steps: list[Connection] = []
    thread.served.guarded(one, steps.append)
    assert (steps, thread.watched(), bool(thread.served)) == ([], [], False)
    assert len(thread.places) == 1  # another thread serves it


def test_the_selector_looks_for_what_a_connection_waits_for(thread: Thread) -> None:
    one = thread.connection()
    one.waits_to_write = True
    thread.served.watch(one)
    (key,) = thread.selector.get_map().values()
    assert key.events == selectors.EVENT_READ | selectors.EVENT_WRITE
    thread.served.watch(one, reads=False)
    (key,) = thread.selector.get_map().values()
    assert key.events == selectors.EVENT_WRITE
    one.waits_to_write = False
    thread.served.watch(one, reads=False)
    assert thread.watched() == []


def test_a_client_that_takes_too_long_is_disconnected(thread: Thread) -> None:
    idle, late, busy = thread.connection(), thread.connection(), thread.connection(now=700.0)
    late.last_activity, late.request_started = 700.0, 600.0
    thread.served.close_late(599.0, LIMITS)
    assert len(thread.watched()) == 3
    thread.served.close_late(701.0, LIMITS)
    assert thread.watched() == [busy]
    assert idle.channel.fileno() < 0
    thread.served.close_unused()
    assert not thread.served


def waiting(thread: Thread) -> Connection:
    """A connection whose request waits for other clients."""
    one = thread.connection()
    one.exchange = Exchange(one.client, request_of(one), 0.0)
    return one


def test_a_request_that_hides_whether_its_client_has_gone_waits_no_longer_than_idle_ones(
    thread: Thread,
) -> None:
    """A member of a group may wait for 24 days, and its client may have gone at once."""
    one, other = waiting(thread), waiting(thread)
    thread.served.watch(one, reads=False)  # as after a part of the next request
    thread.served.close_late(601.0, LIMITS)
    assert one.channel.fileno() < 0
    assert thread.watched() == [other]


def test_an_evicted_client_no_longer_counts_and_the_log_says_so(
    thread: Thread, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "downconvert.broker")
    one, other = thread.connection(), thread.connection()
    for _ in range(2):
        thread.served.evict(one)
    assert (thread.watched(), len(thread.places)) == ([other], 1)
    assert "its place is another's" in caplog.text
