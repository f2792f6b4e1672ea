"""A turn of a send: chunk after chunk, by the kernel where it can, and always the same bytes."""

import io
import os
import random
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downconvert import ConversionPolicy, LazyDownConvertRecords
from downconvert.conversion.engine import descriptor_of
from records import Codec, CorruptRecordsError, FileRecords, MemoryRecords, Record, build
from records.units import GiB, KiB, MiB

from .channels import Everything, OneByte, RandomSizes, sent

POLICIES = [ConversionPolicy(), ConversionPolicy(size="estimate"), ConversionPolicy.kafka()]


def segment(*codecs: Codec, count: int = 40, size: int = 300) -> bytes:
    return b"".join(
        build(
            [
                Record(offset=100 * n + i, timestamp=n, value=bytes([n + 1]) * (size * i % 999))
                for i in range(count)
            ],
            magic=2,
            codec=codec,
        )
        for n, codec in enumerate(codecs)
    )


PLAIN = segment(*[Codec.NONE] * 20)
MIXED = segment(
    *(Codec.NONE, Codec.NONE, Codec.GZIP, Codec.NONE, Codec.LZ4, Codec.SNAPPY, Codec.ZSTD),
    *(Codec.NONE, Codec.NONE, Codec.GZIP),
)


def batch_at(offset: int) -> bytes:
    records = [Record(offset=offset + n, timestamp=0, value=bytes(9000)) for n in range(2)]
    return build(records, magic=2)


COMPRESSED_FIRST = build(
    [Record(offset=n, timestamp=0, value=bytes(9000)) for n in range(50)], magic=2, codec=Codec.GZIP
) + b"".join(batch_at(100 * n) for n in range(1, 5))
LARGE = segment(Codec.NONE, Codec.NONE, count=3) + build(
    [Record(offset=900, timestamp=0, value=bytes(200_000))], magic=2
)
SEGMENTS = {"plain": PLAIN, "mixed": MIXED, "large": LARGE}


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        yield ours, theirs


def received(send, ours, theirs, budget: int) -> bytes:
    """All of a send, by turns, each after something has been read."""
    got = bytearray()
    while not send.completed:
        before = send.remaining
        assert send.write_to(ours, budget) == before - send.remaining
        assert send.remaining >= 0
        drain(theirs, got)
    drain(theirs, got)
    return bytes(got)


def drain(theirs: socket.socket, got: bytearray) -> None:
    while True:
        try:
            data = theirs.recv(MiB)
        except BlockingIOError:
            return
        if not data:
            return
        got += data


@pytest.mark.parametrize("budget", [1, 10_000, GiB])
@pytest.mark.parametrize("policy", POLICIES, ids=["exact", "estimate", "kafka"])
@pytest.mark.parametrize("what", ["plain", "mixed", "large"])
@pytest.mark.parametrize("where", ["memory", "file"])
def test_turns_of_any_budget_send_the_same_bytes(sockets, tmp_path, what, policy, budget, where):
    if policy == POLICIES[2] and what == "mixed":
        return  # Kafka refuses zstd
    data = SEGMENTS[what]
    path = tmp_path / "log"
    path.write_bytes(data)
    records = MemoryRecords(data)
    if where != "memory":
        records = FileRecords.open(path)
        records = records.slice(0, records.size)
    for to_magic in 0, 1:
        lazy = LazyDownConvertRecords(records, to_magic, policy=policy)
        expected = sent(lazy.to_send())
        send = lazy.to_send()
        assert received(send, *sockets, budget) == expected
        assert send.stats.bytes_out == lazy.size
        plain = lazy.to_send()
        sent(plain)
        if policy.size != "exact":
            continue  # how much is converted beyond what is sent depends on the chunks
        for name in "records_converted", "batches_converted", "temporary_bytes", "bytes_in":
            assert getattr(send.stats, name) == getattr(plain.stats, name), name


