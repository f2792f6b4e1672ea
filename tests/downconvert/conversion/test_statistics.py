"""The statistics of a send count each record once, however the response is made."""

import random

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords
from downconvert.conversion import made
from records import Codec, MemoryRecords, Record, build

from .channels import sent


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
