"""Recoding v2 batches for clients that know v2 but not all of its codecs."""

import tracemalloc
from io import BytesIO
from pathlib import Path
from random import randbytes
from typing import get_args
from weakref import ref

import pytest
from hypothesis import given

from bench.measuring.bombs import bomb
from downconvert import ConversionPolicy
from downconvert.conversion import recode
from downconvert.conversion.recode import LazyRecodedRecords, LazyRecodedSend
from records import (
    Codec,
    CorruptRecordsError,
    MemoryRecords,
    Record,
    UnsupportedCodecError,
    build,
    read,
)
from records.batches.compressed import Decompressed
from records.codecs import CompressionLevel
from records.formats import MAGIC_AT
from records.steps import at_once
from records.units import GiB, KiB, MiB
from tests.damage import flipped
from tests.downconvert.storage.logs import batch
from tests.strategies import Segment, segments

from .changing import Changing
from .ways import RUNS_ONCE

pytestmark = RUNS_ONCE

RECODE = {"zstd": "gzip"}


def sent(lazy: LazyRecodedRecords, step: int = MiB) -> bytes:
    class Channel(BytesIO):
        def write(self, data: object) -> int:
            return super().write(memoryview(data)[:step])  # type: ignore[arg-type]

    channel, send = Channel(), lazy.to_send()
    write_all(send, channel)
    assert (send.remaining, send.write_to(channel)) == (0, 0)
    return channel.getvalue()


def write_all(send: LazyRecodedSend, channel: BytesIO) -> None:
    while not send.completed:
        before = send.remaining
        assert send.write_to(channel) == before - send.remaining


def test_a_send_that_has_written_everything_releases_its_buffers() -> None:
    data = build([Record(0, 0, value=randbytes(1000))], magic=2, codec=Codec.ZSTD)
    lazy = LazyRecodedRecords(MemoryRecords(data), RECODE)
    send, used = lazy.to_send(), ref(lazy)  # what a send reads from lives as long as its buffers
    del lazy
    write_all(send, BytesIO())
    assert send.completed
    assert used() is None


@given(segments())
def test_the_records_are_the_same_and_no_batch_has_the_codec(segment: Segment) -> None:
    records = MemoryRecords(segment.data)
    lazy = LazyRecodedRecords(records, {"zstd": "gzip", "lz4": "none"})
    recoded = MemoryRecords(sent(lazy))
    assert recoded.size == lazy.size
    assert list(read(recoded)) == list(read(records))
    before, after = list(records.batches()), list(recoded.batches())
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        if old.magic == 2 and old.size > 61:
            assert new.codec not in (Codec.ZSTD, Codec.LZ4)
        assert (old.base_offset, old.last_offset) == (new.base_offset, new.last_offset)
        assert old.max_timestamp == new.max_timestamp


def test_the_codecs_of_a_policy_are_those_of_v2() -> None:
    """Its rules for messages of older formats are for those alone."""
    data = batch(0, 1, codec=Codec.LZ4) + batch(2, codec=Codec.ZSTD)
    lazy = LazyRecodedRecords(MemoryRecords(data), ConversionPolicy().recode)
    codecs = [header.codec for header in MemoryRecords(sent(lazy)).batches()]
    assert codecs == [Codec.LZ4, Codec.GZIP]


def test_codecs_that_are_not_named_are_left_as_they_are() -> None:
    data = batch(0, 1, codec=Codec.LZ4) + batch(2) + batch(3, magic=1)
    assert sent(LazyRecodedRecords(MemoryRecords(data), RECODE)) == data


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_the_bytes_do_not_depend_on_how_much_the_channel_takes(step: int) -> None:
    data = batch(0) + batch(1, 2, 3, codec=Codec.ZSTD, size=500) + batch(4)
    lazy = LazyRecodedRecords(MemoryRecords(data), RECODE)
    assert sent(lazy, step) == sent(lazy)


def test_a_range_that_is_measured_in_steps_has_the_level_that_was_asked_for() -> None:
    data = batch(*range(300), codec=Codec.ZSTD, size=200)
    found = []
    for level in get_args(CompressionLevel):
        lazy = at_once(LazyRecodedRecords.in_steps(MemoryRecords(data), RECODE, level))
        found.append(sent(lazy))
        assert found[-1] == sent(LazyRecodedRecords(MemoryRecords(data), RECODE, level))
    assert len(set(found)) == len(found) > 1


