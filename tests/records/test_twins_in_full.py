"""Native kernel and reference give the same results for all combinations of a few telling values.

Generated cases (test_twins.py) seldom have two unusual values at once, and rules differ where two
conditions meet: a format and a timestamp type, a kind of batch and a decision, a count and a body.

Not here: compressed bytes, which may differ (test_kernel_recode.py)."""

from itertools import product
from types import ModuleType
from typing import Any

import pytest

from records.codecs import compress
from records.formats import (
    ATTRIBUTES_AT_LEGACY,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    V0,
    V1,
    V2,
    Codec,
)
from records.kernel import COUNTER, MEMORY, PLAIN, Recodes
from records.units import MiB

from .examples import batch, damaged, message, record
from .kernels import KERNELS, REQUIRE_NATIVE
from .tracing import Entered, Job, trace

sides = False, True
NEGATIVE = -2  # a timestamp that no message can have

pytestmark = [
    pytest.mark.each_kernel,
    pytest.mark.skipif(
        len(KERNELS) == 1,
        reason=f"the native kernel has not been built, and {REQUIRE_NATIVE} is not set",
    ),
]


def assert_same_traces(job: Job, data: bytes) -> None:
    found = [trace(kernel.Transcoder, job, data) for kernel in KERNELS]
    assert found[0] == found[1], (job, data)


@pytest.mark.parametrize("work", ["transcode", "measure", "columns"])
@pytest.mark.parametrize("magic", [V0, V1])
def test_both_kernels_agree_on_messages_inside_a_compressed_one(work: Any, magic: int) -> None:
    for attributes, timestamp, append_time, to_magic, wrapper in product(
        (0, LOG_APPEND_TIME), (NEGATIVE, -1, 5), (None, NEGATIVE, -1, 77), (V0, V1), sides
    ):
        data = message(magic, 3, timestamp=timestamp, attributes=attributes) + message(V0, 4)
        entered = Entered(
            to_magic=to_magic, offset_delta=6, append_time=append_time, wrapper=wrapper
        )
        job = Job(work, to_magic=to_magic, entered=entered)
        assert_same_traces(job, data)


def test_the_head_of_a_record_of_any_batch() -> None:
    good = record(0) + b"more"
    for in_log, count, at, window, remaining in product(
        sides, (-1, 0, 1, 2), (0, 1), (0, 1, 5, len(good)), (0, 1, len(good), 1000)
    ):
        log = bytes(at) + batch(good, records_count=count)
        states = []
        for kernel in KERNELS:
            transcoder = kernel.Transcoder(V1, 0, 0xFF, False)
            if in_log:
                transcoder.measure(log, at, len(log), len(log) - at, 0)
            else:
                transcoder.enter_batch(log, at)
            source = bytes(at) + good
            responses: list[Any] = []
            for _ in range(2):
                try:
                    head = transcoder.record_head(source, at, at + window, remaining)
                    responses.append((head, transcoder.damage, transcoder.in_batch))
                    transcoder.record_converted(len(record(0)), 0, 5, 36)
                except ValueError:
                    responses.append(ValueError)
                responses.append(transcoder.totals)
            states.append(responses)
        assert states[0] == states[1], (in_log, count, at, window, remaining)


def test_a_log_after_anything_that_was_entered() -> None:
    log = message(V0, 3) + message(V1, 4) + batch(record(0), record(1), base_offset=5)
    inside = message(V1, 3, timestamp=9) + message(V1, 4)
    for entered, to_inside, wrapper, first_offset, to_magic, work in product(
        ("nothing", "batch", "entries"), (V0, V1), sides, (0, 4, 6), (V0, V1, V2), (0, 1, 2)
    ):
        states = []
        for kernel in KERNELS:
            transcoder = kernel.Transcoder(
                to_magic, first_offset, 0xFF, False, Recodes(trim=False, split_at_gaps=True)
            )
            target = bytearray(500)
            if entered == "batch":
                transcoder.enter_batch(batch(record(0), record(1)), 0, wrapper)
            elif entered == "entries":
                transcoder.enter_entries(to_inside, 1, 77, wrapper)
                transcoder.measure(inside, 0, len(inside), len(inside), 40)  # the first of two
            transcoder.leave()
            window = log, 0, len(log), len(log)
            if work == 0:
                done = transcoder.measure(*window, 500)
            elif work == 1:
                done = transcoder.transcode(*window, target, 0, 500)
            else:
                done = transcoder.columns(*window, target, 0, 500)
            totals, wrapped = transcoder.totals, transcoder.wrapper
            states.append((done, target, totals, wrapped, transcoder.append_time))
        assert states[0] == states[1], (entered, to_inside, wrapper, first_offset, to_magic, work)


@pytest.mark.parametrize("work", ["transcode", "columns"])
def test_a_batch_of_a_log_of_any_header(work: Any) -> None:
    """A header may break several rules at once. The first one decides."""
    kinds = 0, TRANSACTIONAL, CONTROL, CONTROL | TRANSACTIONAL, Codec.LZ4, Codec.LZ4 | CONTROL
    for kind, count, last_delta, first_offset, stops, accepts in product(
        kinds, (-1, 0, 1, 2, 99), (-1, 0, 7), (0, 1, 8, 9), sides, sides
    ):
        fields = {"records_count": count, "last_offset_delta": last_delta, "attributes": kind}
        log = damaged(batch(record(0)), **fields) + message(V0, 9)
        allows = [accepts]
        job = Job(work, first_offset=first_offset, stop_transactional=stops, allows=allows)
        assert_same_traces(job, log)


