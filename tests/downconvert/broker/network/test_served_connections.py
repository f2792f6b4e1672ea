"""What a selector looks for, and what ends a connection and only that one."""

import logging
import selectors
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.broker.exchange import Client
from downconvert.broker.network.clock import Clock
from downconvert.broker.network.connection import Connection, ConnectionEndedError, Incoming
from downconvert.broker.network.served_connections import ServedConnections
from downconvert.protocol.errors import BadRequestError
from downconvert.serving.limits import Limits, RequestMemory
from downconvert.serving.places import Places
from downconvert.storage import LogDir
from records import CorruptRecordsError

LIMITS = Limits(idle=600, request=30)
ADDRESS = "192.0.2.1"


class Thread:
    """A thread's connections, and a client for each."""

    def __init__(self, broker: Broker) -> None:
        self.selector = selectors.DefaultSelector()
        self.places = Places()
        self.served = ServedConnections(broker, self.selector, Clock())
        self.sockets: list[socket.socket] = []

    def connection(self, now: float = 0.0) -> Connection:
        channel, client = socket.socketpair()
        self.sockets += [channel, client]
        place = self.places.take(ADDRESS, 100, 100)
        number = len(self.sockets)
        incoming = Incoming(1000, RequestMemory(1000))
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
    ("error", "level", "said"),
    [
        (ConnectionEndedError(), logging.INFO, "gone"),
        (ConnectionResetError(), logging.INFO, "gone"),
        (TimeoutError(), logging.INFO, "gone"),
        (BadRequestError("a request of 7 bytes"), logging.INFO, "a request of 7 bytes"),
        (ssl.SSLError("no TLS"), logging.INFO, "no TLS"),
        (CorruptRecordsError("bad", 7), logging.WARNING, "its answer cannot be finished"),
        (KeyError("defect"), logging.ERROR, "a defect: 192.0.2.1 is disconnected"),
    ],
)
def test_what_goes_wrong_ends_one_connection(
    thread: Thread, caplog: pytest.LogCaptureFixture, error: Exception, level: int, said: str
) -> None:
    caplog.set_level(logging.DEBUG, "downconvert.broker")
    other, one = thread.connection(), thread.connection()

    def fail(_connection: Connection) -> None:
        raise error

    thread.served.guarded(one, fail)
    assert thread.watched() == [other]
    assert one.channel.fileno() < 0
    assert len(thread.places) == 1
    assert any(record.levelno == level and said in record.getMessage() for record in caplog.records)


def test_a_channel_that_has_nothing_now_ends_nothing(thread: Thread) -> None:
    one = thread.connection()
    thread.served.guarded(one, lambda found: found.channel.recv(1, socket.MSG_DONTWAIT))
    assert thread.watched() == [one]


def test_one_that_was_handed_over_is_left_alone(thread: Thread) -> None:
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


def test_who_takes_too_long_is_disconnected(thread: Thread) -> None:
    idle, late, busy = thread.connection(), thread.connection(), thread.connection(now=700.0)
    late.last_activity, late.request_started = 700.0, 600.0
    thread.served.close_late(599.0, LIMITS)
    assert len(thread.watched()) == 3
    thread.served.close_late(701.0, LIMITS)
    assert thread.watched() == [busy]
    assert idle.channel.fileno() < 0
    thread.served.close_unused()
    assert not thread.served


def test_who_gives_up_its_place_is_told_so_and_counted_out(
    thread: Thread, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "downconvert.broker")
    one, other = thread.connection(), thread.connection()
    for _ in range(2):
        thread.served.evict(one)
    assert (thread.watched(), len(thread.places)) == ([other], 1)
    assert "its place is another's" in caplog.text
