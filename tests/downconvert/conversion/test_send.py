"""A send gives the same bytes however they are taken, and never loses or repeats one."""

import os
import socket
from itertools import pairwise

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords, eager
from records import Codec, CorruptRecordsError, FileRecords, MemoryRecords, Record, build
from records.units import KiB, MiB
from tests.python_calls import python_calls

from .channels import Everything, OneByte, RandomSizes, sent

SEGMENT = b"".join(
    build(
        [Record(offset=100 * n + i, timestamp=n, value=bytes([n]) * 37 * i) for i in range(40)],
        magic=2,
        codec=codec,
    )
    for n, codec in enumerate((Codec.NONE, Codec.GZIP, Codec.NONE, Codec.ZSTD, Codec.LZ4))
)
POLICIES = [ConversionPolicy(), ConversionPolicy(size="estimate"), ConversionPolicy.kafka()]


@pytest.mark.parametrize("channel", [Everything, OneByte, RandomSizes])
@pytest.mark.parametrize("policy", POLICIES, ids=["exact", "estimate", "kafka"])
def test_a_send_gives_the_same_bytes_however_the_channel_takes_them(channel, policy):
    lazy = LazyDownConvertRecords(MemoryRecords(SEGMENT), 1, policy=policy)
    whole = sent(lazy.to_send())
    assert len(whole) == lazy.size
    assert sent(lazy.to_send(), channel()) == whole


def test_exactly_what_was_converted_is_sent():
    records = MemoryRecords(SEGMENT)
    lazy = LazyDownConvertRecords(records, 1)
    assert sent(lazy.to_send()) == eager(records, 1)


def test_a_write_converts_at_most_one_chunk_and_writes_at_most_once():
    send = LazyDownConvertRecords(MemoryRecords(SEGMENT), 1).to_send()
    channel = Everything()
    while not send.completed:
        before = channel.writes, send.stats.bytes_in
        send.write_to(channel)
        assert channel.writes - before[0] <= 1
        assert send.stats.bytes_in - before[1] <= 16 * KiB
    assert send.remaining == 0
    assert send.write_to(channel) == 0


def test_a_budget_of_many_chunks_is_written_chunk_by_chunk():
    """A send to a channel without a descriptor holds one chunk at a time."""

    class Sizes(Everything):
        largest = 0

        def write(self, data):
            self.largest = max(self.largest, len(data))
            return super().write(data)

    log = MemoryRecords(build([Record(0, 0, value=b"v" * 1000)], magic=2) * 400)
    send, channel = LazyDownConvertRecords(log, 1).to_send(), Sizes()
    assert send.size > 20 * 16_384
    assert send.write_to(channel, 10 * send.size) == send.size
    assert channel.largest < 3 * 16_384


def test_bytes_left_by_a_failing_channel_are_sent_by_the_next_write():
    class Broken:
        def write(self, _):
            raise ConnectionResetError

    lazy = LazyDownConvertRecords(MemoryRecords(SEGMENT), 1)
    send = lazy.to_send()
    with pytest.raises(ConnectionResetError):
        send.write_to(Broken())
    assert sent(send) == sent(lazy.to_send())


def test_it_writes_to_a_raw_file_a_buffered_one_and_a_socket(tmp_path):
    lazy = LazyDownConvertRecords(MemoryRecords(SEGMENT), 0)
    expected = sent(lazy.to_send())
    for buffering in (0, -1):
        with (tmp_path / "out").open("wb", buffering) as file:
            send = lazy.to_send()
            while not send.completed:
                send.write_to(file)
        assert (tmp_path / "out").read_bytes() == expected
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        send, got = lazy.to_send(), b""
        while len(got) < lazy.size:
            send.write_to(ours)
            got += theirs.recv(MiB)
        assert got == expected


def test_a_blocked_socket_takes_nothing_and_loses_nothing():
    value = os.urandom(300_000)
    batch = build([Record(offset=0, timestamp=0, value=value)], magic=2)
    send = LazyDownConvertRecords(MemoryRecords(batch), 1).to_send()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        while send.write_to(ours):
            pass
        assert not send.completed
        got = b""
        while not send.completed or len(got) < send.size:
            got += theirs.recv(MiB)
            send.write_to(ours)
    assert got.endswith(value)


