"""Features of the native kernel alone: buffers of every kind, threads, and codecs at once.

Not here: equality with the reference (test_twins.py, test_kernel_*.py)."""

import gzip
import mmap
import random
import threading
import zlib
from array import array
from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.codecs import compress, open_decoder
from records.errors import CorruptRecordsError
from records.formats import V0, V1, V2, Codec
from records.kernel import Buffer, Outcome
from tests.damage import mutated

from .examples import batch, record

LOG = batch(*(record(delta, b"key", b"value" * delta) for delta in range(5)))


# --- buffers


def converted(native: ModuleType, source: Buffer, target: Buffer) -> bytes:
    size = len(LOG)
    transcoder = native.Transcoder(1, 0, 0xFF, False)
    consumed, produced, outcome = transcoder.transcode(source, 0, size, size, target, 3, 900)
    assert (consumed, outcome) == (size, Outcome.END)
    return bytes(memoryview(target).cast("B")[3 : 3 + produced])


def in_map(data: bytes) -> mmap.mmap:
    mapped = mmap.mmap(-1, len(data))
    mapped[:] = data
    return mapped


@pytest.mark.parametrize("make_source", [bytes, bytearray, memoryview, in_map])
@pytest.mark.parametrize(
    "target",
    [bytearray(1000), memoryview(bytearray(1000)), in_map(bytes(1000)), array("q", [0] * 125)],
    ids=lambda target: type(target).__name__,
)
def test_all_buffers_are_read_and_written_in_place(
    native: ModuleType, make_source: Callable[[bytes], Buffer], target: Buffer
) -> None:
    expected = converted(native, LOG, bytearray(1000))
    assert converted(native, make_source(LOG), target) == expected


def test_a_part_of_a_buffer_may_be_converted_into_another_part(native: ModuleType) -> None:
    both = memoryview(bytearray(len(LOG) + 1000))
    both[: len(LOG)] = LOG
    expected = converted(native, LOG, bytearray(1000))
    assert converted(native, both[: len(LOG)], both[len(LOG) :]) == expected


@pytest.mark.parametrize("at", [0, 1, 50])
def test_buffers_that_overlap_are_refused(native: ModuleType, at: int) -> None:
    both = memoryview(bytearray(LOG + bytes(1000)))
    with pytest.raises(ValueError, match="overlap"):
        converted(native, both[: len(LOG)], both[at:])


@pytest.mark.parametrize(
    ("source", "target", "error"),
    [
        (LOG, bytes(1000), BufferError),
        (memoryview(LOG * 2)[::2], bytearray(1000), BufferError),
        ("text", bytearray(1000), TypeError),
        (LOG, None, TypeError),
    ],
    ids=["read-only target", "gaps in the source", "text", "no target"],
)
def test_other_objects_than_buffers_are_refused(
    native: ModuleType, source: Buffer, target: Buffer, error: type[Exception]
) -> None:
    with pytest.raises(error):
        native.Transcoder(1, 0, 0xFF, False).transcode(source, 0, 9, 9, target, 0, 9)


def test_a_buffer_is_released_after_each_call(native: ModuleType) -> None:
    source, target = bytearray(LOG), bytearray(1000)
    converted(native, source, target)
    source.clear()  # a BufferError as long as something holds it
    target.clear()


def test_numbers_that_cannot_be_indices_are_refused(native: ModuleType) -> None:
    transcoder = native.Transcoder(1, 0, 0xFF, False)
    for wrong in -1, len(LOG) + 1, 2**63, -(2**70), 2**70:
        with pytest.raises(ValueError, match="outside"):
            transcoder.measure(LOG, 0, wrong, len(LOG), 0)


# --- threads


def test_other_threads_run_during_a_call_of_the_kernel(native: ModuleType) -> None:
    data = bytes(1 << 28)
    running = threading.Event()
    done = threading.Event()

    def sum_up() -> None:
        running.set()
        native.crc32(data, 0, len(data))
        done.set()

    thread = threading.Thread(target=sum_up)
    thread.start()
    assert running.wait(60)
    turns = 0
    while not done.is_set():
        turns += 1
    thread.join()
    assert turns > 1000


