"""A proxy before a broker that writes down what clients send as a packet capture: no test may
listen to a network card.

Not here: what is made of it (downconvert/doctor)."""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Final

LINK_TYPE: Final = 228  # IPv4 without anything before it
SEGMENT_MAX: Final = 60_000  # bytes
SYN, ACK = 2, 16
_LOCALHOST: Final = bytes((127, 0, 0, 1))


class Recording:
    """The capture so far."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._data = bytearray()
        self.ports: list[int] = []  # of the proxy's connections, as the broker knows them
        self.clear()

    def clear(self) -> None:
        with self._lock:
            self.ports.clear()
            self._data[:] = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, LINK_TYPE)

    def pcap(self) -> bytes:
        with self._lock:
            return bytes(self._data)

    def add(self, source_port: int, sequence: int, data: bytes, flags: int = ACK) -> None:
        """A segment from a client to the broker."""
        ports = struct.pack(">HH", source_port, self._port)
        tcp = ports + struct.pack(">IIBBHHH", sequence, 0, 5 << 4, flags, 65_535, 0, 0) + data
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0)
        packet = head + _LOCALHOST * 2 + tcp
        seconds, rest = divmod(time.time_ns() // 1000, 1_000_000)
        with self._lock:
            self._data += struct.pack("<IIII", seconds, rest, len(packet), len(packet)) + packet


@contextmanager
def recorded(port: int, broker_port: int) -> Iterator[Recording]:
    """Listens at `port` for a broker at another."""
    recording = Recording(port)

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            client: socket.socket = self.request
            source_port = self.client_address[1]
            with suppress(OSError), socket.create_connection(("127.0.0.1", broker_port)) as broker:
                responses = threading.Thread(target=_pump, args=(broker, client), daemon=True)
                responses.start()
                recording.ports.append(broker.getsockname()[1])
                recording.add(source_port, 0, b"", SYN)
                sequence = 1
                while data := client.recv(SEGMENT_MAX):
                    recording.add(source_port, sequence, data)
                    sequence += len(data)
                    broker.sendall(data)
                broker.shutdown(socket.SHUT_RDWR)

    class Server(ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield recording
        finally:
            server.shutdown()
            thread.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