@pytest.mark.parametrize(("times", "buffered_min"), [(1, 0), (3, 16_000)])
def test_the_statistics_count_the_conversion(times, buffered_min):
    records = MemoryRecords(SEGMENT * times)
    send = LazyDownConvertRecords(records, 1).to_send()
    sent(send)
    stats = send.stats
    assert stats.records_converted == 200 * times
    assert stats.batches_converted == 5 * times
    assert stats.bytes_in == records.size
    assert stats.bytes_out == send.size
    assert stats.filler_bytes == 0
    assert buffered_min <= stats.peak_buffer_bytes < 2 * MiB
    assert stats.seconds_converting > 0


def test_the_filler_of_an_estimate_is_counted():
    one = build([Record(offset=0, timestamp=0, key=b"k", value=b"v")], magic=2)
    send = LazyDownConvertRecords(
        MemoryRecords(one), 1, policy=ConversionPolicy(size="estimate")
    ).to_send()
    sent(send)
    assert send.stats.filler_bytes == len(one) - 36


def test_temporary_bytes_equal_kafkas():
    batch = bytes.fromhex(
        "000000000000000a00000052ffffffff02a6a65d320000000000030000000000000064000000000000006"
        "5ffffffffffffffffffffffffffff0000000314000000046b31047631001800020401047632020268027810"
        "000106046b330100"
    )
    for to_magic, first_offset, expected in ((0, 0, 180), (1, 0, 204), (0, 12, 150), (1, 12, 166)):
        send = LazyDownConvertRecords(MemoryRecords(batch), to_magic, first_offset).to_send()
        sent(send)
        assert send.stats.temporary_bytes == expected


def test_an_injected_clock_is_used():
    ticks = iter(range(1000))
    send = LazyDownConvertRecords(
        MemoryRecords(SEGMENT), 1, clock=lambda: float(next(ticks))
    ).to_send()
    sent(send)
    assert send.stats.seconds_converting == int(send.stats.seconds_converting) > 0


