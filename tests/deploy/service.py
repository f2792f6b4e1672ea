"""A Service of Kubernetes in front of pods, as far as a rolling update sees it: a new connection
goes to one of the pods that are in it, and stays with that pod."""

import itertools
import socket
from contextlib import ExitStack, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Lock, Thread
from types import TracebackType
from typing import Final

from tests.ports import LOOPBACK

PIECE: Final = 65_536


class Service:
    """One port for each number of a port of a pod."""

    def __init__(self, ports: list[int]) -> None:
        self.failures = 0  # of connections that no pod has taken
        self._pods: dict[str, list[int]] = {}
        self._lock = Lock()
        self._turn = itertools.count()
        self._stack = ExitStack()
        for number, port in enumerate(ports):
            server = _Port((LOOPBACK, port), self, number)
            self._stack.callback(server.server_close)
            self._stack.callback(server.shutdown)
            Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> "Service":
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._stack.close()

    def add(self, pod: str, ports: list[int]) -> None:
        """A pod is ready: it listens at these ports."""
        with self._lock:
            self._pods[pod] = ports

    def remove(self, pod: str) -> None:
        """A pod is about to end: it gets no new connection."""
        with self._lock:
            del self._pods[pod]

    def port_of_a_pod(self, number: int) -> int:
        with self._lock:
            every = list(self._pods.values())
            return every[next(self._turn) % len(every)][number]


class _Port(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address: tuple[str, int], service: Service, number: int) -> None:
        self.service, self.number = service, number
        super().__init__(address, _Handler)


class _Handler(BaseRequestHandler):
    server: _Port

    def handle(self) -> None:
        service = self.server.service
        try:
            pod = socket.create_connection((LOOPBACK, service.port_of_a_pod(self.server.number)))
        except OSError:
            service.failures += 1
            return
        with pod:
            back = Thread(target=_pour, args=(pod, self.request), daemon=True)
            back.start()
            _pour(self.request, pod)
            back.join()


def _pour(source: socket.socket, target: socket.socket) -> None:
    """Copies until the source ends, and then ends the target."""
    with suppress(OSError):
        while piece := source.recv(PIECE):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
