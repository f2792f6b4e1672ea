"""Whole entries at once: how far one call reads. The reference reads none (kernel_functions.py)."""

from itertools import product
from struct import Struct
from types import ModuleType
from typing import Any, Final, TypeAlias

import pytest

from records.codecs import compress
from records.formats import (
    CONTROL,
    CRC_AT_LEGACY,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    V0,
    V1,
    V2,
    Codec,
)

from .examples import batch, damaged, message, record

Bounds: TypeAlias = tuple[int, int]
EVERY: Final = (-(2**63), 2**63 - 1)
OFFSET: Final = Struct(">q")


def columns(kernel: ModuleType, offsets: Bounds = EVERY, timestamps: Bounds = EVERY) -> Any:
    return kernel.ArrowColumns(5000, 2**30, True, True, True, offsets, timestamps)


def read(kernel: ModuleType, log: bytes, size_max: int) -> set[int]:
    """How many bytes each of both functions reads."""
    filled = columns(kernel)
    added, is_full = filled.add_entries(log, 0, len(log), True, True, size_max)
    assert not is_full
    found, consumed = kernel.read_entries(log, 0, len(log), True, False, size_max)
    assert len(found) == len(filled)
    return {added, consumed}


def squeezed(codec: int, *records: bytes, **fields: int) -> bytes:
    if codec == Codec.NONE:
        return batch(*records, compressed=None, **fields)
    data = compress(Codec(codec), b"".join(records), magic=V2, compression_level="fast")
    fields["attributes"] = fields.get("attributes", 0) | codec
    fields.setdefault("records_count", len(records))
    return batch(compressed=data, **fields)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_no_entry_is_decompressed_once_the_limit_is_reached(native: ModuleType, codec: int) -> None:
    """An entry may decompress to as much as the limit by itself."""
    body = record(0, None, b"value" * 40)
    entry = squeezed(codec, body)
    size, log = len(body), b"".join(OFFSET.pack(n) + entry[OFFSET.size :] for n in range(6))
    for size_max, count in [
        *((0, 0), (1, 0), (size - 1, 0), (size, 1), (size + 1, 2)),
        *((2 * size - 1, 2), (2 * size, 2), (2 * size + 1, 3), (3 * size, 3), (3 * size + 1, 4)),
    ]:
        assert read(native, log, size_max) == {count * len(entry)}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_no_other_batch_is_begun_after_512_records_nor_one_of_more_than_1024(
    native: ModuleType, codec: int
) -> None:
    small = squeezed(codec, record(0))
    for count, batches in [(511, 2), (512, 1), (513, 1), (1023, 1), (1024, 1), (1025, 0)]:
        large = squeezed(codec, *map(record, range(count)))
        log = large + small
        found, consumed = native.read_entries(log, 0, len(log), True, False, 2**20)
        assert consumed == (0, len(large), len(log))[batches]
        assert len(found) == (0, count, count + 1)[batches]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("flags", [0, TRANSACTIONAL, CONTROL, CONTROL | TRANSACTIONAL])
def test_batches_of_each_kind_are_read_skipped_or_left(
    native: ModuleType, flags: int, codec: int
) -> None:
    """With a wrong checksum only if nobody compares it."""
    good = squeezed(codec, record(0), attributes=flags)
    for entry, sound in (good, True), (damaged(good, crc=1, checksum="wrong"), False):
        log = entry + OFFSET.pack(9)
        for verify, wanted in product((False, True), repeat=2):
            is_read = sound or not verify
            found, consumed = native.read_entries(entry, 0, len(entry), verify, wanted, 2**20)
            assert consumed == (len(entry) if is_read else 0)
            assert len(found) == (is_read and (wanted or not flags & CONTROL))
            filled = columns(native)
            added, _ = filled.add_entries(log, 0, len(log), verify, wanted, 2**20)
            is_added = is_read and (flags & CONTROL or wanted or not flags)
            assert added == (len(entry) if is_added else 0)
            assert len(filled) == (added > 0 and not flags & CONTROL)


@pytest.mark.parametrize("magic", [V0, V1])
def test_a_message_with_a_wrong_checksum_is_left_if_it_is_compared(
    native: ModuleType, magic: int
) -> None:
    good = message(magic, 3)
    wrong = good[:CRC_AT_LEGACY] + bytes(4) + good[CRC_AT_LEGACY + 4 :]
    for entry, verify in product((good, wrong), (False, True)):
        log = entry + OFFSET.pack(9)
        expected = 0 if verify and entry == wrong else len(good)
        assert native.read_entries(entry, 0, len(entry), verify, False, 9)[1] == expected
        assert columns(native).add_entries(log, 0, len(log), verify, True, 9)[0] == expected


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("append_time", [None, 1005])
def test_the_records_within_bounds_are_added_whatever_the_batch_is_compressed_with(
    native: ModuleType, codec: int, append_time: int | None
) -> None:
    """A compressed batch outside of the bounds is not read, and its header says what it holds."""
    times = [1000, 1004, 1002]
    fields = {"base_offset": 5, "last_offset_delta": 3, "max_timestamp": append_time or 1004}
    records = [record(n + (n > 1), timestamp_delta=time - 1000) for n, time in enumerate(times)]
    kind = 0 if append_time is None else LOG_APPEND_TIME
    log = squeezed(codec, *records, attributes=kind, **fields) + OFFSET.pack(99)
    offsets, stamps = (5, 6, 8), times if append_time is None else [append_time] * 3
    ends = [*range(3, 11), *EVERY]
    for first, last in product(ends, ends):
        filled = columns(native, (first, last))
        assert filled.add_entries(log, 0, len(log), True, True, 999) == (len(log) - 8, False)
        assert len(filled) == sum(first <= offset <= last for offset in offsets), (first, last)
    ends = [*range(998, 1008), *EVERY]
    for first, last in product(ends, ends):
        filled = columns(native, EVERY, (first, last))
        filled.add_entries(log, 0, len(log), True, True, 999)
        assert len(filled) == sum(first <= time <= last for time in stamps), (first, last)