def test_a_torn_tail_is_left_out() -> None:
    data = batch(0, codec=Codec.ZSTD) + batch(1)[:-1]
    lazy = LazyRecodedRecords(MemoryRecords(data), RECODE)
    assert [record.offset for record in read(MemoryRecords(sent(lazy)))] == [0]
    assert lazy.source_size == len(batch(0, codec=Codec.ZSTD))


@pytest.mark.parametrize("place", [MAGIC_AT, -1], ids=["header", "records"])
def test_damage_after_good_batches_ends_the_range(place: int) -> None:
    good, bad = batch(0, codec=Codec.ZSTD), batch(1, codec=Codec.ZSTD)
    bad = flipped(bad, 8 * (place % len(bad)))
    lazy = LazyRecodedRecords(MemoryRecords(good + bad), RECODE)
    assert [record.offset for record in read(MemoryRecords(sent(lazy)))] == [0]
    assert isinstance(lazy.damage, CorruptRecordsError)


def test_damage_at_the_beginning_is_an_error_and_gets_no_good_checksum() -> None:
    bad = batch(0, codec=Codec.ZSTD)
    with pytest.raises(CorruptRecordsError):
        LazyRecodedRecords(MemoryRecords(flipped(bad, 8 * len(bad) - 1)), RECODE)


def test_a_codec_may_be_refused() -> None:
    with pytest.raises(UnsupportedCodecError):
        LazyRecodedRecords(MemoryRecords(batch(0, codec=Codec.ZSTD)), {"zstd": "refuse"})


def test_a_batch_that_expands_to_anything_is_held_compressed_or_refused(tmp_path: Path) -> None:
    data = bomb(tmp_path / "bomb", Codec.ZSTD, records=200, value_size=MiB).read_bytes()
    tracemalloc.start()
    lazy = LazyRecodedRecords(MemoryRecords(data), RECODE)
    assert lazy.size < 4 << 20
    assert len(sent(lazy)) == lazy.size
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20
    with pytest.raises(UnsupportedCodecError):
        LazyRecodedRecords(MemoryRecords(data), {"zstd": "none"})


LARGE = batch(*range(100), codec=Codec.ZSTD, size=80 * KiB)  # 8 MB


@pytest.fixture
def decompressed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each window was, in all."""
    found: list[int] = []
    read_into = Decompressed.read_into

    def counted(self: Decompressed, target: memoryview) -> int:
        count = read_into(self, target)
        found.append(count)
        return count

    monkeypatch.setattr(Decompressed, "read_into", counted)
    return found


def test_a_batch_of_any_size_is_measured_in_steps(decompressed: list[int]) -> None:
    steps = LazyRecodedRecords.in_steps(MemoryRecords(batch(0) + LARGE), RECODE)
    work, of_steps, lazy = 0, list[int](), None
    while lazy is None:
        decompressed.clear()
        try:
            work += next(steps)
        except StopIteration as end:
            lazy = end.value
        of_steps.append(sum(decompressed))
    assert max(of_steps) <= 64 * KiB
    assert sum(of_steps) > 8_000_000
    assert work > 8 * 8_000_000, "what is compressed again counts several times"
    assert lazy.size == LazyRecodedRecords(MemoryRecords(batch(0) + LARGE), RECODE).size
    assert lazy.has_recoded


def test_a_write_makes_no_more_than_some_windows_of_a_large_batch(decompressed: list[int]) -> None:
    data = batch(0) + LARGE + batch(100)
    send, channel = LazyRecodedRecords(MemoryRecords(data), RECODE).to_send(), BytesIO()
    of_writes = []
    while not send.completed:
        decompressed.clear()
        send.write_to(channel, GiB)
        of_writes.append(sum(decompressed))
    assert max(of_writes) <= 512 * KiB
    assert sum(of_writes) > 8_000_000
    assert list(read(MemoryRecords(channel.getvalue()))) == list(read(MemoryRecords(data)))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_has_recoded_is_false_if_no_batch_gets_another_codec(codec: Codec) -> None:
    data = batch(0, codec=codec) + batch(1)
    assert not LazyRecodedRecords(MemoryRecords(data), RECODE).has_recoded
    assert LazyRecodedRecords(MemoryRecords(data + batch(2, codec=Codec.ZSTD)), RECODE).has_recoded


@pytest.mark.parametrize(
    "after",
    [
        batch(1, 2, 3, codec=Codec.ZSTD, size=9000),  # larger: more than was promised
        batch(1, codec=Codec.ZSTD, size=1),
        batch(1, codec=Codec.LZ4, size=500),
        b"",
        b"\0" * 100,
    ],
    ids=["larger", "smaller", "another codec", "shorter", "zeros"],
)
def test_records_that_changed_are_an_error_that_stays_and_never_more_than_promised(
    after: bytes,
) -> None:
    measured = batch(1, 2, 3, codec=Codec.ZSTD, size=500)
    records = Changing(batch(0) + measured)
    lazy = LazyRecodedRecords(records, RECODE)
    records.now = batch(0) + after
    channel, send = BytesIO(), lazy.to_send()
    errors = []
    for _ in range(3):
        with pytest.raises(CorruptRecordsError) as raised:
            write_all(send, channel)
        errors.append(raised.value)
    assert errors[0] is errors[1] is errors[2]
    assert channel.getvalue() == batch(0)
    assert send.remaining == lazy.size - len(batch(0))
    assert not send.completed


def test_bits_flipped_after_measuring_do_not_get_a_valid_checksum() -> None:
    measured = batch(1, 2, 3, codec=Codec.ZSTD)
    records = Changing(measured)
    send = LazyRecodedRecords(records, RECODE).to_send()
    records.now = flipped(measured, 8 * 40)  # in the header, where it decompresses all the same
    with pytest.raises(CorruptRecordsError):
        send.write_to(BytesIO())


def test_the_size_in_the_log_is_that_of_all_runs() -> None:
    """The last run does not begin at the range's beginning."""
    plain, zstd = batch(0), batch(1, codec=Codec.ZSTD)
    for data in plain + zstd, zstd + plain + plain:
        lazy = LazyRecodedRecords(MemoryRecords(data), RECODE)
        assert lazy.has_recoded
        assert lazy.source_size == len(data)


