"""Under ConversionPolicy.kafka(), every conversion of the corpus is Kafka's own.

Uncompressed output is compared byte for byte. Compressed output is compared without what depends on
the compressor: each wrapper's head without size and checksum, and the messages inside byte for
byte. Sizes and filler are then our own, and are checked against our own output."""

from dataclasses import replace
from functools import cache
from hashlib import sha256
from itertools import zip_longest
from struct import pack
from typing import Any, Final

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords, convert, eager
from downconvert.conversion.send import LazyDownConvertSend
from records import MemoryRecords, UnsupportedCodecError
from records.units import KiB
from tests import corpus
from tests.corpus import Conversion

from .channels import sent
from .comparable import comparable

KAFKA: Final = ConversionPolicy.kafka()
CHUNK_SIZES: Final = (KiB, 128 * KiB)  # compared with 16 KiB, the default
REFUSED: Final = "UnsupportedCompressionTypeException"
KAFKA_FILLER_MAX: Final = 128 * KiB


def conversions_of(kind: str) -> list[Conversion]:
    return [one for one in corpus.conversions() if corpus.kind_of(one.input) == kind]


def eagerly_by(conversion: Conversion, policy: ConversionPolicy) -> bytes:
    records = MemoryRecords(conversion.source)
    return eager(records, conversion.to_magic, conversion.first_offset, policy)


@cache
def eagerly(conversion: Conversion) -> bytes:
    return eagerly_by(conversion, KAFKA)


def lazily(conversion: Conversion, policy: ConversionPolicy = KAFKA) -> LazyDownConvertRecords:
    records = MemoryRecords(conversion.source)
    return LazyDownConvertRecords(records, conversion.to_magic, conversion.first_offset, policy)


def written_by(conversion: Conversion, policy: ConversionPolicy) -> tuple[bytes, Any]:
    """All bytes that a send writes, and its stats."""
    send: LazyDownConvertSend = lazily(conversion, policy).to_send()
    return sent(send), send.stats


@cache
def written(conversion: Conversion) -> tuple[bytes, Any]:
    """The same under Kafka's policy. Several tests compare it, each with another result."""
    return written_by(conversion, KAFKA)


def compresses(conversion: Conversion) -> bool:
    """Whether something in the slice is compressed again."""
    return any(
        header.codec and header.magic > conversion.to_magic and not header.is_control
        for header in MemoryRecords(conversion.source).batches()
    )


@pytest.fixture(scope="module", autouse=True)
def converted_anew(way: str) -> None:
    """Conversions from memory and from files do not share their results."""
    assert way in ("held", "read")
    eagerly.cache_clear()
    written.cache_clear()


def filler(size: int) -> bytes:
    """Kafka's filler for so many promised bytes when no record is left to convert."""
    made = bytearray()
    while left := size - len(made):
        head = pack(">qi", -1, max(left + 1, 61))
        made += (head + bytes(KAFKA_FILLER_MAX - 12))[: min(left, KAFKA_FILLER_MAX)]
    return bytes(made)


# --- eager


@pytest.mark.parametrize("kind", corpus.kinds())
def test_an_eager_conversion_is_kafkas(kind: str) -> None:
    for conversion in conversions_of(kind):
        if conversion.eager.blob is None:
            continue
        ours, kafkas = eagerly(conversion), corpus.blob(conversion.eager.blob)
        if not compresses(conversion):
            assert ours == kafkas, conversion
        for our, kafka in zip_longest(comparable(ours), comparable(kafkas)):
            assert our == kafka, conversion


@pytest.mark.parametrize("is_lazy", [False, True])
def test_a_conversion_that_begins_with_a_refused_codec_is_refused(is_lazy: bool) -> None:
    errors = [((one.lazy if is_lazy else one.eager).error, one) for one in corpus.conversions()]
    refused = [(error, one) for error, one in errors if error]
    assert len(refused) > 50
    for error, conversion in refused:
        assert error.startswith(REFUSED), conversion
        with pytest.raises(UnsupportedCodecError, match="zstd is refused"):
            (lazily if is_lazy else eagerly)(conversion)


