"""An object store that answers some requests with "slow down"."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

SLOW_DOWN: Final = (
    b"<Error><Code>SlowDown</Code><Message>Reduce your request rate</Message></Error>"
)


class Throttle:
    """A way to a store that answers some requests itself: that there are too many."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.rpartition("/")[2].partition(":")
        self._target = host, int(port)
        self.refusals = 0  # requests still to be refused
        self.refused = 0
        self.endpoint = ""

    def handle(self, client: socket.socket) -> None:
        """One request for each connection."""
        with client, suppress(OSError):
            asked = b""
            while b"\r\n\r\n" not in asked:
                piece = client.recv(65536)
                if not piece:
                    return
                asked += piece
            if self.refusals > 0:
                self.refusals -= 1
                self.refused += 1
                head = b"HTTP/1.1 503 Slow Down\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
                client.sendall(head % len(SLOW_DOWN) + SLOW_DOWN)
                return
            line, _, rest = asked.partition(b"\r\n")
            with socket.create_connection(self._target) as server:
                server.sendall(line + b"\r\nConnection: close\r\n" + rest)
                while piece := server.recv(65536):
                    client.sendall(piece)


@contextmanager
def throttled(endpoint: str) -> Iterator[Throttle]:
    throttle = Throttle(endpoint)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = server.accept()
                    threading.Thread(target=throttle.handle, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        throttle.endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
        yield throttle
        server.shutdown(socket.SHUT_RDWR)
