"""TCP segments from packets: Ethernet, Linux's cooked captures, loopback and raw IP; VLANs; IPv4
and IPv6.

Not here: capture files (capture_file.py), the segments' contents (streams.py)."""

from ipaddress import IPv6Address
from struct import Struct
from typing import Final, NamedTuple

from .evidence import Problems

# https://www.tcpdump.org/linktypes.html
NULL, ETHERNET, LOOP, LINUX_SLL, IPV4, IPV6, LINUX_SLL2 = 0, 1, 108, 113, 228, 229, 276
RAW: Final = {12, 14, 101, IPV4, IPV6}
_ETHERTYPE_IPV4, _ETHERTYPE_IPV6 = 0x0800, 0x86DD
_VLAN: Final = {0x8100, 0x88A8, 0x9100}
TAGS_MAX: Final = 8
# By link type: the position of the EtherType, and that of the IP packet.
_LINK: Final = {ETHERNET: (12, 14), LINUX_SLL: (14, 16), LINUX_SLL2: (0, 20)}
_TCP: Final = 6
_FRAGMENT: Final = 44
_EXTENSIONS: Final = {0, 43, 51, 60, 135, 139, 140}
EXTENSIONS_MAX: Final = 16
SYN: Final = 2
_HEADER: Final = Struct(">HHIIBBHHH")  # ports, sequence, acknowledgement, offset, flags, …
_SHORT: Final = Struct(">H")


class Segment(NamedTuple):
    """A TCP segment: its addresses, its place in the stream, and its captured bytes."""

    source: str
    source_port: int
    target: str
    target_port: int
    sequence: int  # of its first byte
    flags: int
    data: bytes
    size: int  # bytes that were sent


def segment_of(link_type: int, data: bytes, problems: Problems) -> Segment | None:
    """The segment in a packet. None if it has none, or cannot be read."""
    try:
        start = _ip_at(link_type, data, problems)
        if start is None:
            return None
        match data[start] >> 4:
            case 4:
                return _ipv4(data, start, problems)
            case 6:
                return _ipv6(data, start, problems)
    except (IndexError, ValueError):
        problems.add("packets that were captured too short")
        return None
    return None


def _ip_at(link_type: int, data: bytes, problems: Problems) -> int | None:
    """The position of the IP header. None for another protocol."""
    if link_type in RAW:
        return 0
    if link_type in (NULL, LOOP):
        return 4
    if link_type not in _LINK:
        problems.add("packets of a kind of link that is not known")
        return None
    type_at, start = _LINK[link_type]
    kind = _number(data, type_at)
    for _ in range(TAGS_MAX):
        if kind not in _VLAN:
            break
        kind = _number(data, start + 2)
        start += 4
    return start if kind in (_ETHERTYPE_IPV4, _ETHERTYPE_IPV6) else None


def _ipv4(data: bytes, start: int, problems: Problems) -> Segment | None:
    header = (data[start] & 0xF) * 4
    size = _number(data, start + 2)
    fragment = _number(data, start + 6)
    if data[start + 9] != _TCP or header < 20:
        return None
    if fragment & 0x3FFF:
        problems.add("packets in fragments")
        return None
    # The size is 0 if the network card splits the packet: it fills in the sizes then.
    end = start + size if size else len(data)
    source, target = (".".join(map(str, data[start + at : start + at + 4])) for at in (12, 16))
    return _tcp(data, start + header, end, source, target)


def _ipv6(data: bytes, start: int, problems: Problems) -> Segment | None:
    size = _number(data, start + 4)
    protocol = data[start + 6]
    end = start + 40 + size if size else len(data)
    source, target = (str(IPv6Address(data[start + at : start + at + 16])) for at in (8, 24))
    position = start + 40
    for _ in range(EXTENSIONS_MAX):
        if protocol == _FRAGMENT and _number(data, position + 2) & 0xFFF9:
            problems.add("packets in fragments")
            return None
        if protocol not in _EXTENSIONS and protocol != _FRAGMENT:
            break
        words = data[position + 1]
        length = (
            8 if protocol == _FRAGMENT else (words + 2) * 4 if protocol == 51 else 8 + words * 8
        )
        protocol = data[position]
        position += length
    return _tcp(data, position, end, source, target) if protocol == _TCP else None


def _tcp(data: bytes, start: int, end: int, source: str, target: str) -> Segment:
    if len(data) - start < _HEADER.size:
        raise IndexError
    source_port, target_port, sequence, _, offset, flags, *_ = _HEADER.unpack_from(data, start)
    body = start + (offset >> 4) * 4
    return Segment(
        source,
        source_port,
        target,
        target_port,
        # A SYN uses up a sequence number: its data begins after that.
        (sequence + 1) & 0xFFFFFFFF if flags & SYN else sequence,
        flags,
        data[body:end],
        max(0, end - body),
    )


def _number(data: bytes, position: int) -> int:
    if len(data) < position + 2:
        raise IndexError
    number: int = _SHORT.unpack_from(data, position)[0]
    return number
