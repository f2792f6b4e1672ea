"""Invalid arguments of kernels: they raise ValueError before anything is read."""

from mmap import mmap
from types import ModuleType
from typing import Any

import pytest

from records.formats import BATCH_HEADER_SIZE, V0, V1, V2
from records.kernel import ROW_SIZE, Outcome
from records.record import ROW

from .examples import batch, message, record
from .kernels import each_kernel

LOG = batch(record(0), record(1))
SIZE = len(LOG)
EVERY_CODEC = 0xFF

bad_windows = pytest.mark.parametrize(
    ("start", "end", "remaining"),
    [(-1, SIZE, SIZE), (0, SIZE + 1, SIZE), (2, 1, SIZE), (SIZE + 1, SIZE + 1, 0), (0, SIZE, -1)],
)
bad_targets = pytest.mark.parametrize(("at", "limit"), [(-1, 10), (0, 101), (11, 10), (101, 101)])


def transcoder_of(kernel: ModuleType, to_magic: int = V1) -> Any:
    return kernel.Transcoder(to_magic, 0, EVERY_CODEC, False)


@each_kernel
@pytest.mark.parametrize("to_magic", [-1, 3, 256])
def test_only_three_target_formats_are_accepted(kernel: ModuleType, to_magic: int) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        transcoder_of(kernel, to_magic)


@each_kernel
@pytest.mark.parametrize("to_magic", [-1, 2, 256])
def test_entries_convert_only_to_v0_and_v1(kernel: ModuleType, to_magic: int) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        transcoder_of(kernel).enter_entries(to_magic, 0, None)


@each_kernel
@pytest.mark.parametrize("at", [-1, 1, 61, 1000])
def test_an_incomplete_header_is_refused(kernel: ModuleType, at: int) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        transcoder_of(kernel).enter_batch(LOG[:BATCH_HEADER_SIZE], at)


@each_kernel
@bad_windows
def test_a_window_outside_its_buffer_is_refused(
    kernel: ModuleType, start: int, end: int, remaining: int
) -> None:
    window = (LOG, start, end, remaining)
    transcoder = transcoder_of(kernel)
    with pytest.raises(ValueError, match=r"\w"):
        transcoder.transcode(*window, bytearray(100), 0, 100)
    with pytest.raises(ValueError, match=r"\w"):
        transcoder.columns(*window, bytearray(100), 0, 100)
    with pytest.raises(ValueError, match=r"\w"):
        transcoder.measure(*window, 100)
    transcoder.enter_batch(LOG, 0)
    with pytest.raises(ValueError, match=r"\w"):
        transcoder.record_head(*window)


@each_kernel
@bad_targets
def test_room_outside_its_buffer_is_refused(kernel: ModuleType, at: int, limit: int) -> None:
    window = (LOG, 0, SIZE, SIZE)
    with pytest.raises(ValueError, match=r"\w"):
        transcoder_of(kernel).transcode(*window, bytearray(100), at, limit)
    with pytest.raises(ValueError, match=r"\w"):
        transcoder_of(kernel).columns(*window, bytearray(100), at, limit)
    with pytest.raises(ValueError, match=r"\w"):
        kernel.encode(b"", 0, 0, LOG, V1, 0, 0, bytearray(100), at, limit)