# --- compressed entries


def recoded(kernel: ModuleType, entry: bytes, to_magic: int, first_offset: int, trim: bool) -> Any:
    transcoder = kernel.Transcoder(
        to_magic, first_offset, 0, False, Recodes(b"", True, trim, True, MiB, MiB)
    )
    made = transcoder.recode(entry, 0, len(entry), Codec.SNAPPY)
    kept = None if made is None else len(made) > 0
    return kept, transcoder.totals, transcoder.append_time


def test_a_compressed_batch_of_any_count_and_body() -> None:
    bodies = b"", record(0) + record(1), record(0) + record(1) + b"!", record(0, timestamp_delta=-9)
    datas = [compress(Codec.LZ4, body, magic=V2, compression_level="fast") for body in bodies]
    for data, count, flags, to_magic, first_offset, trim in product(
        (*datas, b"no lz4"),
        (-1, 0, 1, 2, 3),
        (0, LOG_APPEND_TIME, CONTROL, TRANSACTIONAL),
        (V0, V1, V2),
        (0, 1, 2),
        sides,
    ):
        fields = {"records_count": count, "base_timestamp": 5, "last_offset_delta": 1}
        entry = batch(compressed=data, attributes=flags | Codec.LZ4, **fields)
        found = [recoded(kernel, entry, to_magic, first_offset, trim) for kernel in KERNELS]
        assert found[0] == found[1], (data, count, flags, to_magic, first_offset, trim)


def test_a_compressed_message_of_any_offset_and_content() -> None:
    bodies = [
        b"",
        *(message(magic, 0) + message(magic, 2) for magic in (V0, V1)),
        message(V0, 0) + message(V1, 2),
        message(V1, 0, timestamp=NEGATIVE),
        message(V1, 2) + message(V1, 2),
        message(V1, 2)[:-1],
    ]
    for magic, body, flags, offset, to_magic, first_offset, trim in product(
        (V0, V1), bodies, (0, LOG_APPEND_TIME), (-1, 0, 1, 2, 9), (V0, V1, V2), (0, 2, 9), sides
    ):
        data = compress(Codec.LZ4, body, magic=magic, compression_level="fast")
        entry = message(magic, offset, None, data, attributes=flags | Codec.LZ4)
        found = [recoded(kernel, entry, to_magic, first_offset, trim) for kernel in KERNELS]
        assert found[0] == found[1], (magic, body, flags, offset, to_magic, first_offset, trim)


@pytest.mark.parametrize("target", [MEMORY, COUNTER])
@pytest.mark.parametrize("kind", [0, TRANSACTIONAL, CONTROL, CONTROL | TRANSACTIONAL])
def test_an_advance_meets_a_batch_of_any_kind(kind: int, target: int) -> None:
    plain = batch(record(0), record(1))
    zeros = compress(Codec.LZ4, record(0, None, bytes(999)), magic=V2, compression_level="fast")
    for compressed, to_magic, stops, accepts, codec, pass_codecs, position, left, room in product(
        *(sides, (V0, V1, V2), sides, sides, (0, PLAIN, Codec.SNAPPY), (0, 1, 0xFF)),
        *((0, len(plain)), (0, 1, 30), (0, 72, 76, 1100, MiB)),
    ):
        if compressed:
            entry = batch(compressed=zeros, records_count=1, attributes=kind | Codec.LZ4)
        else:
            entry = damaged(plain, attributes=kind)
        log = plain + entry + plain
        end = len(log) - left
        recodes = Recodes(bytes([0, 0, 0, codec]), True, True, False, MiB, MiB)
        found = []
        for kernel in KERNELS:
            transcoder = kernel.Transcoder(to_magic, 0, pass_codecs, stops, recodes)
            if accepts:
                transcoder.accept_next_entry()
            consumed, size, outcome, made, error = transcoder.advance(
                log, position, end, 4096, target, False, room, MiB
            )
            is_plain = not compressed or codec != Codec.SNAPPY
            found.append(
                (consumed, int(outcome), error, transcoder.totals[:2], transcoder.damage)
                + ((size, made, transcoder.totals) if is_plain else ())
            )
        assert found[0] == found[1], (compressed, to_magic, stops, accepts, codec, position, room)


def test_a_message_of_any_size_field() -> None:
    """Its head, key and value may all run past its end, and each has its own reason."""
    works: tuple[Any, ...] = "transcode", "columns"
    for magic, size, codec, work, to_magic in product(
        (V0, V1), range(12, 27), (0, 1), works, (V0, V1)
    ):
        good = message(magic, 3, b"k", b"v" * 9)
        head = good[:8] + size.to_bytes(4) + good[12:ATTRIBUTES_AT_LEGACY] + bytes([codec])
        entry = head + good[len(head) :]
        for entered in None, Entered(to_magic=V0):
            how = {"to_magic": to_magic, "pass_codecs": 0, "allows": [False], "entered": entered}
            assert_same_traces(Job(work, **how), entry)
