"""What a selector looks for, and what ends a connection and only that one."""

import logging
import selectors
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.broker.clock import Clock
from downconvert.broker.connection import Connection, ConnectionEndedError, Incoming
from downconvert.broker.errors import BadRequestError
from downconvert.broker.exchange import Client
from downconvert.broker.limits import Admission, Limits, RequestMemory
from downconvert.broker.served_connections import ServedConnections
from downconvert.storage import LogDir
from records import CorruptRecordsError

LIMITS = Limits(idle=600, request=30)
ADDRESS = "192.0.2.1"


class Place:
    """A thread's connections, and a client for each."""

    def __init__(self, broker: Broker) -> None:
        self.selector = selectors.DefaultSelector()
        self.admission = Admission(LIMITS)
        self.served = ServedConnections(broker, self.admission, self.selector, Clock())
        self.sockets: list[socket.socket] = []

    def connection(self, now: float = 0.0) -> Connection:
        channel, client = socket.socketpair()
        self.sockets += [channel, client]
        assert self.admission.admit(ADDRESS)
        number = len(self.sockets)
        incoming = Incoming(1000, RequestMemory(1000))
        made = Connection(Client(number, ADDRESS), channel, incoming, now)
        self.served.add(made)
        self.served.watch(made)
        return made

    def watched(self) -> list[Connection]:
        return [key.data for key in self.selector.get_map().values()]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with LogDir.open(tmp_path) as log_dir:
        place = Place(Broker(log_dir))
        yield place
        for one in place.sockets:
            one.close()
        place.selector.close()


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
    place: Place, caplog: pytest.LogCaptureFixture, error: Exception, level: int, said: str
) -> None:
    caplog.set_level(logging.DEBUG, "downconvert.broker")
    other, one = place.connection(), place.connection()

    def fail(_connection: Connection) -> None:
        raise error

    place.served.guarded(one, fail)
    assert place.watched() == [other]
    assert one.channel.fileno() < 0
    assert len(place.admission) == 1
    assert any(record.levelno == level and said in record.getMessage() for record in caplog.records)


def test_a_channel_that_has_nothing_now_ends_nothing(place: Place) -> None:
    one = place.connection()
    place.served.guarded(one, lambda found: found.channel.recv(1, socket.MSG_DONTWAIT))
    assert place.watched() == [one]


def test_one_that_was_handed_over_is_left_alone(place: Place) -> None:
    one = place.connection()
    place.served.leave(one)
    steps: list[Connection] = []
    place.served.guarded(one, steps.append)
    assert (steps, place.watched(), bool(place.served)) == ([], [], False)
    assert len(place.admission) == 1  # another thread serves it


def test_the_selector_looks_for_what_a_connection_waits_for(place: Place) -> None:
    one = place.connection()
    one.waits_to_write = True
    place.served.watch(one)
    (key,) = place.selector.get_map().values()
    assert key.events == selectors.EVENT_READ | selectors.EVENT_WRITE
    place.served.watch(one, reads=False)
    (key,) = place.selector.get_map().values()
    assert key.events == selectors.EVENT_WRITE
    one.waits_to_write = False
    place.served.watch(one, reads=False)
    assert place.watched() == []


def test_who_takes_too_long_is_disconnected(place: Place) -> None:
    idle, late, busy = place.connection(), place.connection(), place.connection(now=700.0)
    late.last_activity, late.request_started = 700.0, 600.0
    place.served.close_late(599.0, LIMITS)
    assert len(place.watched()) == 3
    place.served.close_late(701.0, LIMITS)
    assert place.watched() == [busy]
    assert idle.channel.fileno() < 0
    place.served.close_unused()
    assert not place.served