# --- lazy


@pytest.mark.parametrize("kind", corpus.kinds())
def test_a_lazy_conversion_writes_what_kafka_promises_and_writes(kind: str) -> None:
    """Cases that are not compressed again. Kafka sends its first batch twice in some; we do not."""
    for conversion in conversions_of(kind):
        if conversion.eager.blob is None or compresses(conversion):
            continue
        kafkas, promised = corpus.blob(conversion.eager.blob), conversion.lazy.promised
        assert lazily(conversion).size == promised, conversion
        ours, stats = written(conversion)
        if conversion.lazy.against_eager == "same":
            assert sha256(ours).hexdigest() == conversion.lazy.sha256, conversion
            assert stats.filler_bytes == conversion.lazy.filler, conversion
        else:
            cut = kafkas[:promised]
            assert ours == cut + filler(promised - len(cut)), conversion
            assert stats.filler_bytes == promised - len(cut), conversion


@pytest.mark.parametrize("kind", corpus.kinds())
def test_a_lazy_conversion_is_the_eager_one_cut_or_filled_to_what_was_promised(kind: str) -> None:
    for conversion in conversions_of(kind):
        if conversion.eager.blob is None:
            continue
        whole = b"".join(convert(*arguments(conversion)))
        lazy = lazily(conversion)
        cut = whole[: lazy.size]
        ours, stats = written(conversion)
        assert ours == cut + filler(lazy.size - len(cut)), conversion
        assert stats.filler_bytes == lazy.size - len(cut), conversion
        assert lazy.size >= conversion.size or not whole, conversion


def arguments(conversion: Conversion) -> tuple[MemoryRecords, int, int, ConversionPolicy]:
    records = MemoryRecords(conversion.source)
    return records, conversion.to_magic, conversion.first_offset, KAFKA


@pytest.mark.parametrize("kind", corpus.kinds())
def test_records_are_counted_as_kafka_counts_them(kind: str) -> None:
    for conversion in conversions_of(kind):
        if conversion.eager.blob is None:
            continue
        counted = conversion.eager.records_converted
        _, stats = written(conversion)
        if stats.filler_bytes or not counted:
            assert stats.records_converted == counted, conversion
        else:  # we stop at what was promised; Kafka, where its chunk of 128 KiB ends
            assert 0 < stats.records_converted <= counted, conversion


@pytest.mark.parametrize(
    "conversion",
    [c for c in corpus.conversions() if c.eager.error and not c.lazy.error],
    ids=str,
)
def test_a_refused_codec_further_on_becomes_filler(conversion: Conversion) -> None:
    assert conversion.lazy.blob is not None
    ours, stats = written(conversion)
    *our, (our_filler, _) = comparable(ours)
    *kafka, (kafka_filler, _) = comparable(corpus.blob(conversion.lazy.blob))
    assert our == kafka
    assert our_filler == filler(len(our_filler))
    assert kafka_filler == filler(len(kafka_filler))
    assert len(ours) == conversion.lazy.promised
    assert stats.records_converted == conversion.lazy.records_converted


# --- chunks


@pytest.mark.parametrize("kind", corpus.kinds())
def test_the_size_of_chunks_changes_no_byte(kind: str) -> None:
    for conversion in conversions_of(kind):
        if conversion.lazy.error:
            continue
        expected, _ = written(conversion)
        whole = None if conversion.eager.error else eagerly(conversion)
        for chunk_size in CHUNK_SIZES:
            policy = replace(KAFKA, chunk_size=chunk_size)
            assert written_by(conversion, policy)[0] == expected, (conversion, chunk_size)
            if whole is not None:
                assert eagerly_by(conversion, policy) == whole, (conversion, chunk_size)
