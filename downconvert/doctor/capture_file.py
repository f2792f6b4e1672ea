"""Packets from capture files: pcap, and pcapng.

https://datatracker.ietf.org/doc/html/draft-ietf-opsawg-pcap and …-pcapng. Bytes come in pieces of
any size. At most one packet, or one needed block, is in memory.

Not here: the contents of packets (packets.py)."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

from records.units import KiB

from .evidence import Problems

PACKET_MAX: Final = 256 * KiB  # bytes: MAXIMUM_SNAPLEN of tcpdump
INTERFACES_MAX: Final = 1_000
OPTIONS_MAX: Final = 64 * KiB  # bytes of an interface's or a section's block

# The first four bytes: byte order, and the unit of a second's fraction.
PCAP_MAGIC: Final = {
    b"\xa1\xb2\xc3\xd4": (">", 1e6),
    b"\xd4\xc3\xb2\xa1": ("<", 1e6),
    b"\xa1\xb2\x3c\x4d": (">", 1e9),
    b"\x4d\x3c\xb2\xa1": ("<", 1e9),
}
PCAPNG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"  # the type of a section's header, in either order
_BYTE_ORDER: Final = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
_FILE_HEADER, _BLOCK_HEADER = 24, 8
_INTERFACE, _SIMPLE, _ENHANCED = 1, 3, 6
_TSRESOL: Final = 9  # an interface's option: its clock's resolution


# Reads a file: yields the number of bytes that it wants next, or a packet; -1: it cannot continue.
_Steps: TypeAlias = "Generator[int | Packet, bytes, None]"


@dataclass(frozen=True, slots=True)
class Packet:
    """A captured packet, which may be shorter than the sent one."""

    link_type: int
    data: bytes
    when: float  # seconds since the epoch


class CaptureFile:
    """Takes a file's bytes, yields its packets. After damage it yields nothing more."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._data = bytearray()
        self._skip = 0  # bytes of an unneeded block
        self._steps = self._file()
        self._wanted = len(PCAPNG_MAGIC)  # what the first step needs
        next(self._steps)
        self.is_over = False

    def feed(self, data: bytes) -> Iterator[Packet]:
        if self.is_over:
            return
        self._data += data
        start = 0
        while not self.is_over:
            skipped = min(self._skip, len(self._data) - start)
            self._skip -= skipped
            start += skipped
            if self._skip or len(self._data) - start < self._wanted:
                break
            taken = bytes(self._data[start : start + self._wanted])
            start += self._wanted
            step = self._steps.send(taken)
            while isinstance(step, Packet):
                yield step
                step = next(self._steps)
            self._wanted = step
            self.is_over = step < 0
        del self._data[:start]

    def end(self) -> None:
        """No more bytes come."""
        if not self.is_over and (self._data or self._skip):
            self._problems.add("the capture ends inside a packet")

    def _broken(self, what: str) -> int:
        self._problems.add(f"the capture is damaged: {what}; nothing after it can be read")
        return -1

    def _file(self) -> _Steps:
        magic = yield len(PCAPNG_MAGIC)
        if magic in PCAP_MAGIC:
            yield from self._pcap(*PCAP_MAGIC[magic])
        else:
            yield from self._pcapng()

    def _pcap(self, order: str, fraction: float) -> _Steps:
        header = yield _FILE_HEADER - 4
        (link_type,) = Struct(f"{order}I").unpack_from(header, 16)
        record = Struct(f"{order}IIII")  # seconds, fraction, captured, sent
        while True:
            seconds, part, size, _ = record.unpack((yield record.size))
            if size > PACKET_MAX:
                yield self._broken("a packet is too large")
            data = yield size
            yield Packet(link_type & 0xFFFF, data, seconds + part / fraction)

    def _pcapng(self) -> _Steps:
        """Continues after the first block's type."""
        start = PCAPNG_MAGIC + (yield 4)
        order = ""
        interfaces: list[tuple[int, float]] = []  # the link's type, the clock's ticks a second
        while True:
            if start[:4] == PCAPNG_MAGIC:
                magic = yield 4
                if magic not in _BYTE_ORDER:
                    yield self._broken("a section has no byte order")
                order, interfaces = _BYTE_ORDER[magic], []
            kind, size = Struct(f"{order}II").unpack(start)
            taken = _BLOCK_HEADER + 4 * (start[:4] == PCAPNG_MAGIC)
            if size % 4 or size < taken + 4:
                yield self._broken("a block has no possible size")
            left = size - taken
            if kind == _INTERFACE and left <= OPTIONS_MAX:
                interfaces.append(_interface(order, (yield left)))
                if len(interfaces) > INTERFACES_MAX:
                    yield self._broken("it has too many interfaces")
            elif kind in (_ENHANCED, _SIMPLE) and left <= PACKET_MAX + 64 * KiB:
                body = yield left
                packet = _packet(order, kind, body[:-4], interfaces)
                if packet is None:
                    self._problems.add("packets that cannot be read")
                else:
                    yield packet
            else:
                self._skip = left
                yield 0
            start = yield _BLOCK_HEADER


def _interface(order: str, body: bytes) -> tuple[int, float]:
    if len(body) < 12:
        return -1, 1e6
    link_type: int = Struct(f"{order}H").unpack_from(body)[0]
    ticks, position, option = 1e6, 8, Struct(f"{order}HH")
    while position + option.size < len(body) - 4:
        code, size = option.unpack_from(body, position)
        value = body[position + option.size : position + option.size + size]
        if code == _TSRESOL and value:
            base, power = (2.0, value[0] & 0x7F) if value[0] & 0x80 else (10.0, value[0])
            ticks = base**power
        position += option.size + (size + 3) // 4 * 4
    return link_type, ticks


def _packet(
    order: str, kind: int, body: bytes, interfaces: list[tuple[int, float]]
) -> Packet | None:
    """The packet in a block's body (without the size at its end). None if there is no packet."""
    if kind == _SIMPLE:  # has no time, and belongs to the first interface
        if len(body) < 4 or not interfaces:
            return None
        (sent,) = Struct(f"{order}I").unpack_from(body)
        return Packet(interfaces[0][0], body[4 : 4 + sent], 0.0)
    if len(body) < 20:
        return None
    number, high, low, size = Struct(f"{order}IIII").unpack_from(body)
    if number >= len(interfaces) or size > len(body) - 20:
        return None
    link_type, ticks = interfaces[number]
    return Packet(link_type, body[20 : 20 + size], (high << 32 | low) / ticks)
