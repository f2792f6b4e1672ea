"""The promises of all codecs: round trips, streams, limits, damage, and exchange with other
clients."""

import threading
from collections.abc import Callable, Iterator

import aiokafka.codec
import kafka.codec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.codecs import CompressionLevel, compress, decompress, open_decoder, open_encoder
from records.errors import CorruptRecordsError
from records.formats import V0, V1, V2, Codec

from .streams import (
    ALL,
    CODECS,
    PAYLOADS,
    SIZES,
    at_once,
    between,
    decoded,
    noise,
    of,
    pull_from,
    text,
)

each_codec = pytest.mark.parametrize(("codec", "magic"), CODECS)
each_level = pytest.mark.parametrize("compression_level", ["fast", "kafka"])
each_payload = pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)


@each_codec
@each_level
@each_payload
def test_compressed_data_is_restored(
    codec: Codec, magic: int, compression_level: CompressionLevel, payload: Callable[[int], bytes]
) -> None:
    for size in SIZES:
        data = payload(size)
        compressed = compress(codec, data, magic=magic, compression_level=compression_level)
        content = decompress(codec, compressed, limit=size, magic=magic)
        assert content == data


@each_codec
@each_payload
def test_a_stream_is_the_same_whatever_its_windows_and_targets(
    codec: Codec, magic: int, payload: Callable[[int], bytes]
) -> None:
    for size in 0, 1, 1000, 98304:
        data = payload(size)
        compressed = compress(codec, data, magic=magic, compression_level="fast")
        for windows, targets in [
            (of(1 if len(compressed) <= 2000 else 61), of(16384)),  # one by one, or misaligned
            (of(16384), of(1 if size <= 1000 else 61)),
            (of(ALL), of(10**6)),
            (between(1, 5000, seed=1), between(1, 5000, seed=2)),
        ]:
            stream = decoded(codec, compressed, magic=magic, windows=windows, targets=targets)
            assert stream == (data, None)


@each_codec
@each_level
@each_payload
@pytest.mark.parametrize("sizes", [of(ALL), of(32768), between(1, 50000, seed=3)])
def test_data_written_in_parts_is_restored(
    codec: Codec,
    magic: int,
    compression_level: CompressionLevel,
    payload: Callable[[int], bytes],
    sizes: Iterator[int],
) -> None:
    for size in SIZES:
        data = payload(size)
        encoder = open_encoder(codec, magic=magic, compression_level=compression_level)
        pull = pull_from(data, sizes)
        compressed = bytearray()
        while part := pull():
            compressed += encoder.write(part)
        compressed += encoder.finish()
        assert decompress(codec, compressed, limit=size, magic=magic) == data


@each_codec
def test_data_can_be_written_byte_by_byte(codec: Codec, magic: int) -> None:
    data = text(70_000)
    encoder = open_encoder(codec, magic=magic, compression_level="fast")
    compressed = b"".join(encoder.write(data[at : at + 1]) for at in range(len(data)))
    compressed += encoder.finish()
    assert decompress(codec, compressed, limit=len(data), magic=magic) == data


@each_codec
@each_payload
def test_data_larger_than_the_limit_is_not_returned(
    codec: Codec, magic: int, payload: Callable[[int], bytes]
) -> None:
    for size in SIZES[1:]:
        compressed = compress(codec, payload(size), magic=magic, compression_level="fast")
        for limit in 0, size // 2, size - 1:
            assert decompress(codec, compressed, limit=limit, magic=magic) is None