@pytest.mark.parametrize("codecs", [(Codec.GZIP,), (Codec.LZ4,), (Codec.NONE, Codec.LZ4)])
@pytest.mark.parametrize("budget", [1, 10_000, GiB])
def test_a_cut_send_ends_where_it_was_cut_whatever_the_budget(sockets, codecs, budget):
    """As for clients of Fetch 0-2, whose limits are hard."""
    lazy = LazyDownConvertRecords(MemoryRecords(segment(*codecs * 6)), 1)
    whole = sent(lazy.to_send())
    for size in 1, lazy.size // 3, lazy.size // 2, lazy.size - 1, lazy.size:
        assert received(lazy.to_send(size), *sockets, budget) == whole[:size]


@pytest.mark.parametrize("channel", [Everything, OneByte, RandomSizes])
@pytest.mark.parametrize("budget", [1, 30_000, GiB])
def test_channels_without_a_descriptor_take_turns_too(channel, budget):
    lazy = LazyDownConvertRecords(MemoryRecords(MIXED), 1)
    send, channel = lazy.to_send(), channel()
    while not send.completed:
        send.write_to(channel, budget)
    assert channel.taken == sent(lazy.to_send())


def test_a_part_of_a_file_is_sent_from_where_it_begins(sockets, tmp_path):
    first = segment(Codec.NONE)
    (tmp_path / "log").write_bytes(first + PLAIN)
    with FileRecords.open(tmp_path / "log") as records:
        part = records.slice(len(first), len(PLAIN))
        lazy = LazyDownConvertRecords(part, 1)
        assert received(lazy.to_send(), *sockets, GiB) == sent(lazy.to_send())


@pytest.mark.parametrize("budget", [1, 20_000, 60_000])
def test_a_turn_ends_with_its_budget(sockets, budget):
    send = LazyDownConvertRecords(MemoryRecords(PLAIN), 1).to_send()
    written = send.write_to(sockets[0], budget)
    assert budget <= max(written, send.stats.bytes_in)
    assert written <= budget + 32 * KiB
    assert send.stats.bytes_in <= budget + 32 * KiB


@pytest.mark.parametrize("budget", [GiB, None])
@pytest.mark.parametrize("data", [PLAIN, COMPRESSED_FIRST], ids=["plain", "compressed first"])
def test_a_turn_ends_where_the_channel_is_full_and_keeps_what_it_left(
    sockets, in_use, data, budget
):
    ours, theirs = sockets
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 5000)
    lazy = LazyDownConvertRecords(MemoryRecords(data), 1, policy=POLICIES[1])
    send = lazy.to_send()
    assert 0 < send.write_to(ours, budget) < lazy.size
    while send.write_to(ours, budget):
        pass
    assert in_use == {}
    if data is PLAIN:
        assert send.stats.peak_buffer_bytes <= 32 * KiB
    got = bytearray()
    drain(theirs, got)
    assert got + received(send, ours, theirs, GiB) == sent(lazy.to_send())


def test_turns_and_single_chunks_alternate(sockets):
    ours, theirs = sockets
    lazy = LazyDownConvertRecords(MemoryRecords(MIXED), 1)
    send, got, seeded = lazy.to_send(), bytearray(), random.Random(7)
    while not send.completed:
        budget = seeded.choice([None, 1, 20_000])
        send.write_to(ours, budget)
        drain(theirs, got)
    assert got == sent(lazy.to_send())


def test_pipes_and_raw_files_are_written_by_the_kernel(tmp_path):
    lazy = LazyDownConvertRecords(MemoryRecords(MIXED), 1)
    with (tmp_path / "out").open("wb", 0) as file:
        assert descriptor_of(file) == (file.fileno(), False)
        send = lazy.to_send()
        assert send.write_to(file, GiB) == lazy.size
        assert send.completed
    assert (tmp_path / "out").read_bytes() == sent(lazy.to_send())


def test_a_closed_connection_is_the_error_that_it_is_and_loses_nothing(sockets):
    ours, theirs = sockets
    theirs.close()
    lazy = LazyDownConvertRecords(MemoryRecords(PLAIN), 1)
    send = lazy.to_send()
    with pytest.raises(BrokenPipeError):
        send.write_to(ours, GiB)
    assert send.remaining == lazy.size
    assert sent(send) == sent(lazy.to_send())