def test_a_batch_of_exactly_the_largest_size_is_sent_and_a_larger_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A smaller limit stands for that of 32 MiB."""
    log = MemoryRecords(batch(1, 2, 3, codec=Codec.ZSTD, size=500))
    size = LazyRecodedRecords(log, RECODE).size
    monkeypatch.setattr(recode, "BATCH_SIZE_MAX", size)
    assert len(sent(LazyRecodedRecords(log, RECODE))) == size
    monkeypatch.setattr(recode, "BATCH_SIZE_MAX", size - 1)
    with pytest.raises(UnsupportedCodecError):
        LazyRecodedRecords(log, RECODE)


def test_a_batch_that_changed_to_one_that_expands_takes_little_memory(tmp_path: Path) -> None:
    """A send stops at the measured size, and never holds more of the batch."""
    expands = bomb(tmp_path / "bomb", Codec.ZSTD, records=24, value_size=MiB).read_bytes()
    value = randbytes(len(expands))
    records = Changing(build([Record(0, 0, value=value)], magic=2, codec=Codec.ZSTD))
    lazy = LazyRecodedRecords(records, {"zstd": "none"})
    records.now = expands
    send, channel = lazy.to_send(), BytesIO()
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecordsError):
            write_all(send, channel)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert channel.getvalue() == b""
    assert peak < 4 * MiB


@pytest.mark.parametrize("count", [8, 9])
def test_a_range_ends_after_the_batch_with_which_much_is_decompressed(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recode, "DECOMPRESSED_SIZE_MAX", 300 * KiB)
    each = [batch(n, codec=Codec.ZSTD, size=100 * KiB) for n in range(count)]
    records, found = MemoryRecords(b"".join(each)), []
    while records.size:
        lazy = LazyRecodedRecords(records, {"zstd": "none"})
        counted = list(read(MemoryRecords(sent(lazy))))
        assert lazy.is_cut == (lazy.source_size < records.size)
        assert len(counted) < 5
        found += [one.offset for one in counted]
        records = records.slice(lazy.source_size, records.size - lazy.source_size)
    assert found == list(range(count))
    plain = LazyRecodedRecords(MemoryRecords(b"".join(each)), {"gzip": "none"})
    assert (plain.is_cut, plain.source_size) == (False, sum(map(len, each)))