@each_codec
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_taken(codec: Codec, magic: int, kind: type) -> None:
    data = text(5000)
    compressed = compress(codec, kind(data), magic=magic, compression_level="kafka")
    assert isinstance(compressed, bytes)
    assert decompress(codec, kind(compressed), limit=ALL, magic=magic) == data


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("size", [0, 500, 70_000])
def test_a_stream_that_ends_too_early_is_damage_at_its_end(codec: Codec, size: int) -> None:
    compressed = compress(codec, text(size), magic=V2, compression_level="fast")
    size = len(compressed)
    ends = {1, 2, 3, 5, 7, size // 2, *range(max(1, size - 12), size)}
    for end in ends:
        seen = decoded(codec, compressed[:end])[1]
        assert seen == (f"{codec.name.lower()} data ends too early", end)
        assert at_once(codec, compressed[:end])[1] == seen


@each_codec
def test_damage_comes_after_all_bytes_before_it_and_again(codec: Codec, magic: int) -> None:
    if codec is Codec.NONE:
        return
    data = noise(300_000)
    compressed = compress(codec, data, magic=magic, compression_level="fast")[:250_000]
    decoder = open_decoder(codec, pull_from(compressed, of(1000)), magic=magic)
    target = memoryview(bytearray(10**6))
    read = decoder.read_into(target)
    assert read > 100_000
    assert target[:read] == data[:read]
    for _ in range(2):
        with pytest.raises(CorruptRecordsError):
            decoder.read_into(target)


def test_an_error_of_the_source_of_windows_is_passed_on() -> None:
    class LostError(Exception):
        pass

    def pull() -> bytes:
        raise LostError

    for codec, magic in CODECS:
        with pytest.raises(LostError):
            open_decoder(codec, pull, magic=magic).read_into(memoryview(bytearray(1)))


@pytest.mark.parametrize("magic", [V0, V1])
def test_zstd_exists_in_v2_only(magic: int) -> None:
    message = f"ZStandard compression is not supported for magic {magic}"
    with pytest.raises(ValueError, match=message):
        compress(Codec.ZSTD, b"", magic=magic, compression_level="kafka")
    with pytest.raises(ValueError, match=message):
        open_encoder(Codec.ZSTD, magic=magic, compression_level="kafka")
    compressed = compress(Codec.ZSTD, b"hello", magic=V2, compression_level="kafka")
    seen = "codec does not exist in this message format", 0
    assert decoded(Codec.ZSTD, compressed, magic=magic) == (b"", seen)
    assert at_once(Codec.ZSTD, compressed, magic=magic) == (None, seen)


@given(
    data=st.binary(max_size=2000).map(lambda data: data * 40),
    which=st.sampled_from(CODECS),
    compression_level=st.sampled_from(["fast", "kafka"]),
    seed=st.integers(0, 2**32),
)
def test_any_data_survives_a_round_trip_whatever_its_windows(
    data: bytes, which: tuple[Codec, int], compression_level: CompressionLevel, seed: int
) -> None:
    codec, magic = which
    encoder = open_encoder(codec, magic=magic, compression_level=compression_level)
    half = seed % (len(data) + 1)
    compressed = encoder.write(data[:half]) + encoder.write(data[half:]) + encoder.finish()
    cut = {"windows": between(1, 9000, seed), "targets": between(1, 9000, seed + 1)}
    assert decoded(codec, compressed, magic=magic, **cut) == (data, None)
    assert decompress(codec, compressed, limit=len(data), magic=magic) == data


@given(
    size=st.integers(0, 3000),
    which=st.sampled_from(CODECS),
    changes=st.lists(
        st.tuples(
            st.floats(0, 1),
            st.sampled_from(["flip", "set", "cut", "insert", "swap"]),
            st.binary(max_size=9),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_a_damaged_stream_has_the_same_outcome_whatever_its_windows(
    size: int, which: tuple[Codec, int], changes: list[tuple[float, str, bytes]]
) -> None:
    codec, magic = which
    compressed = bytearray(compress(codec, text(size), magic=magic, compression_level="fast"))
    for where, how, what in changes:
        at = int(where * len(compressed))
        change(compressed, at, how, what)
    content, seen = decoded(codec, bytes(compressed), magic=magic)
    assert decoded(codec, bytes(compressed), magic=magic, windows=of(3)) == (content, seen)
    assert at_once(codec, bytes(compressed), magic=magic) == (None if seen else content, seen)


def change(data: bytearray, at: int, how: str, what: bytes) -> None:
    if how == "flip" and at < len(data):
        data[at] ^= 1 << len(what) % 8
    elif how == "set":
        data[at : at + len(what)] = what
    elif how == "cut":
        del data[at:]
    elif how == "insert":
        data[at:at] = what
    else:
        data[:] = data[at:] + data[:at]


@pytest.mark.parametrize("size", [1, 5000, 100_000])
@pytest.mark.parametrize("magic", [V0, V1])
def test_other_clients_read_our_records_and_we_read_theirs(size: int, magic: int) -> None:
    data = text(size)
    lz4 = kafka.codec.lz4_encode_old_kafka, kafka.codec.lz4_decode_old_kafka
    if magic == V1:
        lz4 = kafka.codec.lz4_encode, kafka.codec.lz4_decode
    for codec, encode, decode in [
        (Codec.GZIP, kafka.codec.gzip_encode, kafka.codec.gzip_decode),
        (Codec.SNAPPY, aiokafka.codec.snappy_encode, aiokafka.codec.snappy_decode),
        (Codec.LZ4, *lz4),
    ]:
        assert decode(compress(codec, data, magic=magic, compression_level="fast")) == data
        assert decompress(codec, encode(data), limit=size, magic=magic) == data


def test_other_clients_read_zstd() -> None:
    data = text(100_000)
    for library in kafka.codec, aiokafka.codec:
        assert (
            library.zstd_decode(compress(Codec.ZSTD, data, magic=V2, compression_level="kafka"))
            == data
        )
        assert decompress(Codec.ZSTD, library.zstd_encode(data), limit=ALL, magic=V2) == data


@each_level
def test_threads_do_not_disturb_each_other(compression_level: CompressionLevel) -> None:
    failures: list[tuple[Codec, int]] = []

    def work(number: int) -> None:
        data = text(20_000 + number)
        for codec, magic in CODECS * 5:
            compressed = compress(codec, data, magic=magic, compression_level=compression_level)
            if decompress(codec, compressed, limit=ALL, magic=magic) != data:
                failures.append((codec, number))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
