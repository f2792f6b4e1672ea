"""The statistics of a send count each record once, however the response is made."""

import random

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords, convert
from downconvert.conversion import made
from records import Codec, MemoryRecords, Record, build, read
from records.steps import at_once
from records.units import KiB, MiB

from .channels import Everything, sent


def batch(offset: int, codec: Codec, size: int = 2000) -> bytes:
    dice = random.Random(offset)
    records = [Record(offset + n, n, value=dice.randbytes(size)) for n in range(10)]
    return build(records, magic=2, codec=codec)


@pytest.mark.parametrize("plain", [0, 1, 10])
@pytest.mark.parametrize("is_held", [True, False])
def test_records_before_messages_that_were_made_early_are_counted_once(
    plain: int, is_held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan measures plain messages, and the send converts them."""
    if not is_held:
        monkeypatch.setattr(made.budget, "left", 0)
    data = b"".join(batch(10 * n, Codec.NONE) for n in range(plain))
    data += batch(1000, Codec.ZSTD) + batch(1010, Codec.ZSTD)
    lazy = LazyDownConvertRecords(MemoryRecords(data), 1, 0, ConversionPolicy())
    for _ in range(2):
        send = lazy.to_send()
        sent(send)
        stats = send.stats
        assert stats.records_converted == 10 * (plain + 2)
        assert stats.batches_converted == plain + 2
        assert (stats.bytes_in, stats.bytes_out) == (len(data), lazy.size)


@pytest.mark.parametrize("target_codec", ["none", "snappy"])
@pytest.mark.parametrize("size", [100, 20_000])
def test_a_batch_without_kept_records_adds_no_temporary_bytes(size: int, target_codec: str) -> None:
    """Compaction leaves a batch its last offset, which may be above all of its records."""
    dice = random.Random(0)
    below = [Record(n, 5, value=dice.randbytes(size)) for n in range(10)]
    empty = build(below, magic=2, codec=Codec.GZIP, last_offset=99)
    kept = batch(100, Codec.GZIP)
    policy = ConversionPolicy(recode={"gzip": target_codec})
    found = []
    for data in (kept, empty + kept):
        send = LazyDownConvertRecords(MemoryRecords(data), 1, 50, policy).to_send()
        sent(send)
        found.append((send.stats.temporary_bytes, send.stats.batches_converted, send.size))
    assert found[0] == found[1]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("size", [2000, 200_000])
def test_bytes_in_are_those_of_the_records_that_were_read(size: int, codec: Codec) -> None:
    """A large record counts once, while it is converted and after it."""
    data = batch(0, codec, size) + batch(10, Codec.NONE)
    policy = ConversionPolicy(recode={"gzip": "none"})
    send = LazyDownConvertRecords(MemoryRecords(data), 1, 0, policy).to_send()
    channel, found = Everything(), [0]
    while not send.completed:
        send.write_to(channel)
        found.append(send.stats.bytes_in)
    assert found == sorted(found)
    assert found[-1] == len(data)


@pytest.mark.parametrize("size", [100, 50_000])
@pytest.mark.parametrize("first_offset", [0, 3, 9])
def test_only_messages_from_the_first_offset_on_are_counted(first_offset: int, size: int) -> None:
    """Large messages count so, too. Each is checked in pieces before its offset counts."""
    records = [Record(n, 5, value=random.Random(n).randbytes(size)) for n in range(10)]
    data = MemoryRecords(b"".join(build([one], magic=1) for one in records))
    conversion = convert(data, 0, first_offset)
    found = read(MemoryRecords(b"".join(conversion)))
    assert [one.offset for one in found] == [*range(first_offset, 10)]
    send = LazyDownConvertRecords(data, 0, first_offset).to_send()
    sent(send)
    for stats in (conversion.stats, send.stats):
        assert stats.records_converted == stats.batches_converted == 10 - first_offset


def test_the_largest_buffers_are_reported_whatever_came_after_them() -> None:
    large, small = batch(0, Codec.NONE, 8000), batch(10, Codec.NONE, 1)
    sizes = []
    for data in (small, large + small, small + large):
        conversion = convert(MemoryRecords(data), 1)
        made = [len(messages) for messages in conversion]
        sizes.append(conversion.stats.peak_buffer_bytes)
        assert sizes[-1] == max(made)
    assert sizes[0] < min(sizes[1:])


@pytest.mark.parametrize("plain", [0, 10])
def test_the_time_of_planning_in_steps_is_that_of_the_given_clock(plain: int) -> None:
    """Each call of the clock adds a second."""
    ticks = iter(range(100_000))
    data = b"".join(batch(10 * n, Codec.NONE) for n in range(plain)) + batch(1000, Codec.ZSTD)
    making = LazyDownConvertRecords.in_steps(
        MemoryRecords(data), 1, clock=lambda: float(next(ticks))
    )
    lazy = at_once(making)
    send = lazy.to_send()
    sent(send)
    assert send.stats.seconds_converting >= 1
    assert send.stats.seconds_converting == int(send.stats.seconds_converting)


def test_the_peak_of_buffers_counts_those_of_a_large_record() -> None:
    """It is converted through a window and an output, and each has two chunks."""
    log = MemoryRecords(build([Record(0, 0, value=bytes(MiB))], magic=2))
    send = LazyDownConvertRecords(log, 1).to_send()
    sent(send)
    assert 2 * ConversionPolicy().chunk_size <= send.stats.peak_buffer_bytes <= 256 * KiB


def test_the_peak_of_buffers_is_that_of_the_largest_batch_and_not_of_all() -> None:
    """The first one is decompressed at once, the second one through a window."""
    value = bytes(range(256)) * 4
    whole, streamed = (
        build([Record(n, 0, value=value) for n in range(count)], magic=1, codec=Codec.GZIP)
        for count in (100, 1000)
    )
    policy = ConversionPolicy(recode={"gzip": "none"})
    peaks = []
    for data in (whole, streamed, whole + streamed):
        conversion = convert(MemoryRecords(data), 0, 0, policy)
        assert sum(map(len, conversion)) > len(value)
        peaks.append(conversion.stats.peak_buffer_bytes)
    assert peaks[2] < peaks[0] + len(value)
    assert peaks[2] >= peaks[1]
