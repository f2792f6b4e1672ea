"""A server that answers each request with the same bytes, as a store that refuses everything."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def refusing(response: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Its address, and the requests that it has got."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    requests.append(client.recv(65536))
                    client.sendall(response)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}", requests
