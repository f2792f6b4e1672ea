"""Captured data made by hand: requests, TCP segments, packets and capture files."""

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from downconvert.doctor.evidence import Reader, Seen
from records.units import KiB

CLIENT: Final = "10.0.0.2"
BROKER: Final = "10.0.0.1"
START: Final = 1_700_000_000  # seconds since the epoch
SYN: Final = 2


def request(api: int, version: int, client_id: str | None = "c", body: bytes = b"") -> bytes:
    """A request as it goes over the wire, with its length."""
    name = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id.encode()))
    name += (client_id or "").encode()
    frame = struct.pack(">hhi", api, version, 7) + name + body
    return struct.pack(">i", len(frame)) + frame


def api_versions(name: str, version: str, client_id: str = "c") -> bytes:
    """ApiVersions v3, in which a client names its software."""
    parts = b"".join(bytes([len(part) + 1]) + part.encode() for part in (name, version))
    return request(18, 3, client_id, b"\0" + parts + b"\0")


def tcp(
    data: bytes, sequence: int, *, flags: int = 16, port: int = 9092, source_port: int = 40_000
) -> bytes:
    """A segment with the smallest header."""
    sequence &= 0xFFFFFFFF
    return struct.pack(">HHIIBBHHH", source_port, port, sequence, 0, 5 << 4, flags, 0, 0, 0) + data


def ipv4(segment: bytes, source: str = CLIENT, target: str = BROKER) -> bytes:
    addresses = b"".join(bytes(map(int, address.split("."))) for address in (source, target))
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), 0, 0, 64, 6, 0)
    return head + addresses + segment


def ethernet(packet: bytes, kind: int = 0x0800, tags: int = 0) -> bytes:
    return bytes(12) + struct.pack(">HH", 0x8100, 5) * tags + struct.pack(">H", kind) + packet


def packets(stream: bytes, size: int, *, start: int = 1000, **ports: int) -> list[bytes]:
    """A connection from its SYN on, in Ethernet frames of at most so many bytes of data."""
    cut = [stream[at : at + size] for at in range(0, len(stream), size)]
    made = [tcp(b"", start - 1, flags=SYN, **ports)]
    made += [tcp(part, start + number * size, **ports) for number, part in enumerate(cut)]
    return [ethernet(ipv4(segment)) for segment in made]


def pcap(frames: Iterable[bytes], link_type: int = 1, order: str = "<") -> bytes:
    made = [struct.pack(f"{order}IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, link_type)]
    made += [struct.pack(f"{order}IIII", START, 0, len(one), len(one)) + one for one in frames]
    return b"".join(made)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A block of pcapng."""
    body += bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + size + body + size


def pcapng(
    frames: Iterable[bytes], link_type: int = 1, order: str = "<", ticks: int = START * 10**9
) -> bytes:
    """A section, one interface whose clock counts nanoseconds, and a block for each packet."""
    section = struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1)
    clock = struct.pack(f"{order}HHB3xHH", 9, 1, 9, 0, 0)
    interface = struct.pack(f"{order}HHI", link_type, 0, 0) + clock
    made = [block(0x0A0D0D0A, section, order), block(1, interface, order), block(99, b"?", order)]
    for one in frames:
        head = struct.pack(f"{order}IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(one), len(one))
        made.append(block(6, head + one, order))
    return b"".join(made)


def read(reader: Reader, data: bytes, size: int = 64 * KiB) -> list[Seen]:
    """All that a reader yields, fed with pieces of this size."""
    found: list[Seen] = []
    for start in range(0, len(data), size):
        found += reader.feed(data[start : start + size])
    return found + list(reader.end())


def requests_in(found: Sequence[Seen]) -> list[tuple[int, int]]:
    return [(one.api, one.version) for one in found]