def test_channels_that_wait_encrypt_or_buffer_are_written_to_by_python(sockets, tmp_path):
    ours, theirs = sockets
    assert descriptor_of(ours) == (ours.fileno(), True)
    ours.settimeout(5)
    assert descriptor_of(ours) is None
    ours.settimeout(None)
    assert descriptor_of(ours) == (ours.fileno(), True)
    encrypted = ssl.create_default_context().wrap_socket(
        theirs, server_hostname="x", do_handshake_on_connect=False
    )
    with encrypted, (tmp_path / "out").open("wb") as buffered:
        for channel in encrypted, buffered, io.BytesIO(), Everything():
            assert descriptor_of(channel) is None
    ours.close()
    assert descriptor_of(ours) is None


class Inverted(io.FileIO):
    """A file that inverts each byte."""

    TABLE = bytes(reversed(range(256)))

    def write(self, data):
        return super().write(bytes(data).translate(self.TABLE))


def test_a_file_with_a_write_of_its_own_is_written_to_by_it(tmp_path):
    lazy = LazyDownConvertRecords(MemoryRecords(PLAIN), 1)
    send = lazy.to_send()
    with Inverted(tmp_path / "out", "wb") as channel:
        while not send.completed:
            send.write_to(channel, GiB)
    assert (tmp_path / "out").read_bytes().translate(Inverted.TABLE) == sent(lazy.to_send())


def test_a_file_that_was_truncated_after_it_was_measured_is_an_error(sockets, tmp_path):
    (tmp_path / "log").write_bytes(PLAIN)
    with FileRecords.open(tmp_path / "log") as records:
        send = LazyDownConvertRecords(records, 1).to_send()
        os.truncate(tmp_path / "log", len(PLAIN) // 2)
        with pytest.raises(CorruptRecordsError):
            received(send, *sockets, GiB)
        with pytest.raises(CorruptRecordsError):
            send.write_to(sockets[0], GiB)


def test_a_truncated_segment_fails_only_its_own_response(sockets, tmp_path):
    """A process that had mapped the file would have been killed."""
    paths = [tmp_path / name for name in ("cut", "whole")]
    for path in paths:
        path.write_bytes(10 * PLAIN)
    with FileRecords.open(paths[0]) as cut, FileRecords.open(paths[1]) as whole:
        sends = [LazyDownConvertRecords(log, 1).to_send() for log in (cut, whole)]
        for send in sends:
            with (tmp_path / "begun").open("wb", buffering=0) as channel:
                assert 0 < send.write_to(channel, 64 * KiB) < send.size
        truncate = "import os, sys; os.truncate(sys.argv[1], 100_000)"
        subprocess.run([sys.executable, "-S", "-c", truncate, paths[0]], check=True)
        with pytest.raises(CorruptRecordsError, match="truncated"):
            received(sends[0], *sockets, 64 * KiB)
        left = sends[1].remaining
        with (tmp_path / "rest").open("wb", buffering=0) as channel:
            while not sends[1].completed:
                sends[1].write_to(channel, GiB)
        assert (tmp_path / "rest").stat().st_size == left


@given(
    codecs=st.lists(st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4]), max_size=6),
    count=st.integers(1, 60),
    chunk_size=st.sampled_from([128, 1000, 16 * KiB]),
    budget=st.sampled_from([1, 999, GiB]),
    first_offset=st.sampled_from([0, 50, 110]),
    buffer=st.sampled_from([1, MiB]),
    part=st.sampled_from([0.3, 0.7, 1.0]),
)
def test_the_promised_size_is_sent_for_any_segment_chunk_and_budget(
    codecs, count, chunk_size, budget, first_offset, buffer, part
):
    records = MemoryRecords(segment(*codecs, count=count))
    policy = ConversionPolicy(chunk_size=chunk_size)
    lazy = LazyDownConvertRecords(records, 1, first_offset, policy)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        for end in ours, theirs:
            end.setblocking(False)
        size = int(lazy.size * part)
        got = received(lazy.to_send(size), ours, theirs, budget)
        assert got == sent(lazy.to_send())[:size]
