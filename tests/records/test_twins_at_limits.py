"""Native kernel and reference give the same results at each limit, and for telling numbers at each
byte.

The places are all bytes of small examples, one after the other, so no rule depends on the luck of a
generator (test_twins.py). Each limit is tried one below it, at it, and one above.

Not here: combinations of good values (test_twins_in_full.py)."""

from collections.abc import Callable, Iterator
from itertools import cycle, product
from types import ModuleType
from typing import Any

import pytest

from records.codecs import compress
from records.formats import BATCH_HEADER_SIZE, LOG_APPEND_TIME, V0, V1, V2, Codec
from records.kernel import COUNTER, MEMORY, PLAIN, ROW_FIELDS, ROW_SIZE, Recodes
from records.record import ROW
from records.units import MiB
from records.varint import varint
from tests.damage import spliced

from .examples import batch, message, record
from .kernels import KERNELS, REQUIRE_NATIVE
from .tracing import Entered, Job, trace

INT32 = -2, -(2**31), 2**31 - 1
INT64 = -(2**63), -2, 2**63 - 2, 2**63 - 1
BESIDE = -1, 0, 1  # a limit
HEADERS = [(b"h", b"x"), (b"", None)]
HEADERS_ENCODED = b"\x02\xff\x02x\x00\x01"  # a key that is no UTF-8, and a null value
RECORDS = [
    record(0, b"key", b"value", headers=HEADERS),
    record(1, None, None),
    record(2, b"k", b"v" * 70, timestamp_delta=2**21, headers=HEADERS),
]
BATCH = batch(*RECORDS, base_offset=5)
INSIDE = message(V1, 0) + message(V0, 1, None, None) + message(V1, 2, attributes=LOG_APPEND_TIME)
EXAMPLES = {
    "messages in a log": (None, message(V0, 3) + message(V1, 4, attributes=LOG_APPEND_TIME)),
    "a batch in a log": (None, BATCH),
    "records of a batch": (Entered(BATCH), b"".join(RECORDS)),
    "records for a wrapper": (Entered(BATCH, wrapper=True), b"".join(RECORDS)),
    "messages in a message": (Entered(offset_delta=3), INSIDE),
    "messages for a wrapper": (Entered(offset_delta=3, wrapper=True, split_at_gaps=True), INSIDE),
}

pytestmark = [
    pytest.mark.each_kernel,
    pytest.mark.skipif(
        len(KERNELS) == 1,
        reason=f"the native kernel has not been built, and {REQUIRE_NATIVE} is not set",
    ),
]


def changed(data: bytes) -> Iterator[bytes]:
    """The data with one telling change at each of its bytes."""
    for at, byte in enumerate(data):
        for other in {byte ^ 0x80, (byte + 1) % 256, (byte - 1) % 256, 0xFF} - {byte}:
            yield spliced(data, at, bytes([other]), drop=1)
        for size, numbers in ((4, INT32), (8, INT64)):
            if at + size <= len(data):
                for number in numbers:
                    yield spliced(data, at, number.to_bytes(size, signed=True), drop=size)


