"""Padding is taken out of every compressed message, and nothing else is changed."""

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords, eager
from records import Codec, MemoryRecords, Record, build
from simulator.collector import Collector
from simulator.padding import without_padding


def log(*codecs: Codec) -> MemoryRecords:
    records = [
        [Record(at * 50 + n, 1, key=b"key", value=b"value %d " % n * 20) for n in range(50)]
        for at in range(len(codecs))
    ]
    batches = [
        build(some, magic=2, codec=codec) for some, codec in zip(records, codecs, strict=True)
    ]
    return MemoryRecords(b"".join(batches))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.SNAPPY])
def test_an_exact_answer_without_its_padding_is_the_eager_one(codec: Codec) -> None:
    source = log(codec, codec, Codec.NONE, codec, codec)
    send, channel = (
        LazyDownConvertRecords(source, 1, policy=ConversionPolicy()).to_send(),
        Collector(),
    )
    while not send.completed:
        send.write_to(channel)
    whole = eager(source, 1, 0, ConversionPolicy())
    plain = without_padding(channel.data)
    assert plain == whole[: len(plain)]
    assert len(channel.data) - len(plain) == send.stats.padding_bytes


def test_keys_of_plain_messages_and_what_is_torn_stay() -> None:
    whole = eager(log(Codec.NONE), 1, 0, ConversionPolicy())
    assert without_padding(whole) == whole
    assert without_padding(whole[:-3]) == whole[:-3]
