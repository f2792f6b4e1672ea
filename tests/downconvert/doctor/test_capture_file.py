"""Files of packets: both formats, both byte orders, and damage."""

import struct
import tracemalloc
from collections.abc import Callable

import pytest

from downconvert.doctor.capture_file import CaptureFile, Packet
from downconvert.doctor.evidence import Problems
from records.units import GiB, KiB, MiB

from .wire import START, block, pcap, pcapng

FRAMES = [b"first", b"", b"x" * 3000]


def read(data: bytes, size: int = 64 * KiB) -> tuple[list[Packet], Problems]:
    problems = Problems()
    file = CaptureFile(problems)
    found: list[Packet] = []
    for start in range(0, len(data), size):
        found += file.feed(data[start : start + size])
    file.end()
    return found, problems


@pytest.mark.parametrize("write", [pcap, pcapng])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("size", [1, 10, 64 * KiB])
def test_packets_are_read_in_both_orders(
    write: Callable[..., bytes], order: str, size: int
) -> None:
    found, problems = read(write(FRAMES, 113, order), size)
    assert found == [Packet(113, frame, float(START)) for frame in FRAMES]
    assert not problems.counts


def test_nanoseconds_and_blocks_without_a_time_are_known() -> None:
    nanoseconds = pcap(FRAMES[:1]).replace(struct.pack("<I", 0xA1B2C3D4), b"\x4d\x3c\xb2\xa1")
    assert read(nanoseconds)[0][0].when == START
    simple = pcapng([]) + block(3, struct.pack("<I", 5) + b"first")
    assert [packet.data for packet in read(simple)[0]] == [b"first"]


PCAP_TAILS = [
    struct.pack("<IIII", 0, 0, 1 << 31, 1 << 31),
    struct.pack("<IIII", 0, 0, 50, 50) + b"cut off",
    b"\x01",
]
PCAPNG_TAILS = [
    struct.pack("<II", 6, 13),
    struct.pack("<II", 6, 8),
    block(6, struct.pack("<IIIII", 7, 0, 0, 1, 1) + b"x"),
    block(6, struct.pack("<IIIII", 0, 0, 0, GiB, 1) + b"x"),
    block(6, b""),
    struct.pack("<II", 77, 0xFFFFFFFC) + b"a block that nobody needs and nobody keeps",
    block(0x0A0D0D0A, b"\0" * 16),
]


@pytest.mark.parametrize(
    ("file", "tail"),
    [*((pcap, tail) for tail in PCAP_TAILS), *((pcapng, tail) for tail in PCAPNG_TAILS)],
)
def test_a_capture_is_read_up_to_its_damage(file: Callable[..., bytes], tail: bytes) -> None:
    found, problems = read(file(FRAMES) + tail)
    assert len(found) == len(FRAMES)
    assert problems.counts


def test_an_unneeded_block_is_not_kept() -> None:
    file = CaptureFile(Problems())
    list(file.feed(pcapng([]) + struct.pack("<II", 77, 0xFFFFFFFC)))
    tracemalloc.start()
    for _ in range(100):
        list(file.feed(bytes(MiB)))
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < MiB


def test_a_clock_may_say_anything() -> None:
    for resolution in (0, 127, 255):
        data = bytearray(pcapng(FRAMES[:1], ticks=2**64 - 1))
        at = data.index(b"\x09\0\x01\0\x09")
        data[at + 4] = resolution
        [packet] = read(bytes(data))[0]
        assert packet.when >= 0