def jobs(entered: Entered | None) -> Iterator[Job]:
    """A job for each change, in turn. Neighbouring values meet different ones."""
    works: tuple[Any, ...] = "transcode", "columns", "measure"
    windows = (MiB,), (MiB,), (MiB,), (3, 40)
    names = "to_magic", "first_offset", "windows", "work"
    choices: Iterator[Any] = product((V0, V1), (0, 5, -(2**63)), windows, works)
    return cycle(
        [Job(entered=entered, **dict(zip(names, choice, strict=True))) for choice in choices]
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_byte_may_be_any_number(name: str) -> None:
    entered, data = EXAMPLES[name]
    for job, other in zip(jobs(entered), changed(data), strict=False):
        found = [trace(kernel.Transcoder, job, other) for kernel in KERNELS]
        assert found[0] == found[1], (job, other)


def test_each_size_in_a_record_may_have_any_value() -> None:
    """Up to two bytes above what is left for it, whole and a byte at a time. A window that ends
    within the record asks for its head, and a key may fill all of the record."""
    sizes = {"key": 3, "value": 4, "headers": 1, "name": 2, "content": 2}
    for name, number in product(sizes, range(-2, 24)):
        key, value, headers, header, content = map(varint, {**sizes, name: number}.values())
        body = b"\0\0\0" + key + b"key" + value + b"four" + headers + header + b"h1" + content
        body += b"v1"
        data = varint(len(body)) + body
        for entered, source in ((None, batch(data)), (Entered(BATCH), data)):
            for job in (
                Job(entered=entered),
                Job("columns", entered=entered, windows=(1,)),
                Job(entered=entered, windows=(1,), first_offset=6, handles_large=True),
            ):
                found = [trace(kernel.Transcoder, job, source) for kernel in KERNELS]
                assert found[0] == found[1], (job, name, number)


@pytest.mark.parametrize("size", range(70))
def test_a_tail_of_any_size(size: int) -> None:
    """It may be a part of an entry, or anything."""
    tails = bytes(size), b"\xff" * size, message(V0, 3, None, bytes(70))[:size], BATCH[:size]
    works: tuple[Any, ...] = "transcode", "columns"
    for tail, entered, work in product(tails, (None, Entered()), works):
        job = Job(work, to_magic=V0, entered=entered)
        found = [trace(kernel.Transcoder, job, message(V1, 2) + tail) for kernel in KERNELS]
        assert found[0] == found[1], (job, tail)


def test_a_message_of_a_log_of_any_offset_and_timestamp() -> None:
    """Only unusual values of both show which is checked first."""
    works: tuple[Any, ...] = "transcode", "columns", "measure"
    offsets, timestamps = (-1, 4, 5, 2**63 - 1), (-(2**63), -2, -1, 0)
    for work, magic, to_magic, offset, timestamp, flags in product(
        works, (V0, V1), (V0, V1), offsets, timestamps, (0, LOG_APPEND_TIME)
    ):
        log = message(magic, offset, timestamp=timestamp, attributes=flags) + message(V0, 9)
        job = Job(work, to_magic=to_magic, first_offset=5)
        found = [trace(kernel.Transcoder, job, log) for kernel in KERNELS]
        assert found[0] == found[1], (job, log)


def used(kernel: ModuleType, rows: bytes, source: bytes) -> Iterator[Any]:
    """The result of each function for the rows, or its error."""
    columns = kernel.ArrowColumns(9, 999, True, True, True, (-(2**63), 2**63 - 1), (-2, 2**63 - 1))
    calls: list[Callable[[], Any]] = [
        lambda: kernel.make_records(rows, 0, ROW_SIZE, source, 5, 2**31 - 2),
        lambda: kernel.make_inner_records(rows, 0, ROW_SIZE, source, 0, 1, True),
        lambda: kernel.make_inner_records(rows, 0, ROW_SIZE, source, 0, 0, False),
        lambda: columns.add_rows(rows, 0, ROW_SIZE, source),
    ]
    for call in calls:
        try:
            yield repr(call())  # with the headers, which may be refused when they are made
        except ValueError:
            yield ValueError
    yield len(columns)
    ends = (-(2**63), 0, 2**63 - 1)
    for magic, base_offset, base_timestamp in product((V0, V1, V2), ends, ends):
        target = bytearray(200)
        bases = magic, base_offset, base_timestamp
        try:
            yield kernel.encode(rows, 0, ROW_SIZE, source, *bases, target, 0, len(target)), target
        except ValueError:
            yield ValueError


@pytest.mark.parametrize("magic", [V0, V1])
def test_each_number_of_a_row_may_be_any_number(magic: int) -> None:
    """Rows come back from callers, so they may hold anything."""
    entry = message(magic, 7, b"key", b"value")
    source = entry + HEADERS_ENCODED
    size, at = len(source), len(entry)
    fields = (7, 1000, 0, at - 12, 3, at - 5, 5, at, len(HEADERS_ENCODED), 2)
    good = dict(zip(ROW_FIELDS, fields, strict=True))
    telling = (*INT32, *INT64, -1, 0, 1, 2, 3, size - 1, size, size + 1, 2**31, -(2**31) - 1)
    for name, number in product(ROW_FIELDS, telling):
        rows = ROW.pack(*{**good, name: number}.values())
        found = [list(used(kernel, rows, source)) for kernel in KERNELS]
        assert found[0] == found[1], (name, number)


# --- the limits of calls


def test_there_are_at_most_eight_target_codecs() -> None:
    for kernel in KERNELS:
        for count in 0, 7, 8:
            kernel.Transcoder(V1, 0, 0xFF, False, Recodes(bytes(count)))
        with pytest.raises(ValueError, match="eight codecs"):
            kernel.Transcoder(V1, 0, 0xFF, False, Recodes(bytes(9)))


def test_records_near_the_largest_and_the_smallest_offset() -> None:
    for base, deltas, first_offset, work in product(
        (-(2**63), -(2**63) + 1, 2**63 - 2**31, 2**63 - 2, 2**63 - 1),
        ((0, 1), (-1, 0), (0, 2**31 - 1), (1, 2)),
        (-(2**63), 2**63 - 1),
        ("transcode", "columns"),
    ):
        data = b"".join(map(record, deltas))
        log = batch(*map(record, deltas), base_offset=base, last_offset_delta=deltas[-1])
        for entered in None, Entered(log), Entered(log, wrapper=True, split_at_gaps=True):
            job = Job(work, first_offset=first_offset, entered=entered)  # type: ignore[arg-type]
            source = log if entered is None else data
            found = [trace(kernel.Transcoder, job, source) for kernel in KERNELS]
            assert found[0] == found[1], (job, source)


def advanced(log: bytes, codec: int, first_offset: int, target: int, **limits: int) -> list[Any]:
    """The results of `advance` by each kernel, as far as they do not depend on a compressor."""
    found = []
    recodes = Recodes(bytes([0, 0, 0, codec]), True, True, False, limits["body"], limits["inner"])
    for kernel in KERNELS:
        transcoder = kernel.Transcoder(V1, first_offset, 0xFF, False, recodes)
        consumed, size, outcome, made, error = transcoder.advance(
            *(log, 0, len(log), limits["chunk"], target, False, limits["room"], limits["budget"])
        )
        results = consumed, int(outcome), error, transcoder.totals, transcoder.damage
        found.append(results if codec == Codec.SNAPPY else (*results, size, made))
    return found


@pytest.mark.parametrize("target", [MEMORY, COUNTER])
@pytest.mark.parametrize("codec", [PLAIN, Codec.SNAPPY, Codec.ZSTD, Codec.NONE, 5, 254])
@pytest.mark.parametrize("data", [b"v" * 200, bytes(range(200))], ids=["expands", "does not"])
def test_an_advance_ends_at_the_same_limits(data: bytes, codec: int, target: int) -> None:
    body = record(0, None, data)
    lz4 = compress(Codec.LZ4, body, magic=V2, compression_level="fast")
    entry = batch(compressed=lz4, records_count=1, attributes=Codec.LZ4)
    plain, size = batch(record(0), record(1)), 34 + len(data)
    log = plain + entry + plain
    made = 72 + size + 72
    usual = {"body": MiB, "inner": MiB, "chunk": 4096, "room": MiB, "budget": MiB}
    limits = {
        "body": (len(body), len(entry)),
        "inner": (size,),
        "chunk": (BATCH_HEADER_SIZE, len(plain) // 2, len(plain), len(log)),
        "room": (0, 36, 72, 72 + size, made),
        "budget": (0, 1, len(plain), len(plain) + len(entry), 72, 72 + size, made),
    }
    for name, values in limits.items():
        for limit, beside, first_offset in product(values, BESIDE, (0, 1)):
            if limit + beside >= (name == "chunk"):
                how = {**usual, name: limit + beside}
                found = advanced(log, codec, first_offset, target, **how)
                assert found[0] == found[1], (how, first_offset)
