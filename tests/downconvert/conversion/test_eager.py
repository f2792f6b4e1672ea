"""Converting everything at once, or some chunks at a time, takes few calls of the kernel."""

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from weakref import ref

import pytest

from downconvert import ConversionPolicy, convert, eager
from records import Codec, CorruptRecordsError, FileRecords, MemoryRecords, Record, build, read
from records.units import KiB
from tests.python_calls import python_calls

from .ways import RUNS_ONCE


def log_of(path: Path, codec: Codec, batches: int) -> FileRecords:
    path.write_bytes(
        b"".join(
            build(
                [Record(9 * n + i, 7, value=b"%d" % i * 60) for i in range(9)], magic=2, codec=codec
            )
            for n in range(batches)
        )
    )
    return FileRecords.open(path)


@RUNS_ONCE
@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize(
    "convert_all", [lambda log: list(convert(log, 1)), lambda log: eager(log, 1)]
)
def test_more_batches_take_no_more_calls(
    codec: Codec, convert_all: Callable[[FileRecords], object], tmp_path: Path
) -> None:
    with log_of(tmp_path / "few", codec, 2) as few, log_of(tmp_path / "many", codec, 100) as many:
        convert_all(few)
        calls = python_calls(lambda: convert_all(many))
        assert calls <= python_calls(lambda: convert_all(few)) + 50


@RUNS_ONCE
@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("first_offset", [0, 404])
def test_stepwise_conversion_makes_the_same_bytes_as_conversion_at_once(
    codec: Codec, first_offset: int, tmp_path: Path
) -> None:
    with log_of(tmp_path / "log", codec, 200) as log:
        parts = list(convert(log, 1, first_offset))
        assert b"".join(parts) == eager(log, 1, first_offset)
        assert len(parts) < 20
        assert all(parts)


@RUNS_ONCE
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_the_statistics_cover_the_conversion_so_far(tmp_path: Path, codec: Codec) -> None:
    with log_of(tmp_path / "0.log", codec, 300) as records:
        made, size, seen = convert(records, 1), 0, 0
        for piece in made:
            size += len(piece)
            assert made.stats.bytes_out == size
            assert seen < made.stats.bytes_in <= records.size
            seen = made.stats.bytes_in
        assert (made.stats.bytes_out, made.stats.bytes_in) == (size, records.size)


ESTIMATE = ConversionPolicy(size="estimate")


@pytest.mark.parametrize("policy", [ConversionPolicy(), ESTIMATE, ConversionPolicy.kafka()])
def test_only_an_estimate_that_converted_nothing_is_the_records_unchanged(
    policy: ConversionPolicy,
) -> None:
    """With an entry that is not whole, which no message is made of."""
    old = build([Record(1, 7, value=b"old")], magic=1)
    new = build([Record(2, 7, value=b"new")], magic=2)
    torn = new[:-1]
    is_estimate = policy.size == "estimate"
    assert eager(MemoryRecords(old + torn), 1, 0, policy) == old + (torn if is_estimate else b"")
    converted = eager(MemoryRecords(old + new + torn), 1, 0, policy)
    assert [one.value for one in read(MemoryRecords(converted))] == [b"old", b"new"]
    assert converted.startswith(old)
    assert len(converted) == len(old) + 34 + 3


def test_a_conversion_that_has_failed_holds_no_buffers() -> None:
    """A caller that keeps failed conversions keeps none of their buffers."""
    records = [Record(n, 7, value=bytes(500)) for n in range(400)]
    good = build(records, magic=2, codec=Codec.GZIP)
    log = MemoryRecords(good + good[:16] + b"\x07" + good[17:])
    policy = ConversionPolicy(recode={"gzip": "none"})
    failed = []
    tracemalloc.start()
    try:
        for _ in range(40):
            conversion = convert(log, 1, 0, policy)
            with pytest.raises(CorruptRecordsError):
                for _ in conversion:
                    pass
            failed.append(conversion)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(failed) == 40
    assert held < 8 * (32 + 32 + 64) * KiB + 40 * 8 * KiB


def test_a_conversion_that_has_ended_holds_nothing_of_its_callers() -> None:
    """Their memory is free at once, and does not wait for the garbage collector."""

    class Held:
        """Something that a caller has."""

    def call() -> "ref[Held]":
        held = Held()
        list(convert(MemoryRecords(build([Record(0, 7)], magic=2)), 1))
        return ref(held)

    gc.disable()
    try:
        assert call()() is None
    finally:
        gc.enable()
