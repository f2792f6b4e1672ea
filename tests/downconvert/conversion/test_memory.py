"""The memory of a conversion does not depend on the contents of a batch."""

import gc
import json
import random
import subprocess
import sys
import tracemalloc
import weakref
from contextlib import suppress

import pytest

from bench.measuring.bombs import bomb
from downconvert import ConversionPolicy, LazyDownConvertRecords
from records import Codec, MemoryRecords, Record, RecordsError, build
from records.backend import NAME, NATIVE
from records.units import KiB, MiB
from tests.damage import damaged

from .channels import Everything, OneByte
from .ways import RUNS_ONCE

MB = 1_000_000
GROWTH_MAX = 8 * MiB
EXPANDED = 80  # MB: many times what may be held


def grown(path, *, to_magic=1, policy="default", how="estimate"):
    """The growth of a separate process that converts a segment."""
    command = [
        sys.executable,
        "-m",
        "tests.downconvert.conversion.grown",
        path,
        to_magic,
        policy,
        how,
    ]
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def bombs(tmp_path_factory):
    """Bombs, made when they are asked for."""
    made = {}
    directory = tmp_path_factory.mktemp("bombs")

    def made_once(codec, count, size):
        path = directory / f"{codec.name}-{count}-{size}.log"
        if path not in made:
            made[path] = bomb(path, codec, records=count, value_size=size)
        return made[path]

    return made_once


@RUNS_ONCE
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_a_batch_that_expands_to_anything_grows_the_process_by_8_mib_at_most(bombs, codec):
    path = bombs(codec, EXPANDED, MB)
    if codec is Codec.GZIP:
        assert path.stat().st_size < 1000 * EXPANDED
    measured = grown(path)
    assert measured["records"] == EXPANDED
    assert measured["grown"] <= GROWTH_MAX


@RUNS_ONCE
@pytest.mark.parametrize("policy", ["kafka", "none"])
def test_a_bomb_in_one_wrapper_or_none_grows_the_process_by_8_mib_at_most(bombs, policy):
    measured = grown(bombs(Codec.GZIP, EXPANDED, MB), policy=policy, how="convert")
    assert measured["grown"] <= GROWTH_MAX


@RUNS_ONCE
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_one_record_of_any_size_grows_the_process_by_8_mib_at_most(bombs, codec):
    measured = grown(bombs(codec, 1, EXPANDED * MB))
    assert measured["records"] == 1
    assert measured["grown"] <= GROWTH_MAX


@RUNS_ONCE
def test_measuring_holds_no_more_than_sending(bombs):
    assert grown(bombs(Codec.GZIP, EXPANDED, MB), how="exact")["grown"] <= GROWTH_MAX


@pytest.mark.parametrize("value_size", [1, 100, 1000, 10_000, 1_000_000])
def test_a_send_of_uncompressed_records_holds_64_kib_of_buffers(value_size):
    records = [
        Record(offset=i, timestamp=0, value=b"v" * value_size)
        for i in range(min(2000, 4_000_000 // value_size))
    ]
    send = LazyDownConvertRecords(MemoryRecords(build(records, magic=2)), 1).to_send()
    channel = Everything()
    while not send.completed:
        send.write_to(channel)
        channel.taken.clear()
    assert send.stats.peak_buffer_bytes <= 64 * KiB


def test_a_thousand_sends_that_have_not_begun_hold_no_buffers():
    records = MemoryRecords(build([Record(offset=0, timestamp=0, value=b"v" * 100)], magic=2))
    lazy = LazyDownConvertRecords(records, 1)
    tracemalloc.start()
    try:
        sends = [lazy.to_send() for _ in range(1000)]
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < len(sends) * 8 * KiB
    assert all(send.stats.peak_buffer_bytes == 0 for send in sends)


@pytest.mark.parametrize("by_the_kernel", [True, False])
def test_no_chunk_after_the_first_allocates_anything_that_stays_or_is_large(
    by_the_kernel, way, tmp_path
):
    records = [Record(offset=i, timestamp=0, value=b"v" * 100) for i in range(20_000)]
    send = LazyDownConvertRecords(MemoryRecords(build(records, magic=2)), 1).to_send()

    class Discard:
        def write(self, data):
            return len(data)

    with (tmp_path / "out").open("wb", buffering=0) as file:
        grown, peak = allocated_by_50(send, file if by_the_kernel else Discard())
    assert grown < 512
    # A few integers and views. If Python reads or writes: the messages of a chunk as well. The
    # reference makes each message as an object.
    is_native = by_the_kernel and way == "held" and NAME == NATIVE
    assert peak < (2 * KiB if is_native else 24 * KiB if NAME == NATIVE else 64 * KiB)


def allocated_by_50(send, channel):
    """How much more is held after 50 writes, and was at most meanwhile."""
    send.write_to(channel)
    gc.collect()
    tracemalloc.start()
    try:
        send.write_to(channel)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(50):
            send.write_to(channel)
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return now - before, peak - before


class Log(MemoryRecords):
    """Says when nothing refers to it any more."""

    __slots__ = ("__weakref__",)


@pytest.mark.parametrize("budget", [None, 100_000])
@pytest.mark.parametrize(("count", "size"), [(10, 100), (400, 1000), (3, 3 * MB)])
@pytest.mark.parametrize("codec", Codec)
def test_a_send_whose_client_goes_away_frees_its_records_at_once(codec, count, size, budget):
    """No reference cycle keeps them until the garbage collector runs."""
    records = [Record(offset=n, timestamp=n, value=bytes(size)) for n in range(count)]
    log = Log(build(records, magic=2, codec=codec))
    lazy = LazyDownConvertRecords(log, 1)
    send, channel = lazy.to_send(), OneByte()
    gc.disable()
    try:
        for _ in range(3):
            send.write_to(channel, budget)
        is_used = weakref.ref(log)
        del lazy, send, log
        assert is_used() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("size", ["exact", "estimate"])
@pytest.mark.parametrize(("count", "value_size"), [(1, 100), (400, 1000), (3, 200 * KiB)])
@pytest.mark.parametrize("why", ["damage", "a refusal"])
def test_records_that_cannot_be_planned_are_freed_at_once(why, count, value_size, size):
    """An error refers to the records by its frames. They refer to it in no cycle."""
    records = [Record(offset=n, timestamp=n, value=bytes(value_size)) for n in range(count)]
    policy = ConversionPolicy(size=size, recode={"zstd": "refuse"})
    codecs = [Codec.ZSTD] if why == "a refusal" else [Codec.NONE, Codec.GZIP]
    for codec in codecs:
        data = build(records, magic=2, codec=codec)
        if why == "damage":
            data = damaged(data, field="records_count", to=count - 1)
        log = Log(data)
        is_used = weakref.ref(log)
        gc.disable()
        try:
            with suppress(RecordsError):
                LazyDownConvertRecords(log, 1, policy=policy)
            del log
            assert is_used() is None
        finally:
            gc.enable()


def test_a_plan_holds_little_of_a_large_message_that_is_made():
    """A message is made again while it is sent if it is larger than a response may hold."""
    value = random.Random(1).randbytes(4 * MB)
    log = MemoryRecords(build([Record(0, 0, value=value)], magic=2, codec=Codec.ZSTD))
    tracemalloc.start()
    try:
        lazy = LazyDownConvertRecords(log, 1, 0, ConversionPolicy(wrapper_size_max=64 * KiB))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lazy.size > len(value)
    assert peak < 3 * MiB
