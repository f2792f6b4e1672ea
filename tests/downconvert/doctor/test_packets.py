"""TCP segments out of packets of each kind of link."""

import struct
from ipaddress import IPv6Address

import pytest

from downconvert.doctor.evidence import Problems
from downconvert.doctor.packets import Segment, segment_of

from .wire import BROKER, CLIENT, SYN, ethernet, ipv4, tcp

DATA = tcp(b"hello", 100)
FOUR = ipv4(DATA)


def ipv6(segment: bytes, extensions: bytes = b"", protocol: int = 6) -> bytes:
    head = struct.pack(">IHBB", 6 << 28, len(extensions) + len(segment), protocol, 64)
    addresses = IPv6Address("2001:db8::2").packed + IPv6Address("2001:db8::1").packed
    return head + addresses + extensions + segment


def segment(link_type: int, data: bytes) -> tuple[Segment | None, Problems]:
    problems = Problems()
    return segment_of(link_type, data, problems), problems


@pytest.mark.parametrize(
    ("link_type", "packet"),
    [
        (1, ethernet(FOUR)),
        (1, ethernet(FOUR, tags=1)),
        (1, ethernet(FOUR, tags=2)),
        (1, ethernet(FOUR) + bytes(6)),  # padded to Ethernet's least
        (113, bytes(14) + b"\x08\0" + FOUR),
        (276, b"\x08\0" + bytes(18) + FOUR),
        (0, b"\x02\0\0\0" + FOUR),
        (108, b"\0\0\0\x02" + FOUR),
        (101, FOUR),
        (228, FOUR),
    ],
)
def test_a_segment_is_found_after_every_link_header(link_type: int, packet: bytes) -> None:
    found, _ = segment(link_type, packet)
    assert found == Segment(CLIENT, 40_000, BROKER, 9092, 100, 16, b"hello", 5)


@pytest.mark.parametrize(
    "packet",
    [
        ipv6(DATA),
        ipv6(DATA, bytes([6, 0]) + bytes(6), 0),  # hop by hop
        ipv6(DATA, bytes([44, 0]) + bytes(6) + bytes([6, 0]) + bytes(6), 60),  # a whole fragment
    ],
)
def test_ipv6_has_extensions(packet: bytes) -> None:
    found, _ = segment(1, ethernet(packet, 0x86DD))
    assert found is not None
    assert (found.source, found.data) == ("2001:db8::2", b"hello")


def test_bytes_cut_off_by_a_capture_count_as_missing() -> None:
    found, _ = segment(1, ethernet(FOUR)[:-3])
    assert found is not None
    assert (found.data, found.size) == (b"he", 5)


def test_data_begins_after_a_syn() -> None:
    found, _ = segment(101, ipv4(tcp(b"", 100, flags=SYN)))
    assert found is not None
    assert found.sequence == 101


def test_a_missing_ip_size_is_taken_from_the_capture() -> None:
    packet = bytearray(FOUR)
    packet[2:4] = b"\0\0"
    found, _ = segment(101, bytes(packet))
    assert found is not None
    assert found.data == b"hello"


@pytest.mark.parametrize(
    ("link_type", "packet", "is_damage"),
    [
        (1, ethernet(FOUR, kind=0x0806), False),  # ARP
        (101, FOUR[:9] + b"\x11" + FOUR[10:], False),  # UDP
        (101, FOUR[:6] + b"\x20\0" + FOUR[8:], True),  # a fragment
        (101, FOUR[:30], True),
        (101, b"", True),
        (1, b"short", True),
        (105, FOUR, True),  # 802.11
        (1, ethernet(b"", tags=9), False),
        (101, b"\x60" + bytes(20), True),
    ],
)
def test_other_packets_are_ignored_and_damage_is_counted(
    link_type: int, packet: bytes, is_damage: bool
) -> None:
    found, problems = segment(link_type, packet)
    assert found is None
    assert bool(problems.counts) == is_damage
