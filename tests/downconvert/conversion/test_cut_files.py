"""A file that becomes shorter between two reads gives damage, and no wrong records."""

import random
from itertools import count
from typing import Any

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords, convert, eager
from downconvert.conversion import buffers
from records import (
    Codec,
    ControlRecordType,
    CorruptRecordsError,
    MemoryRecords,
    Record,
    build,
    build_marker,
    read,
)
from records.files.source import TRUNCATED
from records.formats import BATCH_HEADER_SIZE, ENTRY_HEAD_SIZE

from .changing import Changing
from .channels import sent, until_error
from .ways import RUNS_ONCE

pytestmark = RUNS_ONCE

PLAIN = ConversionPolicy(recode=dict.fromkeys(("gzip", "lz4", "zstd"), "none"))
GZIPPED = ConversionPolicy(recode={"lz4": "gzip", "zstd": "gzip"})


class Cut(Changing):
    """Is cut after some reads."""

    def __init__(self, data: bytes, size: int, reads: int, **options: Any) -> None:
        super().__init__(data, **options)
        self._cut_size = size
        self._reads = reads

    def read_into(self, target: memoryview, position: int) -> int:
        if self._reads == 0:
            self.now = self.now[: self._cut_size]
        self._reads -= 1
        return super().read_into(target, position)


def cut(data: bytes, size: int, reads: int) -> Changing:
    return Cut(data, size, reads)


def log_of(codec: Codec, magic: int, size: int) -> bytes:
    dice = random.Random(size)
    return b"".join(
        build([Record(n, 5, value=dice.randbytes(size))], magic=magic, codec=codec)
        for n in range(3)
    )


