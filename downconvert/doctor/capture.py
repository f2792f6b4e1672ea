"""Packet captures from tcpdump and Wireshark: the requests of clients.

`tcpdump -i any -w kafka.pcap 'tcp dst port 9092'` is enough, because only requests are read. TLS
hides everything.

Not here: files (capture_file.py), packets (packets.py), the order of bytes (streams.py), requests
(frames.py)."""

from collections.abc import Collection, Iterator
from typing import Final

from .capture_file import CaptureFile, Packet
from .evidence import Problems, Seen, seen
from .frames import RequestHead
from .packets import segment_of
from .streams import Streams

PORT: Final = 9092


class Capture:
    """A Reader of pcap or pcapng."""

    def __init__(self, ports: Collection[int] = (PORT,)) -> None:
        """`ports`: where brokers listen."""
        self.problems = Problems()
        self._ports = frozenset(ports)
        self._file = CaptureFile(self.problems)
        self._streams = Streams(self.problems)
        self._is_empty = True
        self._when = 0.0

    def feed(self, data: bytes) -> Iterator[Seen]:
        for packet in self._file.feed(data):
            yield from self._packet(packet)

    def end(self) -> Iterator[Seen]:
        self._file.end()
        for request in self._streams.end():
            yield from self._seen(*request)
        if self._is_empty:
            ports = ", ".join(map(str, sorted(self._ports)))
            self.problems.add(f"no packets to port {ports} are in it; --port names others")

    def _packet(self, packet: Packet) -> Iterator[Seen]:
        segment = segment_of(packet.link_type, packet.data, self.problems)
        if segment is None or segment.target_port not in self._ports:
            return
        self._is_empty = False
        self._when = packet.when
        for request in self._streams.take(segment):
            yield from self._seen(*request)

    def _seen(self, address: str, head: RequestHead) -> Iterator[Seen]:
        one = seen(
            client_id=head.client_id,
            software=head.software,
            address=address,
            api=head.api,
            version=head.version,
            when=self._when or None,
        )
        if one is not None:
            yield one