@each_kernel
def test_negative_room_is_refused(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        transcoder_of(kernel).measure(LOG, 0, SIZE, SIZE, -1)


@each_kernel
def test_overlapping_source_and_target_are_refused(kernel: ModuleType) -> None:
    source = bytearray(LOG)
    for target in (source, memoryview(source)[10:]):
        with pytest.raises(ValueError, match=r"\w"):
            transcoder_of(kernel).transcode(source, 0, SIZE, SIZE, target, 0, 10)
        with pytest.raises(ValueError, match=r"\w"):
            transcoder_of(kernel).columns(source, 0, SIZE, SIZE, target, 0, 10)


@each_kernel
def test_converting_records_of_a_batch_to_v2_is_refused(kernel: ModuleType) -> None:
    transcoder = transcoder_of(kernel, V2)
    transcoder.enter_batch(LOG, 0)
    window = (record(0), 0, len(record(0)), len(record(0)))
    with pytest.raises(ValueError, match=r"\w"):
        transcoder.transcode(*window, bytearray(100), 0, 100)
    with pytest.raises(ValueError, match=r"\w"):
        transcoder.measure(*window, 100)
    with pytest.raises(ValueError, match=r"\w"):
        transcoder.record_head(*window)
    assert transcoder.columns(*window, bytearray(100), 0, 100)[1] == ROW_SIZE


@each_kernel
def test_record_head_is_refused_outside_of_a_batch(kernel: ModuleType) -> None:
    transcoder = transcoder_of(kernel)
    with pytest.raises(ValueError, match=r"\w"):
        transcoder.record_head(LOG, 0, SIZE, SIZE)
    transcoder.enter_entries(V1, 0, None)
    with pytest.raises(ValueError, match=r"\w"):
        transcoder.record_head(LOG, 0, SIZE, SIZE)


@each_kernel
def test_record_converted_is_refused_for_any_but_the_next_item(kernel: ModuleType) -> None:
    transcoder = transcoder_of(kernel)
    with pytest.raises(ValueError, match=r"\w"):
        transcoder.record_converted(10, 0, 0, 30)
    transcoder.enter_batch(batch(), 0)
    with pytest.raises(ValueError, match=r"\w"):
        transcoder.record_converted(10, 0, 0, 30)
    transcoder.leave()
    transcoder.measure(LOG, 0, BATCH_HEADER_SIZE, SIZE, 100)
    with pytest.raises(ValueError, match=r"\w"):
        transcoder.record_converted(SIZE - BATCH_HEADER_SIZE + 1, 0, 0, 30)


# --- encode


def row(**fields: int) -> bytes:
    values = {
        "offset": 0,
        "timestamp": 0,
        "timestamp_type": 0,
        "key_at": 0,
        "key_size": -1,
        "value_at": 0,
        "value_size": -1,
        "headers_at": 0,
        "headers_size": 0,
        "headers_count": 0,
    }
    return ROW.pack(*(values | fields).values())


def encoded(kernel: ModuleType, rows: bytes, magic: int, source: bytes = b"0123456789") -> bytes:
    target = bytearray(1000)
    progress = kernel.encode(rows, 0, len(rows), source, magic, 0, 0, target, 0, 1000)
    assert (progress[0], progress[2]) == (len(rows), Outcome.END)
    return bytes(target[: progress[1]])


@each_kernel
@pytest.mark.parametrize("magic", [-1, 3])
def test_only_three_formats_can_be_encoded(kernel: ModuleType, magic: int) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        encoded(kernel, b"", magic)


@each_kernel
@pytest.mark.parametrize(("start", "end"), [(-1, 80), (0, 161), (80, 0), (0, 79), (1, 80)])
def test_rows_are_whole(kernel: ModuleType, start: int, end: int) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        kernel.encode(2 * row(), start, end, b"", V1, 0, 0, bytearray(1000), 0, 1000)


@each_kernel
@pytest.mark.parametrize("magic", [V0, V1, V2])
@pytest.mark.parametrize(
    ("at", "size"), [(-1, 1), (10, 1), (0, 11), (2**63 - 1, 1), (1, 2**63 - 1), (-(2**63), 0)]
)
@pytest.mark.parametrize("field", ["key", "value"])
def test_keys_and_values_outside_the_source_are_refused(
    kernel: ModuleType, magic: int, field: str, at: int, size: int
) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        encoded(kernel, row(**{f"{field}_at": at, f"{field}_size": size}), magic)


@each_kernel
@pytest.mark.parametrize(
    ("at", "size", "count"),
    [(-1, 1, 0), (10, 1, 0), (11, 0, 0), (0, -1, 0), (0, 0, -1), (0, 0, 2**31)],
)
def test_headers_outside_the_source_are_refused_only_for_v2(
    kernel: ModuleType, at: int, size: int, count: int
) -> None:
    odd = row(headers_at=at, headers_size=size, headers_count=count)
    with pytest.raises(ValueError, match=r"\w"):
        encoded(kernel, odd, V2)
    assert encoded(kernel, odd, V1) == message(V1, 0, None, None, timestamp=0)


@each_kernel
def test_the_position_of_a_null_does_not_matter(kernel: ModuleType) -> None:
    null = row(key_at=-(2**63), key_size=-(2**63), value_at=2**63 - 1, value_size=-7)
    assert encoded(kernel, null, V0) == message(V0, 0, None, None)
    assert encoded(kernel, null, V2) == record(0, None, None)


@each_kernel
def test_v2_offset_deltas_above_32_bits_are_refused(kernel: ModuleType) -> None:
    for offset in (2**31 - 1, -(2**31)):
        assert encoded(kernel, row(offset=offset), V2) == record(offset, None, None)
    for offset in (2**31, -(2**31) - 1, 2**63 - 1):
        with pytest.raises(ValueError, match=r"\w"):
            encoded(kernel, row(offset=offset), V2)
    lowest, target = row(offset=-(2**63)), bytearray(100)  # a difference of 64 bits would be 1
    with pytest.raises(ValueError, match=r"\w"):
        kernel.encode(lowest, 0, ROW_SIZE, b"", V2, 2**63 - 1, 0, target, 0, len(target))


@each_kernel
@pytest.mark.parametrize("magic", [V0, V1, V2])
def test_sizes_above_32_bits_are_refused(kernel: ModuleType, magic: int) -> None:
    with mmap(-1, 2**30) as source:  # of which no byte is ever there
        huge = row(key_size=2**30, value_size=2**30)
        with pytest.raises(ValueError, match=r"\w"):
            kernel.encode(huge, 0, ROW_SIZE, source, magic, 0, 0, bytearray(), 0, 0)


@each_kernel
def test_only_v1_has_the_attribute_of_append_time(kernel: ModuleType) -> None:
    appended = row(timestamp=9, timestamp_type=1)
    assert encoded(kernel, appended, V0) == message(V0, 0, None, None)
    expected = message(V1, 0, None, None, timestamp=9, attributes=0x08)
    assert encoded(kernel, appended, V1) == expected
    assert encoded(kernel, appended, V2) == record(0, None, None, timestamp_delta=9)


# --- crc32


@each_kernel
@pytest.mark.parametrize(("start", "end"), [(-1, 2), (0, 4), (2, 1), (4, 4)])
def test_a_checksum_outside_the_source_is_refused(kernel: ModuleType, start: int, end: int) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        kernel.crc32(b"abc", start, end)
