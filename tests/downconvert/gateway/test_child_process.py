"""A child of a gateway of several processes, whose parent is a thread that says what a test wants.

Not here: the parent (test_processes_steps.py), both as processes (test_processes.py)."""

import errno
import gc
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing import Pipe
from threading import Thread
from typing import Any, Final

import pytest

from downconvert.access.ledger import OwnLedger
from downconvert.access.rights import ConfigError
from downconvert.gateway import child_process
from downconvert.gateway.child_process import FIRST, REQUEST, RESPONSE, HandedListeners
from downconvert.gateway.config import GatewayConfig, Limits
from downconvert.gateway.figures import Figures
from downconvert.gateway.server import Gateway
from downconvert.gateway.session.shared import Ledgers
from downconvert.gateway.topology import BOOTSTRAP, Address
from downconvert.serving.garbage import FULL_EVERY
from tests.ports import LOOPBACK

PORT: Final = 18_765
CONFIG: Final = GatewayConfig(
    bootstrap=(Address(LOOPBACK, 1),),
    listen=Address(LOOPBACK, PORT),
    limits=Limits(drain_timeout=0.1),
)
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WAIT: Final = 20.0  # seconds for a response


# --- sockets from the parent


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The parent's end and the child's."""
    ours, theirs = socket.socketpair()
    ours.settimeout(WAIT)  # and theirs blocks, as a child's does
    with ours, theirs:
        yield ours, theirs


def in_thread(job: Callable[[], object]) -> Thread:
    thread = Thread(target=job, daemon=True)
    thread.start()
    return thread


def listening(count: int) -> list[socket.socket]:
    return [socket.create_server((LOOPBACK, 0)) for _ in range(count)]


def descriptors(sockets: list[socket.socket]) -> list[int]:
    return [one.fileno() for one in sockets]


@pytest.mark.parametrize("count", [1, 2, 64])
@pytest.mark.parametrize("first", [1, 4, RESPONSE.size])
def test_sockets_come_in_their_order_in_however_many_parts_the_response_does(
    pair: tuple[socket.socket, socket.socket], count: int, first: int
) -> None:
    ours, theirs = pair
    opened = listening(count)
    asked = []

    def response() -> None:
        asked.append(REQUEST.unpack(ours.recv(REQUEST.size)))
        data = RESPONSE.pack(0, count)
        socket.send_fds(ours, [data[:first]], descriptors(opened))
        for byte in data[first:]:
            time.sleep(0.01)
            ours.sendall(bytes([byte]))

    thread = in_thread(response)
    found = HandedListeners(theirs).copies(5, 7_000)
    thread.join()
    assert asked == [(False, 5, 7_000)]
    assert [one.getsockname() for one in found] == [one.getsockname() for one in opened]
    for one in [*found, *opened]:
        one.close()


@pytest.mark.parametrize("said", [0, 1, RESPONSE.size - 1])
def test_a_parent_that_ends_before_its_response_does_is_an_error(
    pair: tuple[socket.socket, socket.socket], said: int
) -> None:
    ours, theirs = pair

    def response() -> None:
        ours.recv(REQUEST.size)
        ours.sendall(RESPONSE.pack(0, 1)[:said])
        ours.shutdown(socket.SHUT_WR)

    in_thread(response)
    with pytest.raises(OSError, match="the gateway's parent process has ended"):
        HandedListeners(theirs).copies(5, 7_000)


@pytest.mark.parametrize(
    ("text", "shown"),
    [(b"in use", "in use"), (b"x" * 255, "x" * 255), (b"", ""), (b"\xc3", "\ufffd")],
)
@pytest.mark.parametrize("is_split", [False, True])
def test_an_error_of_the_parent_is_raised_with_its_number_and_whole_text(
    pair: tuple[socket.socket, socket.socket], text: bytes, shown: str, is_split: bool
) -> None:
    ours, theirs = pair

    def response() -> None:
        ours.recv(REQUEST.size)
        ours.sendall(RESPONSE.pack(errno.EADDRINUSE, len(text)) + text[: 3 if is_split else None])
        if is_split:
            time.sleep(0.02)
            ours.sendall(text[3:])

    thread = in_thread(response)
    with pytest.raises(OSError, match="Errno") as caught:
        HandedListeners(theirs).copies(5, 7_000)
    thread.join()
    assert (caught.value.errno, caught.value.strerror) == (errno.EADDRINUSE, shown)
    theirs.setblocking(False)
    with pytest.raises(BlockingIOError):  # the next response begins with the next byte
        theirs.recv(1)


def test_the_parent_learns_of_a_node_that_is_gone_and_of_the_end(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    listeners = HandedListeners(theirs)
    listeners.close(5)
    assert REQUEST.unpack(ours.recv(REQUEST.size)) == (True, 5, 0)
    listeners.close_all()
    assert ours.recv(1) == b""


def test_a_node_may_be_gone_after_the_parent(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    ours.close()
    HandedListeners(theirs).close(5)


# --- serving


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """A child ignores signals; this process does not, afterwards."""
    former = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


class Made(Gateway):
    """A gateway that a test can look at. `all`: those that were made."""

    all: Final[list["Made"]] = []
    has_died = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.all.append(self)

    @property
    def is_alive(self) -> bool:
        return super().is_alive and not self.has_died


class Parent:
    """Talks to a child, which serves in the main thread: only that one may ignore signals."""

    def __init__(self) -> None:
        self.control, self.childs = Pipe()
        self.sockets, theirs = socket.socketpair()
        self.theirs = theirs
        self.opened = socket.create_server((LOOPBACK, 0))
        self.opened.setblocking(False)
        self.address = self.opened.getsockname()
        self.asked: list[tuple[bool, int, int]] = []
        self.logging: list[str] = []
        self.failure: BaseException | None = None
        self.quotas = OwnLedger()
        self.ledgers = Ledgers(self.quotas)

    def hand_out(self) -> None:
        with suppress(OSError):
            while request := self.sockets.recv(REQUEST.size, socket.MSG_WAITALL):
                self.asked.append(REQUEST.unpack(request))
                files = [self.opened.fileno()]
                socket.send_fds(self.sockets, [RESPONSE.pack(0, 1)], files)

    def ask(self, number: int, what: str, value: object = None) -> tuple[int, Any]:
        self.control.send((number, what, value))
        return self.response()

    def response(self) -> tuple[int, Any]:
        assert self.control.poll(WAIT)
        answered: tuple[int, Any] = self.control.recv()
        return answered

    def configure(self) -> Callable[[], object]:
        self.logging.append("begins")
        return lambda: self.logging.append("ends")

    def serves(self, config: GatewayConfig, script: Callable[["Parent"], object]) -> None:
        """Runs a child until it ends by itself. The script is the parent's. If it fails, the child
        gets the signal to stop."""

        def talk() -> None:
            try:
                script(self)
            except BaseException as error:
                self.failure = error
                with suppress(OSError):
                    self.control.send((99, "stop", None))

        threads = [in_thread(self.hand_out), in_thread(talk)]
        child_process.serve(self.childs, self.theirs, config, self.configure, self.ledgers)
        self.childs.close()
        self.theirs.close()
        for one in threads:
            one.join(WAIT)
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Parent]:
    monkeypatch.setattr(child_process, "Gateway", Made)
    monkeypatch.setattr(child_process, "LOOK_SECONDS", 0.05)
    made = Parent()
    yield made
    for one in Made.all:
        one.stop()
    Made.all.clear()
    for end in (made.control, made.sockets, made.opened):
        end.close()


def test_responses_have_the_numbers_of_their_questions(parent: Parent) -> None:
    def script(one: Parent) -> None:
        number, figures = one.ask(5, "figures")
        assert (number, figures.process_id) == (5, os.getpid())
        assert isinstance(figures, Figures)
        assert one.ask(7, "ready") == (7, None)
        one.control.send((8, "stop", None))

    parent.serves(CONFIG, script)
    assert parent.logging == ["begins", "ends"]


def test_the_parent_decides_about_signals(parent: Parent) -> None:
    """Terminals and service managers send them to all processes."""

    def script(one: Parent) -> None:
        one.ask(0, "ready")
        assert [signal.getsignal(number) for number in SIGNALS] == [signal.SIG_IGN] * 3
        one.control.send((1, "stop", None))

    parent.serves(CONFIG, script)


def test_full_collections_are_rare_while_clients_are_served(parent: Parent) -> None:
    def script(one: Parent) -> None:
        one.ask(0, "ready")
        assert gc.get_threshold()[2] == FULL_EVERY
        one.control.send((1, "stop", None))

    parent.serves(CONFIG, script)


def test_clients_are_served_at_the_parents_sockets_until_it_says_stop(parent: Parent) -> None:
    def script(one: Parent) -> None:
        one.ask(0, "ready")
        assert one.asked[0] == (False, BOOTSTRAP, PORT)
        with socket.create_connection(one.address, timeout=WAIT) as client:
            client.sendall(bytes(4))  # a request of no bytes
            assert client.recv(1) == b""
        _, figures = one.ask(1, "figures")
        assert figures.ends["bad_request"] == 1
        one.control.send((2, "stop", None))

    parent.serves(CONFIG, script)
    assert not Made.all[0].is_alive


def test_settings_apply_and_those_that_are_refused_end_nothing(parent: Parent) -> None:
    def script(one: Parent) -> None:
        later = replace(CONFIG, bootstrap=(Address(LOOPBACK, 2),))
        assert one.ask(0, "reload", later) == (0, None)
        assert Made.all[0].config == later
        for number, refused in (
            (1, replace(CONFIG, tls_cert="/no", tls_key="/no")),
            (2, replace(CONFIG, spool_dir="/no/such/directory")),
        ):
            answered, error = one.ask(number, "reload", refused)
            assert answered == number
            assert isinstance(error, ConfigError)
            assert Made.all[0].config == later
        assert one.ask(3, "ready") == (3, None)
        one.control.send((4, "stop", None))

    parent.serves(CONFIG, script)


def test_an_error_of_the_system_is_answered_too(
    parent: Parent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reload(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/key")

    monkeypatch.setattr(Made, "reload", reload)

    def script(one: Parent) -> None:
        answered, error = one.ask(6, "reload", CONFIG)
        assert (answered, error.errno) == (6, errno.EACCES)
        one.control.send((7, "stop", None))

    parent.serves(CONFIG, script)


@pytest.mark.parametrize("asks", [False, True])
def test_a_child_whose_parent_has_died_stops(parent: Parent, asks: bool) -> None:
    """The same holds if no parent reads its last response."""

    def script(one: Parent) -> None:
        one.ask(0, "ready")
        if asks:
            one.control.send((1, "figures", None))
        one.control.close()

    parent.serves(CONFIG, script)
    assert not Made.all[0].is_alive
    assert parent.logging == ["begins", "ends"]


def test_a_child_that_serves_no_more_ends_and_another_is_started(parent: Parent) -> None:
    def script(one: Parent) -> None:
        one.ask(0, "ready")
        Made.all[0].has_died = True

    parent.serves(CONFIG, script)
    assert parent.logging == ["begins", "ends"]


def test_all_children_use_the_ledgers_of_the_parent(parent: Parent) -> None:
    def script(one: Parent) -> None:
        one.ask(0, "ready")
        Made.all[0].quotas.charge("ann", "fetch", 1, 1.0, 1.0)
        assert len(one.quotas) == 1
        one.control.send((1, "stop", None))

    parent.serves(CONFIG, script)


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (replace(CONFIG, tls_cert="/no", tls_key="/no"), ConfigError),
        (replace(CONFIG, spool_dir="/no/such/directory"), ConfigError),
        (CONFIG, OSError),
    ],
)
def test_a_child_that_cannot_serve_tells_its_log_and_its_parent_and_ends(
    parent: Parent, caplog: pytest.LogCaptureFixture, config: GatewayConfig, kind: type[Exception]
) -> None:
    def script(one: Parent) -> None:
        if kind is OSError:
            one.sockets.shutdown(socket.SHUT_RDWR)  # it gets no socket
        number, error = one.response()
        assert number == FIRST  # of the question that it may never hear
        assert isinstance(error, kind)
        assert f"this process cannot serve: {error}" in [one.getMessage() for one in caplog.records]

    parent.serves(config, script)
    assert parent.logging == ["begins", "ends"]


def test_logging_ends_with_a_defect_too(parent: Parent) -> None:
    broken: Any = None
    with pytest.raises(AttributeError):
        parent.serves(broken, partial(Parent.configure))
    assert parent.logging[-1] == "ends"
