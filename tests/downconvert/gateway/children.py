"""Children of a gateway of several processes, as threads that do what a test says.

Not here: what their parent does (test_processes_steps.py)."""

import multiprocessing
import os
import socket
from collections.abc import Callable
from multiprocessing.connection import Connection
from threading import Event, Thread
from typing import Any

from downconvert.gateway.child_process import HandedListeners
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.figures import Figures


class Child:
    """A child. `responses`: what it answers to a question; an exception is sent as one.

    `stops`: whether it ends when its parent says so."""

    pid = 77

    def __init__(self, number: int, arguments: tuple[Any, ...]) -> None:
        control, sockets, self.config, self.configure, self.ledgers = arguments
        self.number = number
        self.control: Connection[Any, Any] = Connection(os.dup(control.fileno()))
        self.listeners = HandedListeners(sockets.dup())
        self.asked: list[tuple[str, Any]] = []
        self.figures = Figures(connections=10 + number, resident_bytes=100 + number)
        self.responses: dict[str, Any] = {}
        self.stops = True
        self.is_killed = False
        self.exitcode: int | None = None
        self.ended = Event()
        self.sentinel, self._end = os.pipe()

    def start(self) -> None:
        Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        try:
            while True:
                number, what, value = self.control.recv()
                self.asked.append((what, value))
                if what == "stop":
                    if self.stops:
                        self.die(0)
                    continue
                found = self.figures if what == "figures" else None
                self.control.send((number, self.responses.get(what, found)))
        except (OSError, EOFError, TypeError):  # a closed connection has no handle to read from
            pass

    def die(self, code: int = -9) -> None:
        self.exitcode = code
        self.ended.set()
        self.control.close()
        self.listeners.close_all()
        os.close(self._end)

    def is_alive(self) -> bool:
        return not self.ended.is_set()

    def join(self, seconds: float | None = None) -> None:
        self.ended.wait(seconds)

    def kill(self) -> None:
        self.is_killed = True
        self.die()


class Children:
    """A function that starts children. `prepare`: called with each before it starts."""

    def __init__(self) -> None:
        self.started: list[Child] = []
        self.prepare: Callable[[Child], object] = lambda _: None
        self.Pipe = multiprocessing.Pipe

    def Process(self, *, target: object, args: tuple[Any, ...], name: str) -> Child:  # noqa: N802
        del target
        child = Child(len(self.started), args)
        assert name == f"gateway-{name.partition('-')[2]}"
        self.prepare(child)
        self.started.append(child)
        return child

    def configs(self) -> list[GatewayConfig]:
        return [child.config for child in self.started]


def is_free(port: int) -> bool:
    """Whether a program could listen at a port."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as programs do that listen
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
