"""Promised sizes are kept, tested only through LazyDownConvertRecords."""

import gc
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from downconvert import AbortedTransaction, ConversionPolicy, LazyDownConvertRecords, convert
from downconvert.conversion import made, plan
from records import (
    Codec,
    ControlRecordType,
    CorruptRecordsError,
    FileRecords,
    MemoryRecords,
    Record,
    build,
    build_marker,
)
from records import read as read_records
from records.formats import BATCH_HEADER, BATCH_HEADER_SIZE, BATCH_SIZE_MIN, V2
from records.units import KiB, MiB
from records.varint import varint

from .channels import Everything, sent
from .ways import RUNS_ONCE

RESPONSE_SIZE_MAX = 2**31 - 1
PRODUCER = {"producer_id": 7, "producer_epoch": 0, "transactional": True}


def batch(offset: int, codec: Codec = Codec.NONE, *, size: int = 300, **options: object) -> bytes:
    dice = random.Random(offset)
    records = [
        Record(offset=offset + n, timestamp=n, value=dice.randbytes(size // 2).ljust(size, b"-"))
        for n in range(20)
    ]
    return build(records, magic=2, codec=codec, **options)  # type: ignore[arg-type]


def offsets(response: bytes) -> list[int]:
    return [record.offset for record in read_records(MemoryRecords(response))]


# --- buffers


def held_now() -> int:
    """Bytes of messages that other tests' responses hold."""
    gc.collect()
    return made.budget.held


HELD_MAX = 8 * (32 + 32 + 16) * KiB + 40 * 8 * KiB  # with the buffers that wait for the next send


def held_by(written: Callable[[], object]) -> int:
    """The memory that forty sends hold after they have written everything."""
    done = []
    tracemalloc.start()
    try:
        for _ in range(40):
            done.append(written())
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def log_of(count: int) -> MemoryRecords:
    """The messages of a small response are all made before; of a larger one, the recompressed."""
    plain = b"".join(batch(20 * n, size=8_000) for n in range(count - 1))
    return MemoryRecords(plain + batch(1000, Codec.ZSTD, size=4_000))


def test_a_send_that_has_written_everything_holds_no_buffers() -> None:
    log = MemoryRecords(batch(0) + batch(20, Codec.ZSTD) + batch(40))

    def written() -> object:
        send = LazyDownConvertRecords(log, 1).to_send()
        while not send.completed:
            send.write_to(Everything())  # without a budget: nothing else releases them
        return send

    assert held_by(written) < HELD_MAX


@pytest.mark.parametrize("count", [1, 5])
def test_a_send_that_has_written_everything_holds_no_messages(count: int) -> None:
    log = log_of(count)

    def written() -> object:
        send, channel = LazyDownConvertRecords(log, 1).to_send(), Everything()
        while not send.completed:
            send.write_to(channel)
        channel.taken.clear()
        return send

    assert held_by(written) < HELD_MAX


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("is_copied", [True, False])
@pytest.mark.parametrize("left_out", [1, 10**9])
def test_a_send_of_a_part_releases_all_messages_at_its_end(
    left_out: int, is_copied: bool, count: int
) -> None:
    """A client may have room for a part of a response, or for nothing."""
    log, before = log_of(count), held_now()

    def written() -> object:
        lazy = LazyDownConvertRecords(log, 1)
        send, channel = lazy.to_send(max(lazy.size - left_out, 0)), Everything()
        if is_copied and send.copy_to(memoryview(bytearray(send.size))):
            send.skip(send.size)
        while not send.completed:
            send.write_to(channel)
        channel.taken.clear()
        return send

    assert held_by(written) < HELD_MAX
    assert made.budget.held == before


def test_a_send_that_fails_before_messages_that_were_made_releases_them(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"".join(batch(20 * n, size=8_000) for n in range(5)) + batch(100, Codec.GZIP))
    with FileRecords.open(path) as log:
        before = held_now()
        send = LazyDownConvertRecords(log, 1).to_send()
        assert made.budget.held > before
        path.write_bytes(b"")
        with pytest.raises(CorruptRecordsError):
            sent(send, Everything())
    assert not send.completed
    assert made.budget.held == before


@RUNS_ONCE
def test_a_send_that_has_failed_holds_no_buffers(tmp_path: Path) -> None:
    """The file is cut after the size was promised."""
    path = tmp_path / "a.log"
    failed = []
    data = batch(0) + batch(20, Codec.ZSTD, size=40_000)
    path.write_bytes(data)
    with FileRecords.open(path) as log:
        policy = ConversionPolicy(recode={"zstd": "none"})
        lazies = [LazyDownConvertRecords(log, 1, 0, policy) for _ in range(40)]
        path.write_bytes(data[:-100])
        tracemalloc.start()
        try:
            for lazy in lazies:
                send, channel = lazy.to_send(), Everything()
                for _ in range(2):
                    with pytest.raises(CorruptRecordsError):
                        sent(send, channel)
                channel.taken.clear()
                failed.append(send)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert all(not send.completed for send in failed)
    assert held < 8 * (64 + 64 + 192 + 128) * KiB + 40 * 8 * KiB


def test_a_send_holds_no_buffers_between_two_turns() -> None:
    """The large batch is decompressed a window at a time, and the plain ones follow it."""
    plain = b"".join(batch(100 + 20 * n, size=2_000) for n in range(8))
    log = MemoryRecords(batch(0, Codec.ZSTD, size=10_000) + plain)
    lazy = LazyDownConvertRecords(log, 1, 0, ConversionPolicy(recode={"zstd": "none"}))
    waiting = []
    tracemalloc.start()
    try:
        for _ in range(40):
            send, channel = lazy.to_send(), Everything()
            while send.remaining > 200 * KiB:  # of the plain ones
                send.write_to(channel, 16 * KiB)
            channel.taken.clear()
            waiting.append(send)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not any(send.completed for send in waiting)
    assert held < 8 * (32 + 64 + 128) * KiB + 40 * 8 * KiB


def test_a_conversion_that_has_ended_holds_no_buffers() -> None:
    log = MemoryRecords(batch(0, Codec.ZSTD, size=10_000))
    policy = ConversionPolicy(recode={"zstd": "none"})
    done = []
    tracemalloc.start()
    try:
        for _ in range(40):
            conversion = convert(log, 1, 0, policy)
            assert sum(map(len, conversion)) > 200_000
            done.append(conversion)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 8 * (32 + 64 + 128) * KiB + 40 * 8 * KiB


# --- the largest response


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_uncompressed_messages_are_measured_to_their_end(codec: Codec) -> None:
    """Only messages that are compressed again are limited to what is made beforehand."""
    log = MemoryRecords(b"".join(batch(20 * n, codec, size=8_000) for n in range(8)))
    lazy = LazyDownConvertRecords(log, 1, 0, ConversionPolicy(recode={"gzip": "none"}))
    assert lazy.is_whole
    assert lazy.size > 8 * 20 * 8_000
    assert offsets(sent(lazy.to_send())) == list(range(160))


@pytest.mark.parametrize("small_size_max", [0, plan.SMALL_SIZE_MAX])
@pytest.mark.parametrize("missing", [0, 1])
def test_plain_records_of_exactly_what_a_response_may_have_are_a_whole_response(
    missing: int, small_size_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A smaller limit stands for that of 2 GiB."""
    log = MemoryRecords(batch(0))
    size = LazyDownConvertRecords(log, 1).size
    monkeypatch.setattr(plan, "SMALL_SIZE_MAX", small_size_max)
    monkeypatch.setattr(plan, "RESPONSE_SIZE_MAX", size - missing)
    lazy = LazyDownConvertRecords(log, 1)
    assert lazy.is_whole == (not missing)
    assert lazy.size <= size - missing
    assert len(sent(lazy.to_send())) == lazy.size


def header(offset: int, body_size: int, codec: Codec, count: int) -> bytes:
    size = BATCH_SIZE_MIN + body_size
    return BATCH_HEADER.pack(
        offset, size, 0, V2, 0, codec, count - 1, 1000, 1000, -1, -1, -1, count
    )


def with_holes(path: Path, pieces: list[tuple[bytes, int]]) -> FileRecords:
    """A file of pieces, each of which goes on with zeros up to its size. Those take no room."""
    position = 0
    with path.open("wb") as file:
        for data, size in pieces:
            file.seek(position)
            file.write(data)
            position += size
        file.truncate(position)
    return FileRecords.open(path)


@RUNS_ONCE
def test_plain_records_are_promised_up_to_the_maximum_of_a_response(
    tmp_path: Path,
) -> None:
    """Three records of 800 MiB, which are measured by their heads."""
    value_size = 800 * MiB
    pieces = []
    for offset in range(3):
        head = b"\0" + varint(0) + varint(0) + varint(-1) + varint(value_size)
        record = varint(len(head) + value_size + 1) + head  # and no headers, behind the value
        body_size = len(record) + value_size + 1
        data = header(offset, body_size, Codec.NONE, 1) + record
        pieces.append((data, BATCH_HEADER_SIZE + body_size))
    with with_holes(tmp_path / "large.log", pieces) as log:
        lazy = LazyDownConvertRecords(log, 1)
        assert 2 * value_size < lazy.size <= RESPONSE_SIZE_MAX
        assert not lazy.is_whole
        assert LazyDownConvertRecords(log.slice(0, 2 * pieces[0][1]), 1).is_whole


@RUNS_ONCE
@pytest.mark.parametrize("plain_before", [0, 3])
def test_a_predicted_size_is_promised_up_to_the_maximum_of_a_response(
    tmp_path: Path, plain_before: int
) -> None:
    """The first batch shows by how much they grow; of the others only the headers are there."""
    dice = random.Random(1)
    first = build(
        [Record(offset=n, timestamp=0, value=dice.randbytes(1000)) for n in range(500)],
        magic=2,
        codec=Codec.LZ4,
    )
    plain = [batch(-20)] * plain_before
    other = header(500, len(first), Codec.LZ4, 500), BATCH_HEADER_SIZE + len(first)
    pieces = [(data, len(data)) for data in (*plain, first)]
    pieces += [other] * (RESPONSE_SIZE_MAX // len(first) + 100)
    policy = ConversionPolicy(recode={"lz4": "gzip"})
    with with_holes(tmp_path / "large.log", pieces) as log:
        lazy = LazyDownConvertRecords(log, 1, -100, policy)
    assert log.size > RESPONSE_SIZE_MAX
    assert len(first) // 2 < lazy.size <= RESPONSE_SIZE_MAX
    assert not lazy.is_whole


@RUNS_ONCE
def test_recompressed_messages_fit_into_the_rest_of_a_nearly_full_response(
    tmp_path: Path,
) -> None:
    """Two plain records that leave 100 KiB of it, and half a mebibyte that follows."""
    value_size = (RESPONSE_SIZE_MAX - 100 * KiB) // 2
    pieces = []
    for offset in range(2):
        head = b"\0" + varint(0) + varint(0) + varint(-1) + varint(value_size)
        record = varint(len(head) + value_size + 1) + head
        body_size = len(record) + value_size + 1
        data = header(offset, body_size, Codec.NONE, 1) + record
        pieces.append((data, BATCH_HEADER_SIZE + body_size))
    recompressed = b"".join(batch(20 * n, Codec.ZSTD, size=5_000) for n in range(1, 11))
    with with_holes(tmp_path / "large.log", [*pieces, (recompressed, len(recompressed))]) as log:
        lazy = LazyDownConvertRecords(log, 1)
        assert RESPONSE_SIZE_MAX - 100 * KiB < lazy.size <= RESPONSE_SIZE_MAX
        assert not lazy.is_whole


# --- what is compressed again after what is not


@RUNS_ONCE
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("budget", [None, 4 * KiB, MiB])
def test_every_client_of_a_partly_recompressed_range_gets_the_same_bytes(
    tmp_path: Path, count: int, budget: int | None
) -> None:
    """The kernel converts up to where compressed messages begin. Those were made before."""
    path = tmp_path / "a.log"
    plain = [batch(20 * n) for n in range(3 * count)]
    recompressed = [batch(1000 + 20 * n, Codec.ZSTD) for n in range(20)]
    path.write_bytes(b"".join([*plain, *recompressed]))
    responses = []
    with FileRecords.open(path) as log:
        for client in range(3):
            send = LazyDownConvertRecords(log, 1).to_send()
            target = tmp_path / f"client {client}"
            with target.open("wb", buffering=0) as channel:
                while not send.completed:
                    send.write_to(channel, budget)
            responses.append(target.read_bytes())
            assert len(responses[-1]) == send.size
    first, *others = (offsets(response) for response in responses)
    assert first == [*range(60 * count), *range(1000, first[-1] + 1)]
    assert len(first) > 60 * count + 20
    assert others == [first, first]


# --- what depends on transactions before it


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.GZIP])
def test_committed_batches_after_aborted_ones_of_the_same_producer_are_sent(
    codec: Codec,
) -> None:
    """Measured on their own, without the marker before them, they would be aborted as well."""
    policy = ConversionPolicy(isolation="read_committed", recode={"gzip": "snappy", "zstd": "gzip"})
    marker = build_marker(
        ControlRecordType.ABORT, offset=20, timestamp=0, producer_id=7, producer_epoch=0
    )
    aborted = batch(0, base_sequence=0, **PRODUCER)
    run = [batch(100 + 20 * n, codec, base_sequence=20 + n, **PRODUCER) for n in range(6)]
    plain = [batch(1000 + 20 * n) for n in range(40)]
    log = MemoryRecords(b"".join([aborted, marker, *run, *plain]))
    found: list[int] = []
    position = 0
    for _ in range(20):  # fetches, each from where the last response ended
        rest = log.slice(position, log.size - position)
        first_offset = found[-1] + 1 if found else 0
        began = [] if position else [AbortedTransaction(7, 0)]
        lazy = LazyDownConvertRecords(rest, 1, first_offset, policy, aborted=began)
        response = sent(lazy.to_send())
        assert len(response) == lazy.size
        found += offsets(response)
        if lazy.is_whole:
            break
        position = next(h.position for h in log.batches() if h.last_offset > found[-1])
    assert found == [*range(100, 220), *range(1000, 1800)]
