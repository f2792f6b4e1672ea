"""`count_alike`: compressed batches that are alike, counted by their headers."""

import os
import struct
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.formats import (
    BATCH_HEADER_SIZE,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Codec,
)

from .examples import batch, record
from .kernels import KERNELS, each_kernel

EVERYTHING = 2**40
COUNT_AT = 57
LAST_DELTA_AT = 23
ATTRIBUTES_AT = 21


def alike(base_offset: int, *, codec: int = Codec.LZ4, body: int = 100) -> bytes:
    """A batch that says it is compressed; nobody looks inside."""
    whole = batch(record(0, None, bytes(body)), base_offset=base_offset)
    return patched(whole, ATTRIBUTES_AT, struct.pack(">h", codec))


def patched(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def with_attributes(bits: int) -> bytes:
    return patched(alike(50), ATTRIBUTES_AT, struct.pack(">H", Codec.LZ4 | bits))


UNLIKE = {
    "another codec": alike(50, codec=Codec.ZSTD),
    "no codec": alike(50, codec=Codec.NONE),
    "another format": patched(alike(50), 16, b"\1"),
    "a transaction": with_attributes(TRANSACTIONAL),
    "a marker": with_attributes(CONTROL),
    "a delete horizon": with_attributes(DELETE_HORIZON),
    "attributes of a later format": with_attributes(0x100),
    "records below the first offset": alike(9),
    "no records": patched(alike(50), COUNT_AT, struct.pack(">i", 0)),
    "a negative count": patched(alike(50), COUNT_AT, struct.pack(">i", -1)),
    "a negative last offset": patched(alike(50), LAST_DELTA_AT, struct.pack(">i", -1)),
    "a size that is none": patched(alike(50), 8, struct.pack(">i", -1)),
    "a header and nothing else": patched(alike(50), 8, struct.pack(">i", BATCH_HEADER_SIZE - 12)),
    "a size beyond the end": patched(alike(50), 8, struct.pack(">i", 1 << 30)),
    "the largest size": patched(alike(50), 8, struct.pack(">i", 2**31 - 1)),
    "a large batch": alike(50, body=5_000),
    "half a batch": alike(50)[:-1],
    "half a header": alike(50)[: BATCH_HEADER_SIZE - 1],
    "nothing": b"",
}
BEFORE = b"".join(alike(10 + n, body=37 * n) for n in range(40))


@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize("unlike", UNLIKE)
@each_kernel
def test_batches_are_counted_up_to_the_first_that_is_not_alike(
    kernel: ModuleType, unlike: str, is_file: bool, tmp_path: Path
) -> None:
    log = b"head" + BEFORE + UNLIKE[unlike]
    (tmp_path / "log").write_bytes(log)
    descriptor = os.open(tmp_path / "log", os.O_RDONLY)
    try:
        source = descriptor if is_file else log
        counted = kernel.count_alike(source, 4, len(log), Codec.LZ4, 10, 4_000, EVERYTHING)
    finally:
        os.close(descriptor)
    assert counted == (40, len(BEFORE))


@each_kernel
def test_the_time_of_the_log_makes_no_difference(kernel: ModuleType) -> None:
    log = BEFORE + with_attributes(LOG_APPEND_TIME) + alike(60)
    call = (log, 0, len(log), Codec.LZ4, 10, 4_000, EVERYTHING)
    assert kernel.count_alike(*call) == (42, len(log))


@each_kernel
def test_large_batches_are_counted_without_their_bodies(kernel: ModuleType, tmp_path: Path) -> None:
    """Megabytes that nobody has written: the file has holes."""
    size = 1 << 20
    header = patched(alike(50)[:BATCH_HEADER_SIZE], 8, struct.pack(">i", size - 12))
    with (tmp_path / "log").open("wb") as file:
        for n in range(11):
            file.seek(n * size)
            file.write(header)
        file.truncate(11 * size)
    descriptor = os.open(tmp_path / "log", os.O_RDONLY)
    try:
        call = (descriptor, 0, 11 * size, Codec.LZ4, 0, EVERYTHING, EVERYTHING)
        assert kernel.count_alike(*call) == (11, 11 * size)
    finally:
        os.close(descriptor)


@each_kernel
def test_no_more_are_counted_than_was_asked_for(kernel: ModuleType) -> None:
    at = count = 0
    while at < len(BEFORE):
        counted, size = kernel.count_alike(BEFORE, at, len(BEFORE), 3, 0, EVERYTHING, 7)
        assert counted == min(7, 40 - count)
        at += size
        count += counted
    assert count == 40
    assert kernel.count_alike(BEFORE, 0, len(BEFORE), 3, 0, EVERYTHING, 0) == (0, 0)


@each_kernel
def test_what_cannot_be_read_ends_it(kernel: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(BEFORE)
    descriptor = os.open(tmp_path / "log", os.O_RDONLY)
    try:
        os.truncate(tmp_path / "log", len(BEFORE) // 2)
        call = (descriptor, 0, len(BEFORE), Codec.LZ4, 0, EVERYTHING, EVERYTHING)
        count, size = kernel.count_alike(*call)
    finally:
        os.close(descriptor)
    assert 0 < count < 40
    # A header tells its batch's end; the bytes up to there are not looked at.
    assert size - len(BEFORE) // 2 < 40 * 37 + 100
    assert kernel.count_alike(1 << 20, *call[1:]) == (0, 0)  # no such descriptor is open


@given(data=st.data())
def test_both_kernels_count_the_same_of_any_bytes(data: st.DataObject) -> None:
    log = bytearray(BEFORE)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(log) - 1))
        log[at] = data.draw(st.sampled_from([0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF]))
    position = data.draw(st.sampled_from([0, 0, 0, 1, len(alike(10, body=0))]))
    end = data.draw(st.integers(position, len(log)) | st.just(len(log)))
    limits = (data.draw(st.integers(0, 60)), data.draw(st.integers(0, 3_000)))
    call = (log, position, end, Codec.LZ4, *limits, data.draw(st.integers(0, 50)))
    assert len({kernel.count_alike(*call) for kernel in KERNELS}) == 1


@each_kernel
def test_what_cannot_be_counted_is_refused(kernel: ModuleType) -> None:
    good = (BEFORE, 0, len(BEFORE), Codec.LZ4, 0, 100, 100)
    for at, wrong in [
        *((0, -1), (0, "text"), (1, -1), (1, len(BEFORE) + 1), (2, len(BEFORE) + 1)),
        *((2, -1), (3, 0), (3, 5), (3, -1), (3, 256), (5, -1), (6, -1)),
    ]:
        with pytest.raises((ValueError, TypeError)):
            kernel.count_alike(*good[:at], wrong, *good[at + 1 :])