def test_threads_compress_independently(native: ModuleType) -> None:
    contents = [random.Random(seed).randbytes(500) * 40 for seed in range(8)]
    results: dict[int, bytes | None] = {}

    def there_and_back(index: int) -> None:
        content = contents[index]
        member = native.gzip_compress(content, 0, len(content), 1 + index)
        results[index] = native.decompress(Codec.GZIP, member, 0, len(member), V2, len(content))

    threads = [threading.Thread(target=there_and_back, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[index] for index in range(8)] == contents


# --- codecs


SEEDED = random.Random(8191)
CONTENTS = {
    "nothing": b"",
    "a byte": b"a",
    "zeros": bytes(1_000_000),
    "noise": SEEDED.randbytes(70_000),
    "words": b"".join(SEEDED.choice([b"key", b"value", b"offset"]) for _ in range(30_000)),
}


@pytest.mark.parametrize("content", list(CONTENTS.values()), ids=list(CONTENTS))
def test_gzip_of_any_level_and_origin_is_read(native: ModuleType, content: bytes) -> None:
    members = [native.gzip_compress(content, 0, len(content), level) for level in (1, 6, 12)]
    assert [gzip.decompress(member) for member in members] == [content] * 3
    for member in [*members, gzip.compress(content), zlib.compress(content, wbits=31)]:
        framed = b"<" + member + b">"
        end = 1 + len(member)
        assert native.decompress(Codec.GZIP, framed, 1, end, V2, len(content)) == content
        if content:
            assert native.decompress(Codec.GZIP, framed, 1, end, V2, len(content) - 1) is None


CONTENT = b"the content of a member" * 20
MEMBER = gzip.compress(CONTENT, mtime=0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        MEMBER[:17],
        MEMBER[:-1],
        MEMBER + MEMBER[:-1],
        MEMBER[:-8] + bytes([MEMBER[-8] ^ 1]) + MEMBER[-7:],
        MEMBER[:-4] + (len(CONTENT) + 1).to_bytes(4, "little"),
        MEMBER[:-4] + b"\xff\xff\xff\xff",
        MEMBER[:30] + bytes([MEMBER[30] ^ 0xFF]) + MEMBER[31:],
        b"\x1f\x8c" + MEMBER[2:],
        MEMBER[:3] + b"\x02" + MEMBER[4:10] + b"\0\0" + MEMBER[10:],
    ],
    ids=[
        "nothing",
        "shorter than any member",
        "cut short",
        "a damaged member behind it",
        "another checksum",
        "another size",
        "an impossible size",
        "damaged data",
        "another magic",
        "a header checksum, which is not checked here",
    ],
)
def test_gzip_that_is_damaged_is_left_to_the_stream(native: ModuleType, data: bytes) -> None:
    assert native.decompress(Codec.GZIP, MEMBER, 0, len(MEMBER), V2, 10_000) == CONTENT
    assert native.decompress(Codec.GZIP, data, 0, len(data), V2, 2**40) is None


@pytest.mark.parametrize("level", [-1, 13])
def test_unknown_compression_levels_are_refused(native: ModuleType, level: int) -> None:
    with pytest.raises(ValueError, match="level"):
        native.gzip_compress(b"", 0, 0, level)


@pytest.mark.parametrize("codec", [Codec.NONE, 5, 255])
def test_unknown_codecs_are_refused(native: ModuleType, codec: int) -> None:
    assert native.decompress(codec, b"data", 0, 4, V2, 100) is None


@given(
    codec=st.sampled_from([Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]),
    magic=st.sampled_from([V0, V1, V2]),
    content=st.sampled_from([b"", b"a", b"value" * 100]) | st.binary(max_size=200),
    repeated=st.integers(1, 2),
    behind=st.binary(max_size=20),
    damage=st.none() | st.randoms(use_true_random=False),
    limit=st.integers(0, 600),
)
def test_decompressing_at_once_and_as_a_stream_agree(
    native: ModuleType,
    codec: Codec,
    magic: int,
    content: bytes,
    repeated: int,
    behind: bytes,
    damage: random.Random | None,
    limit: int,
) -> None:
    written = V2 if codec is Codec.ZSTD else magic
    data = compress(codec, content, magic=written, compression_level="fast") * repeated + behind
    if damage is not None:
        data = mutated(data, damage)
    at_once = native.decompress(codec, data, 0, len(data), magic, limit)
    windows = iter([data])
    room = memoryview(bytearray(2000))
    try:
        decoder = open_decoder(codec, lambda: next(windows, b""), magic=magic)
        streamed = bytes(room[: decoder.read_into(room)])
        assert decoder.read_into(room) == 0
    except CorruptRecordsError:
        assert at_once is None
    else:
        assert at_once in (None, streamed)
        if damage is None and not behind and repeated == 1 and len(content) <= limit:
            assert at_once == content
