"""Decompressed bytes that are read again, in any parts."""

from random import Random

import pytest

from downconvert.conversion.streamed.body import DecompressedBody
from records import Codec, CorruptRecordsError, MemoryRecords, Record, build
from records.batches.compressed import STEP_SIZE, CompressedBytes
from records.steps import at_once

from .ways import RUNS_ONCE

pytestmark = RUNS_ONCE

BEFORE = 1_000  # bytes of the file before the batch


def opened(value: bytes, codec: Codec) -> tuple[DecompressedBody, bytes]:
    """The body of a batch of one record, and all of its bytes."""
    batch = build([Record(0, 5, value=value)], magic=2, codec=codec)
    records = MemoryRecords(bytes(BEFORE) + batch)
    part = records.slice(BEFORE, len(batch))
    (header,) = part.batches()
    compressed = CompressedBytes.of(part, header)
    whole = compressed.at_once(memoryview(batch)[compressed.start :], 2 * len(value))
    assert whole is not None
    return DecompressedBody(compressed, bytearray(500), 300, whole=False), bytes(whole)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_bytes_are_read_again_from_any_later_position_until_they_end(codec: Codec) -> None:
    random = Random(codec)
    body, data = opened(random.randbytes(3 * STEP_SIZE), codec)
    window, position = memoryview(bytearray(1_000)), 0
    while position < len(data):
        replay = at_once(body.replay("test", position))
        assert replay.position == position
        read = replay.read_into(window)
        assert window[:read] == data[position : position + read]
        position += read + random.choice((0, 1, 500, STEP_SIZE, STEP_SIZE + 1))
    with pytest.raises(CorruptRecordsError) as caught:
        replay.skip(len(data))
    assert caught.value.position == BEFORE