@pytest.mark.parametrize("policy", [PLAIN, GZIPPED], ids=["to plain", "to gzip"])
@pytest.mark.parametrize("size", [100, 150_000])
@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_file_that_is_cut_at_any_read_is_damage(
    codec: Codec, magic: int, size: int, policy: ConversionPolicy
) -> None:
    """The messages before the cut are those of the whole file."""
    data = log_of(codec, magic, size)
    whole = b"".join(convert(Changing(data), 0, 0, policy))
    for cut_size in (0, len(data) // 3, len(data) // 3 + 40, len(data) // 2):
        for reads in range(12):
            good, error = until_error(convert(cut(data, cut_size, reads), 0, 0, policy))
            assert whole.startswith(good)
            assert isinstance(error, CorruptRecordsError) or good == whole
            try:
                lazy = LazyDownConvertRecords(cut(data, cut_size, reads), 0, 0, policy)
                response = sent(lazy.to_send())
            except CorruptRecordsError:
                continue
            assert whole.startswith(response)
            assert lazy.damage is not None or not lazy.is_whole or response == whole


@pytest.mark.parametrize("size", [100, 150_000])
@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_the_position_of_a_cut_is_that_in_the_file(codec: Codec, magic: int, size: int) -> None:
    """If a part of the file is converted, the error is that of this part alone. Its position is
    later by the bytes before the part."""
    data, before = log_of(codec, magic, size), 1000
    errors = 0
    for cut_size in (len(data) // 3 + 40, len(data) // 2):
        for reads in range(12):
            good, error = until_error(convert(cut(data, cut_size, reads), 0, 0, PLAIN))
            part = cut(bytes(before) + data, before + cut_size, reads).slice(before, len(data))
            same, later = until_error(convert(part, 0, 0, PLAIN))
            assert (same, type(later)) == (good, type(error))
            if isinstance(error, CorruptRecordsError):
                assert isinstance(later, CorruptRecordsError)
                assert (later.reason, later.position) == (error.reason, before + error.position)
                errors += 1
    assert errors


def test_records_that_are_returned_unchanged_end_where_the_file_was_cut() -> None:
    """Nothing had to be converted, and the file was cut after that was known."""
    data, sizes = log_of(Codec.NONE, 1, 100), set()
    for reads in range(12):
        try:
            found = eager(cut(data, len(data) // 2, reads), 1, 0, ConversionPolicy.kafka())
        except CorruptRecordsError:
            continue
        assert data.startswith(found)
        sizes.add(len(found))
    assert sizes == {len(data) // 2, len(data)}


def test_a_batch_that_is_gone_is_not_taken_for_an_empty_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A buffer of zeros is like the header of a batch without records."""
    monkeypatch.setattr(buffers, "take", bytearray)
    value = random.Random(1).randbytes(150_000)
    data = build([Record(0, 5, value=value)], magic=2, codec=Codec.LZ4)
    whole = b"".join(convert(Changing(data), 0, 0, GZIPPED))
    for reads in count(1):
        good, error = until_error(convert(cut(data, 0, reads), 0, 0, GZIPPED))
        if error is None:
            break
        assert isinstance(error, CorruptRecordsError)
    assert (good, reads > 1) == (whole, True)


@pytest.mark.parametrize("left", [1_000, 30_000])
def test_a_reused_buffer_does_not_replace_the_bytes_that_were_cut_off(left: int) -> None:
    """Two conversions read one entry into the same buffer. The file is cut between them."""
    value = random.Random(1).randbytes(40_000)
    log = Changing(build([Record(0, 5, value=value)], magic=1, codec=Codec.LZ4))
    assert b"".join(convert(log, 0, 0, GZIPPED))
    log.now = log.now[:left]
    with pytest.raises(CorruptRecordsError):
        list(convert(log, 0, 0, GZIPPED))


@pytest.mark.parametrize(
    "policy",
    [
        ConversionPolicy(wrapper_size_max=None, split_at_gaps=False),
        ConversionPolicy(wrapper_size_max=400_000),
    ],
    ids=["one message", "several"],
)
@pytest.mark.parametrize("to_magic", [0, 1])
def test_a_large_record_that_is_gone_when_it_is_sent_is_in_no_message(
    to_magic: int, policy: ConversionPolicy
) -> None:
    """It was checked before, so the file was cut in between."""
    dice = random.Random(1)
    records = [Record(n, 5, value=dice.randbytes(size)) for n, size in enumerate((99, 200_000, 99))]
    data = build(records, magic=2, codec=Codec.LZ4)
    truth = [(record.offset, record.value) for record in records]
    for reads in count(1):
        good, error = until_error(convert(cut(data, 0, reads), to_magic, 0, policy))
        found = [(record.offset, record.value) for record in read(MemoryRecords(good))]
        assert found == truth[: len(found)]
        if error is None:
            break
    assert (found, reads > 20) == (truth, True)


TRANSACTIONAL = build(
    [Record(3, 5, value=b"v")], magic=2, producer_id=7, producer_epoch=0, transactional=True
)


@pytest.mark.parametrize(
    "last",
    [
        # Larger than a window: the kernel leaves it to Python.
        build([Record(3, 5, value=random.Random(1).randbytes(40_000))], magic=2, codec=Codec.GZIP),
        build_marker(ControlRecordType.ABORT, offset=3, timestamp=5, producer_id=7),
        TRANSACTIONAL,
    ],
    ids=["compressed", "marker", "transactional"],
)
@pytest.mark.parametrize("header_size", [0, 1, ENTRY_HEAD_SIZE, 22, 23, 50, BATCH_HEADER_SIZE - 1])
def test_a_file_that_is_cut_within_a_header_was_truncated_and_nothing_else(
    header_size: int, last: bytes
) -> None:
    """The kernel has seen the whole header. A decision is never made from a part of it."""
    first = build([Record(0, 5, value=b"v")], magic=2)
    policy = ConversionPolicy(recode={"gzip": "lz4"}, isolation="read_committed")
    data, cut_size = first + last, len(first) + header_size
    whole = b"".join(convert(Changing(data), 1, 0, policy))
    for reads in count(1):
        good, error = until_error(convert(cut(data, cut_size, reads), 1, 0, policy))
        assert whole.startswith(good)
        if error is None:
            break
        assert isinstance(error, CorruptRecordsError)
        assert error.reason == TRUNCATED
        assert len(first) <= error.position <= len(first) + header_size
    assert (good, reads > 1) == (whole, True)
