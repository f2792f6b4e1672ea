"""Processes of a gateway that die, start or are silent while their parent does something else.

Not here: one thing after the other (test_processes_steps.py)."""

import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import Pipe
from threading import Event, Thread
from typing import Any

import pytest

from downconvert.access.rights import Access, ConfigError
from downconvert.gateway import child_process, processes
from downconvert.gateway.child_process import FIRST, RESPONSE, SIGNALS, HandedListeners
from downconvert.gateway.config import GatewayConfig, Limits
from downconvert.gateway.processes import Processes
from downconvert.gateway.session.shared import Ledgers
from downconvert.gateway.topology import Address
from tests.ports import LOOPBACK
from tests.waiting import wait_for

from .children import Child, Children

CONFIG = GatewayConfig(
    bootstrap=(Address(LOOPBACK, 1),),
    listen=Address(LOOPBACK, 0),
    limits=Limits(drain_timeout=0.1),
)
LATER = replace(CONFIG, access=Access(is_read_only=True))
A_MOMENT = 0.1  # seconds: for another thread to come as far as it can


def settings(child: Child) -> GatewayConfig:
    """Those that a child has in the end."""
    applied = [value for what, value in child.asked if what == "reload"]
    found: GatewayConfig = [child.config, *applied][-1]
    return found


def while_replaced(children: Children, does: Callable[[], object]) -> None:
    """Lets the first child die, and another thread do something while it is replaced."""
    thread = Thread(target=does)

    def prepare(_: Child) -> None:
        thread.start()
        time.sleep(A_MOMENT)
        children.prepare = lambda _: None

    children.prepare = prepare
    children.started[0].die()
    wait_for(lambda: len(children.started) == 3)
    thread.join()


@pytest.mark.parametrize("dead", [0, 1])
def test_a_restarted_process_gets_settings_that_changed_meanwhile(
    children: Children, monkeypatch: pytest.MonkeyPatch, dead: int
) -> None:
    monkeypatch.setattr(processes, "RESTART_SECONDS", 2 * A_MOMENT)
    with Processes(CONFIG, 2) as running:
        children.started[dead].die()
        running.reload(LATER)
        assert running.config == LATER
        wait_for(lambda: len(children.started) == 3)
        assert [settings(one).access for one in children.started[2:]] == [LATER.access]
        assert settings(children.started[1 - dead]).access == LATER.access


def test_a_starting_process_gets_settings_that_change_meanwhile(
    children: Children,
) -> None:
    with Processes(CONFIG, 2) as running:
        while_replaced(children, lambda: running.reload(LATER))
        assert [settings(one).access for one in children.started[1:]] == [LATER.access] * 2


def test_a_starting_process_is_stopped_with_the_others(children: Children) -> None:
    running = Processes(CONFIG, 2)
    running.start()
    while_replaced(children, running.stop)
    assert not any(child.is_alive() for child in children.started)


def test_started_processes_are_stopped_if_another_cannot_start(children: Children) -> None:
    def prepare(child: Child) -> None:
        if child.number == 1:
            raise OSError("no more processes")

    children.prepare = prepare
    with pytest.raises(OSError, match="no more processes"):
        Processes(CONFIG, 2).start()
    assert [child.is_alive() for child in children.started] == [False]


def test_settings_that_no_process_takes_stay_as_they_were(children: Children) -> None:
    with Processes(CONFIG, 2) as running:
        for child in children.started:
            child.responses["reload"] = OSError("it is ill")
        with pytest.raises(OSError, match="it is ill"):
            running.reload(LATER)
        assert running.config == CONFIG


def test_settings_that_one_process_accepts_apply(
    children: Children, caplog: pytest.LogCaptureFixture
) -> None:
    """A file has changed between the two."""
    with Processes(CONFIG, 2) as running:
        children.started[1].responses["reload"] = ConfigError("half a certificate")
        running.reload(LATER)
        assert running.config == LATER
    assert "process 77 has not accepted the settings: half a certificate" in caplog.text


