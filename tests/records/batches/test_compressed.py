"""The compressed bytes of an entry: their position, and opening them."""

import random
from typing import Final

import pytest

from records import Codec, CorruptRecordsError, MemoryRecords, Record, build, read
from records.batches.compressed import CompressedBytes, DecompressedWindow
from records.batches.reader import read_rows
from records.batches.wrapper import build_wrapper
from records.codecs import compress
from records.files.source import TRUNCATED, Records
from records.formats import BATCH_HEADER_SIZE, PREFIX, V0, V1, V2
from records.kernel import Buffer
from tests.damage import damaged

BODY: Final = random.Random(1).randbytes(5000) + bytes(5000)
BEFORE: Final = 1000  # bytes of other entries in the file


def records_of(entry: bytes) -> Records:
    """The records that hold only this entry, in the midst of a file."""
    return MemoryRecords(bytes(BEFORE) + entry).slice(BEFORE, len(entry))


def compressed(entry: bytes) -> CompressedBytes:
    records = records_of(entry)
    return CompressedBytes.of(records, next(records.batches()))


def batch(value: bytes = BODY, codec: Codec = Codec.GZIP) -> bytes:
    return build([Record(0, 0, value=value)], magic=V2, codec=codec)


def window(found: CompressedBytes, size: int = 100) -> DecompressedWindow:
    return DecompressedWindow(found.open(memoryview(bytearray(64))), bytearray(size), BEFORE)


def everything(found: CompressedBytes) -> bytes:
    forward, seen = window(found), b""
    while forward.has_more():
        seen += forward.view[: forward.filled]
        forward.start = forward.filled
    return seen


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
@pytest.mark.parametrize("magic", [V0, V1, V2])
def test_decompressing_at_once_and_through_a_window_gives_the_same_bytes(
    magic: int, codec: Codec
) -> None:
    if codec is Codec.ZSTD and magic < V2:
        return
    entry = build([Record(0, 0, value=BODY)], magic=magic, codec=codec)
    found = compressed(entry)
    assert (found.size, found.end) == (found.end - found.start, len(entry))
    at_once = found.at_once(entry[found.start : found.end], 20_000)
    assert at_once is not None
    assert BODY in bytes(at_once)
    assert everything(found) == bytes(at_once)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_compressed_batch_may_have_no_records(codec: Codec) -> None:
    """Only a negative count is damage. Compaction clears the codec, but other programs may not."""
    empty = compress(codec, b"", magic=V2, compression_level="kafka")
    size = BATCH_HEADER_SIZE + len(empty)
    good = damaged(batch(codec=codec)[:BATCH_HEADER_SIZE] + empty, field="records_count", to=0)
    entry = damaged(good, field="size", to=size - PREFIX.size)
    records = records_of(entry)
    header = next(records.batches())
    assert everything(CompressedBytes.of(records, header)) == b""
    assert list(read(records)) == list(read_rows(records, header)) == []
    with pytest.raises(CorruptRecordsError, match="negative record count"):
        compressed(damaged(entry, field="records_count", to=-1))


def test_only_small_valid_data_is_decompressed_at_once() -> None:
    entry = batch()
    found = compressed(entry)
    data: Buffer = entry[found.start : found.end]
    assert found.at_once(data, 10_000) is None
    assert found.at_once(data[:-10], 20_000) is None


def test_a_window_yields_the_good_bytes_before_the_damage() -> None:
    entry = bytearray(batch())
    entry[-8] ^= 1  # the checksum of all that was decompressed
    forward = window(compressed(bytes(entry)), size=8000)
    assert forward.has_more()
    forward.start = forward.filled
    with pytest.raises(CorruptRecordsError, match="gzip") as caught:
        forward.fill()
    assert (caught.value.position, caught.value.inside) == (BEFORE, None)


def test_damage_in_decompressed_data_names_its_byte_and_the_batch() -> None:
    forward = window(compressed(batch()))
    forward.skip_to(2000)
    forward.fill()
    error = forward.damage("wrong", forward.start + 3)
    assert (error.position, error.inside) == (BEFORE, 2003)


@pytest.mark.parametrize("position", [50, 100, 101, 9000])
def test_skipped_bytes_may_end_before_or_after_the_windows_end(position: int) -> None:
    found = compressed(batch())
    forward = window(found)
    forward.fill()
    forward.skip_to(position)
    assert forward.has_more()
    first = bytes(forward.view[forward.start : forward.filled])
    assert everything(found)[position:].startswith(first)


@pytest.mark.parametrize("is_whole", [True, False])
def test_skipping_beyond_the_end_is_damage(is_whole: bool) -> None:
    found = compressed(batch())
    forward = DecompressedWindow(None, BODY, BEFORE) if is_whole else window(found)
    with pytest.raises(CorruptRecordsError, match="record runs past its batch") as caught:
        forward.skip_to(20_000)
    assert caught.value.position == BEFORE


def test_decompressed_bytes_within_a_buffer_count_from_their_own_beginning() -> None:
    forward = DecompressedWindow.within(bytearray(100), 40, 60, BEFORE)
    assert (forward.remaining, forward.damage("wrong", 47).inside) == (20, 7)
    forward.start = 60
    assert not forward.has_more()


def test_a_file_that_became_shorter_is_no_damage_to_the_codec() -> None:
    entry = batch()
    records = records_of(entry[:-100])
    forward = window(
        CompressedBytes(records, 0, BATCH_HEADER_SIZE, len(entry), Codec.GZIP, V2), size=20_000
    )
    with pytest.raises(CorruptRecordsError, match=TRUNCATED) as caught:
        forward.fill()
    assert caught.value.position == BEFORE


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (damaged(batch(), field="records_count", to=-1), "negative record count"),
        (
            build_wrapper(b"x", magic=V1, offset=3, attributes=Codec.ZSTD, timestamp=0),
            "codec does not exist in this message format",
        ),
    ],
)
def test_entries_without_compressed_bytes_are_refused_with_a_reason(
    entry: bytes, reason: str
) -> None:
    with pytest.raises(CorruptRecordsError, match=reason) as caught:
        compressed(entry)
    assert caught.value.position == BEFORE
