"""It finds the same ready files as the standard library's selector."""

import selectors
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from random import Random
from selectors import EVENT_READ, EVENT_WRITE
from time import monotonic

import pytest

from downconvert.broker.network import epoll_selector
from downconvert.broker.network.epoll_selector import HAS_EPOLL, EpollSelector, new_selector

pytestmark = pytest.mark.skipif(not HAS_EPOLL, reason="this system has no epoll")

BOTH = EVENT_READ | EVENT_WRITE
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    with ExitStack() as stack:
        found = []
        for _ in range(5):
            pair = socket.socketpair()
            for one in pair:
                one.setblocking(False)
                stack.enter_context(one)
            found.append(pair)
        yield found


@pytest.mark.parametrize("seed", range(5))
def test_files_are_ready_for_the_same_events_as_by_the_standard_library(
    pairs: list[Pair], seed: int
) -> None:
    random = Random(seed)
    with EpollSelector() as ours, selectors.DefaultSelector() as theirs:
        for step in range(400):
            near, far = random.choice(pairs)
            events, is_known = (
                random.choice((EVENT_READ, EVENT_WRITE, BOTH)),
                near in {key.fileobj for key in theirs.get_map().values()},
            )
            match random.randrange(6):
                case 0 if is_known:
                    assert ours.unregister(near) == theirs.unregister(near)
                case 1 if is_known:
                    assert ours.modify(near, events, step) == theirs.modify(near, events, step)
                case 2 if not is_known:
                    assert ours.register(near, events, step) == theirs.register(near, events, step)
                case 3:
                    for one in (near, far):
                        with suppress(OSError):
                            one.send(bytes(random.choice((1, 300_000))))
                case 4:
                    for one in (near, far):
                        with suppress(OSError):
                            one.recv(1_000_000)
                case 5 if random.random() < 0.1:
                    far.shutdown(random.choice((socket.SHUT_WR, socket.SHUT_RDWR)))
            found, expected = (dict(one.select(0)) for one in (ours, theirs))
            assert found == expected, f"step {step} of seed {seed}"
            assert dict(ours.get_map()) == dict(theirs.get_map())


def test_the_end_of_a_connection_is_an_event_of_all_kinds(pairs: list[Pair]) -> None:
    near, far = pairs[0]
    with EpollSelector() as selector:
        key = selector.register(near, BOTH)
        far.close()
        assert selector.select() == [(key, BOTH)]
        key = selector.modify(near, EVENT_WRITE)
        assert selector.select() == [(key, EVENT_WRITE)]


@pytest.mark.parametrize("timeout", [-1.0, 0.0, 0.001, 0.05])
def test_it_waits_for_at_least_the_time(pairs: list[Pair], timeout: float) -> None:
    with EpollSelector() as selector:
        selector.register(pairs[0][0], EVENT_READ)
        started = monotonic()
        assert selector.select(timeout) == []
        assert monotonic() - started >= timeout


def test_a_file_is_registered_once_and_unregistered_once(pairs: list[Pair]) -> None:
    near, _ = pairs[0]
    with EpollSelector() as selector:
        for absent in (selector.unregister, lambda one: selector.modify(one, EVENT_READ)):
            with pytest.raises(KeyError):
                absent(near)
        selector.register(near, EVENT_READ, "data")
        with pytest.raises(KeyError):
            selector.register(near, EVENT_READ)
        assert selector.get_key(near.fileno()).data == "data"


def test_systems_without_epoll_use_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    with new_selector() as selector:
        assert isinstance(selector, EpollSelector)
    monkeypatch.setattr(epoll_selector, "HAS_EPOLL", False)
    with new_selector() as selector:
        assert isinstance(selector, selectors.DefaultSelector)