def test_the_failure_of_a_process_is_not_its_response_to_new_settings(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new settings may be what it needs."""
    with Processes(CONFIG, 2) as running:
        monkeypatch.setattr(processes, "RESTART_SECONDS", 60.0)
        first = children.started[0]
        first.control.send((FIRST, ConfigError("it cannot serve")))
        first.die()
        running.reload(LATER)
        assert running.config == LATER


class Silent(dict[str, Any]):
    """The responses of a child that is silent until it is woken."""

    def __init__(self) -> None:
        self.woken = Event()

    def get(self, what: str, default: Any = None) -> Any:  # type: ignore[override]
        self.woken.wait()
        return super().get(what, default)


def test_however_often_a_silent_one_is_asked_its_parent_goes_on(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its unread questions would fill the pipe after some hundreds of scrapes."""
    monkeypatch.setattr(processes, "FIGURES_SECONDS", 0.0)
    silent = Silent()
    with Processes(CONFIG, 1) as running:
        children.started[0].responses = silent
        asking = Thread(target=lambda: [running.figures() for _ in range(600)], daemon=True)
        asking.start()
        asking.join(20.0)
        assert not asking.is_alive()
        silent.woken.set()
        monkeypatch.setattr(processes, "FIGURES_SECONDS", 5.0)
        assert running.figures().processes == 1


@pytest.mark.parametrize("arrive", [0, 1])
def test_sockets_that_the_system_drops_are_an_error_in_the_child(arrive: int) -> None:
    """It does so if the child has no more descriptors. Otherwise a broker's port had no clients
    served, and the child never asked again."""
    parents, childs = socket.socketpair()
    opened = [socket.create_server((LOOPBACK, 0)) for _ in range(2)]
    with parents, childs, opened[0], opened[1]:
        files = [one.fileno() for one in opened[:arrive]]
        socket.send_fds(parents, [RESPONSE.pack(0, 2)], files)
        with pytest.raises(OSError, match="Too many open files"):
            HandedListeners(childs).copies(5, 7_000)


def blocked() -> set[int]:
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def test_signals_for_all_processes_end_none_that_is_being_started(children: Children) -> None:
    """Not even before it can say that it ignores them."""
    before, seen = blocked(), list[set[int]]()
    children.prepare = lambda _: seen.append(blocked())
    with Processes(CONFIG, 2):
        assert seen == [before | set(SIGNALS)] * 2
        assert blocked() == before


def test_a_child_blocks_no_signals_once_it_ignores_them(monkeypatch: pytest.MonkeyPatch) -> None:
    ignored: list[tuple[int, object]] = []
    monkeypatch.setattr(signal, "signal", lambda *given: ignored.append(given))
    parents, childs = Pipe()
    ours, theirs = socket.socketpair()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        with parents, childs, ours, theirs:
            config = replace(CONFIG, spool_dir="/no/such/directory")
            child_process.serve(childs, theirs, config, lambda: bool, Ledgers())
        assert not blocked() & set(SIGNALS)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert ignored == [(number, signal.SIG_IGN) for number in SIGNALS]


@pytest.mark.parametrize("unread", [0, 1])
def test_a_process_that_dies_before_its_response_is_named(children: Children, unread: int) -> None:
    """The system reports the end of one that has not read its last question in another way."""

    def prepare(child: Child) -> None:
        ends_when_asked(child, unread)

    children.prepare = prepare
    with pytest.raises(OSError, match="process 77 of the gateway has died"):
        Processes(CONFIG, 1).start()


def ends_when_asked(child: Child, unread: int) -> None:
    """Lets a child end as soon as it has its first question, which it has read or not."""

    def end() -> None:
        child.control.poll(5.0)
        if not unread:
            child.control.recv()
        child.die()

    child.start = Thread(target=end).start  # type: ignore[method-assign]