def test_records_that_changed_after_they_were_measured_are_an_error(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    batch = build([Record(offset=i, timestamp=0, value=b"v" * 400) for i in range(200)], magic=2)
    path.write_bytes(batch)
    with FileRecords.open(path) as log:
        send = LazyDownConvertRecords(log, 1).to_send()
        os.truncate(path, 100)
        with pytest.raises(CorruptRecordsError):
            sent(send)


@pytest.mark.parametrize("large_size", [0, 82_000])
def test_records_that_become_more_than_they_were_measured_to_are_an_error(large_size, tmp_path):
    """The response ends after a whole message. A large one that does not fit is not begun."""
    path = tmp_path / "00000000000000000000.log"
    few = build([Record(offset=i, timestamp=0, value=b"v" * 993) for i in range(100)], magic=2)
    small = build([Record(offset=i, timestamp=0, value=b"1234") for i in range(200)], magic=2)
    large = build([Record(offset=200, timestamp=0, value=bytes(large_size))], magic=2)
    many = small * 8 + large if large_size else small * 100
    assert len(many) > len(few)
    path.write_bytes(few)
    with FileRecords.open(path) as log:
        lazy = LazyDownConvertRecords(log, 1)
        send, channel = lazy.to_send(), Everything()
        path.write_bytes(many)
        with pytest.raises(CorruptRecordsError):
            sent(send, channel)
    assert 0 < len(channel.taken) < lazy.size
    headers = MemoryRecords(channel.taken).batches()
    assert sum(header.size for header in headers) == len(channel.taken)


def test_records_that_become_less_than_they_were_measured_to_are_an_error(tmp_path):
    """An exact response has no filler, whatever happens to the file."""
    path = tmp_path / "00000000000000000000.log"
    few = build([Record(offset=i, timestamp=0, value=b"v" * 993) for i in range(90)], magic=2)
    small = build([Record(offset=i, timestamp=0, value=b"1234") for i in range(200)], magic=2)
    path.write_bytes(small * 50)
    with FileRecords.open(path) as log:
        send, channel = LazyDownConvertRecords(log, 1).to_send(), Everything()
        path.write_bytes(few * 3)
        with pytest.raises(CorruptRecordsError):
            sent(send, channel)
    assert send.stats.filler_bytes == 0
    headers = MemoryRecords(channel.taken).batches()
    assert sum(header.size for header in headers) == len(channel.taken)


def test_every_chunk_adds_to_the_time_of_converting():
    class Clock:
        now = 0.0

        def __call__(self):
            self.now += 1
            return self.now

    log = MemoryRecords(build([Record(0, 0, value=b"v" * 1000)], magic=2) * 400)
    send, channel = LazyDownConvertRecords(log, 1, clock=Clock()).to_send(), Everything()
    seconds = [send.stats.seconds_converting]
    while not send.completed:
        send.write_to(channel)
        seconds.append(send.stats.seconds_converting)
    assert len(seconds) > 20
    assert seconds == list(range(len(seconds)))


def test_a_turn_passes_about_its_budget_of_records_that_convert_to_nothing():
    before = build([Record(n, 0, value=b"v" * 1000) for n in range(10)], magic=2) * 200
    log = MemoryRecords(before + build([Record(100, 0, value=b"v")], magic=2))
    policy = ConversionPolicy(size="estimate")
    send, channel = LazyDownConvertRecords(log, 1, 100, policy).to_send(), Everything()
    turns = [0]
    while not channel.taken:
        send.write_to(channel, 64 * 1024)
        turns.append(send.stats.bytes_in)
    assert len(turns) > 20
    assert max(b - a for a, b in pairwise(turns)) <= 2 * 64 * 1024


def test_a_channel_without_send_or_write_is_refused():
    send = LazyDownConvertRecords(MemoryRecords(SEGMENT), 1).to_send()
    with pytest.raises(TypeError, match="neither send nor write"):
        send.write_to(object())
    assert len(sent(send)) == send.size


@pytest.mark.parametrize(("to_magic", "inside"), [(0, 90 + 26), (1, 114 + 34)])
def test_temporary_bytes_of_a_compressed_batch_are_what_is_inside_and_its_wrapper(to_magic, inside):
    batch = build(
        [
            Record(offset=offset, timestamp=timestamp, key=f"k{n}".encode(), value=f"v{n}".encode())
            for n, offset, timestamp in ((1, 12, 100), (2, 15, 300), (3, 19, 200))
        ],
        magic=2,
        codec=Codec.GZIP,
    )
    send = LazyDownConvertRecords(
        MemoryRecords(batch), to_magic, 15, ConversionPolicy.kafka()
    ).to_send()
    sent(send)
    assert send.stats.temporary_bytes == len(batch) + inside


@pytest.mark.parametrize(("to_magic", "head_size"), [(0, 26), (1, 34)])
def test_temporary_bytes_of_a_batch_that_is_streamed_count_its_wrapper(to_magic, head_size):
    records = [Record(offset=n, timestamp=n, value=bytes(1000)) for n in range(300)]
    batch = build(records, magic=2, codec=Codec.GZIP)
    send = LazyDownConvertRecords(
        MemoryRecords(batch), to_magic, 0, ConversionPolicy.kafka()
    ).to_send()
    sent(send)
    inside = 300 * (head_size + 1000)
    assert send.stats.temporary_bytes == len(batch) + inside + head_size


def test_a_file_is_converted_as_memory_is(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"#" * 100 + SEGMENT)
    with FileRecords.open(path) as log:
        records = log.slice(100, len(SEGMENT))

        converted = sent(LazyDownConvertRecords(records, 1, 7).to_send())
    assert converted == eager(MemoryRecords(SEGMENT), 1, 7)


def test_temporary_bytes_count_the_last_batch_too_where_it_is_streamed():
    batch = build(
        [Record(offset=n, timestamp=n, value=os.urandom(60_000)) for n in range(4)],
        magic=2,
        codec=Codec.GZIP,
    )
    policy = ConversionPolicy(recode={"gzip": "none"})
    send = LazyDownConvertRecords(MemoryRecords(batch), 1, policy=policy).to_send()
    sent(send)
    assert send.stats.temporary_bytes == len(batch) + send.size


def test_a_chunk_takes_few_calls_of_python(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    records = [Record(offset=n, timestamp=n, value=bytes(1000)) for n in range(500)]
    path.write_bytes(build(records, magic=2))
    with FileRecords.open(path) as log, (tmp_path / "out").open("wb", buffering=0) as channel:
        send = LazyDownConvertRecords(log, 1).to_send()
        chunks = 0

        def write() -> None:
            nonlocal chunks
            while not send.completed:
                send.write_to(channel)
                chunks += 1

        calls = python_calls(write)
        assert chunks > 30
        assert calls <= 8.5 * chunks  # one of them is `completed`
