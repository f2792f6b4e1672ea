"""The summary of a batch: its header and what its rows say, or nothing."""

from types import ModuleType
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import Codec, MemoryRecords, Record, TimestampType, build, reference
from records.batches.columns import AT, FIELDS
from records.batches.reader import read_rows, summarize
from records.crc32c import crc32c
from records.errors import CorruptRecordsError
from records.files.source import Records
from records.formats import ATTRIBUTES_AT_BATCH, V2
from tests.damage import damaged, repaired
from tests.strategies import SMALL_CONTENTS, Segment, segments

from .examples import batch, message, record
from .kernels import each_kernel

SIZE_MAX: Final = 2**20
CREATE: Final = TimestampType.CREATE
TWO_RECORDS: Final = batch(record(0), record(1))


def said_by_rows(records: Records, header: Any) -> tuple[int, bool, int, int, int] | None:
    """None: there are no records."""
    columns: dict[str, list[int]] = {"offset": [], "timestamp": [], "key_size": []}
    for rows in read_rows(records, header):
        with memoryview(rows).cast("q") as fields:
            for name, column in columns.items():
                column += fields[AT[name] :: FIELDS].tolist()
    offsets, times, key_sizes = columns.values()
    if not offsets:
        return None
    expected = list(range(header.base_offset, header.base_offset + len(offsets)))
    return len(offsets), offsets == expected, min(times), max(times), key_sizes.count(-1)


@given(segments(contents=SMALL_CONTENTS), st.data())
def test_a_batch_is_summarized_as_its_rows_are(segment: Segment, data: st.DataObject) -> None:
    log = bytearray(segment.data)
    if log and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(log) - 1))
        log[at] ^= data.draw(st.integers(1, 255))
    records = MemoryRecords(repaired(log) if data.draw(st.booleans()) else bytes(log))
    try:
        for header in records.batches():
            at = header.position
            found = summarize(records.view[at : at + header.size])
            if found is None:
                continue
            assert found[0].at(at) == header
            assert found[1][1:] == said_by_rows(records, header)
            covered = records.view[at + ATTRIBUTES_AT_BATCH : at + header.size]
            assert header.crc == crc32c(covered)
    except CorruptRecordsError:
        pass


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("count", [1, 2, 5000])
def test_ordinary_batches_are_summarized(native: ModuleType, codec: Codec, count: int) -> None:
    made = [Record(n, n % 7 - 1, CREATE, b"k" if n % 3 else None, b"v" * 9) for n in range(count)]
    log = build(made, magic=V2, codec=codec)
    fields, *found = native.summarize_batch(b"<" + log + b">", 1, 1 + len(log), SIZE_MAX)
    keyless = sum(one.key is None for one in made)
    (header,) = MemoryRecords(log).batches()
    assert (*fields, codec) == header
    assert tuple(found) == (count, True, -1, max(one.timestamp for one in made), keyless)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_offsets_rise_by_one_from_the_base_offset_on(native: ModuleType, codec: Codec) -> None:
    for offsets, are_consecutive in ((range(9), True), ([0, 1, 3], False), ([1, 2], False)):
        made = [Record(offset, 5) for offset in offsets]
        log = build(made, magic=V2, codec=codec, base_offset=0)
        assert native.summarize_batch(log, 0, len(log), SIZE_MAX)[1:] == (
            len(made),
            are_consecutive,
            5,
            5,
            len(made),
        )


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        TWO_RECORDS[:-1],
        TWO_RECORDS + TWO_RECORDS,
        TWO_RECORDS + b"\0",
        message(0, 1),
        message(1, 1),
        batch(),
        batch(record(0), b"\x01"),
        damaged(TWO_RECORDS, field="records_count", to=3),
        damaged(TWO_RECORDS, field="records_count", to=1),
        damaged(TWO_RECORDS, field="records_count", to=-1),
        damaged(TWO_RECORDS, field="records_count", to=2**31 - 1),
        damaged(TWO_RECORDS, field="attributes", to=7),
        damaged(TWO_RECORDS, field="crc", to=1),
    ],
)
def test_anything_but_one_good_batch_is_left_to_the_caller(
    native: ModuleType, entry: bytes
) -> None:
    assert native.summarize_batch(entry, 0, len(entry), SIZE_MAX) is None


def test_a_batch_that_decompresses_to_too_much_is_left(native: ModuleType) -> None:
    log = build([Record(0, 0, CREATE, None, bytes(5000))], magic=V2, codec=Codec.GZIP)
    assert native.summarize_batch(log, 0, len(log), 6000) is not None
    assert native.summarize_batch(log, 0, len(log), 4000) is None


@each_kernel
@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 3), (0, len(TWO_RECORDS) + 1)])
def test_a_batch_outside_its_buffer_is_refused(kernel: ModuleType, start: int, end: int) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        kernel.summarize_batch(TWO_RECORDS, start, end, SIZE_MAX)


def test_the_reference_leaves_every_batch() -> None:
    assert reference.summarize_batch(TWO_RECORDS, 0, len(TWO_RECORDS), SIZE_MAX) is None
