"""Native kernel and reference give the same results for any input and any windows.

Each kernel is also consistent: measure gives the size of a conversion, windows do not matter, and
encode writes the rows of columns."""

from dataclasses import replace
from random import Random
from types import ModuleType
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import reference
from records.formats import V0, V1, V2
from records.kernel import ROW_FIELDS, ROW_SIZE, Outcome, Recodes
from records.record import ROW
from tests.damage import mutated

from . import raw
from .examples import batch
from .kernels import KERNELS, each_kernel
from .tracing import Entered, Job, Trace, trace

Task = tuple[Job, bytes]


WORKS: Final = "transcode", "columns", "measure"
DAMAGES: Final = 12  # of each drawn task: drawing it takes ten times as long as reading it


def both(native: ModuleType, task: Task) -> None:
    """Their traces are the same, with different guard bytes around their windows. So are those of
    other work with the same data, damaged in a dozen ways."""
    job, data = task
    assert_same(native, job, data)
    for seed in range(DAMAGES):
        other = replace(job, work=WORKS[seed % 3], to_magic=seed // 3 % 2)
        assert_same(native, other.whole() if seed % 4 else other, mutated(data, Random(seed)))


def assert_same(native: ModuleType, job: Job, data: bytes) -> None:
    expected = trace(reference.Transcoder, job, data, guard=0x00)
    assert trace(native.Transcoder, job, data, guard=0xFF) == expected, (job, data)


# --- the twins


@given(task=raw.log_tasks())
def test_both_read_a_log_the_same(native: ModuleType, task: Task) -> None:
    both(native, task)


@given(task=raw.batch_tasks())
def test_both_read_the_records_of_a_batch_the_same(native: ModuleType, task: Task) -> None:
    both(native, task)


@given(task=raw.entries_tasks())
def test_both_read_the_entries_of_a_message_the_same(native: ModuleType, task: Task) -> None:
    both(native, task)


@given(job=raw.jobs(st.none()), data=st.binary(max_size=200))
def test_both_read_noise_the_same(native: ModuleType, job: Job, data: bytes) -> None:
    both(native, (job, data))


small = st.integers(-3, 100)
sides = st.booleans()
operations = st.one_of(
    st.tuples(st.just("transcode"), small, st.integers(0, 300), st.integers(0, 150)),
    st.tuples(st.just("measure"), small, st.integers(0, 300), st.integers(0, 150)),
    st.tuples(st.just("columns"), small, st.integers(0, 300), st.integers(0, 250)),
    st.tuples(st.just("record_head"), small, st.integers(0, 40), st.integers(0, 300)),
    st.tuples(
        st.just("record_converted"), small, small, raw.timestamps, st.sampled_from([0, 34, 5000])
    ),
    st.tuples(st.just("enter_batch"), st.sampled_from([0, 0, -1, 3]), sides),
    st.tuples(
        *(st.just("enter_entries"), st.sampled_from([V0, V1, V1, V2]), raw.offsets),
        *(st.none() | raw.timestamps, sides),
    ),
    st.sampled_from([("leave",), ("accept_next_entry",), ("start_wrapper",)]),
)


@given(
    made=st.tuples(
        *(st.sampled_from([V1, V0, V2]), st.integers(-1, 8), st.sampled_from([0xFF, 1]), sides),
        st.none() | st.builds(lambda *how: Recodes(b"", True, *how), sides, sides),
    ),
    data=raw.logs() | raw.records().map(b"".join) | raw.entries(),
    called=st.lists(operations, max_size=12),
)
def test_both_answer_any_calls_in_any_order_the_same(
    native: ModuleType, made: Any, data: bytes, called: list[Any]
) -> None:
    def responses(kernel: ModuleType) -> list[Any]:
        transcoder = kernel.Transcoder(*made)
        start = 0
        calls: list[Any] = []
        for name, *arguments in called:
            target = bytearray(300)
            if name in ("transcode", "measure", "columns", "record_head"):
                skip, size, room = arguments
                start = min(max(start + min(skip, 0), 0), len(data))
                remaining = room if name == "record_head" else len(data) - start
                arguments = [data, start, min(start + size, len(data)), remaining]
                arguments += {"measure": [room], "record_head": []}.get(name, [target, 0, room])
            elif name == "enter_batch":
                arguments = [data, *arguments]
            try:
                response = getattr(transcoder, name)(*arguments)
            except ValueError:
                response = ValueError
            if name in ("transcode", "measure", "columns") and response is not ValueError:
                start += response[0]
                target[response[1] :] = b""
            state = (transcoder.totals, transcoder.wrapper, transcoder.last_offset)
            now = (transcoder.in_batch, transcoder.append_time, transcoder.damage)
            calls.append((name, response, bytes(target), *state, *now))
        return calls

    assert responses(native) == responses(reference)


numbers = (
    st.integers(-2, 40) | st.sampled_from([2**31 - 1, 2**31, -(2**31), -(2**31) - 1]) | raw.INT64
)
rows = st.lists(
    st.tuples(*(numbers for _ in ROW_FIELDS))
    | st.builds(
        lambda *fields: fields,
        *(raw.offsets, raw.timestamps, st.sampled_from([0, 1, -1])),
        *(st.integers(0, 10), st.integers(-1, 10)),
        *(st.integers(0, 10), st.integers(-1, 10)),
        *(st.integers(0, 10), st.integers(0, 10), st.integers(0, 2)),
    ),
    max_size=4,
)


@given(
    rows=rows,
    source=st.binary(min_size=20, max_size=30),
    magic=st.sampled_from([V0, V1, V2]),
    bases=st.tuples(raw.offsets, raw.timestamps),
    room=st.integers(0, 200),
)
def test_both_encode_the_same(
    native: ModuleType,
    rows: list[tuple[int, ...]],
    source: bytes,
    magic: int,
    bases: tuple[int, int],
    room: int,
) -> None:
    packed = b"".join(ROW.pack(*row) for row in rows)

    def encoded(kernel: ModuleType) -> Any:
        target = bytearray(room + 20)
        try:
            progress = kernel.encode(
                packed, 0, len(packed), source, magic, *bases, target, 10, 10 + room
            )
        except ValueError:
            return ValueError
        assert not any(target[:10] + target[-10:])
        return (*progress, bytes(target[10 : 10 + progress[1]]))

    assert encoded(native) == encoded(reference)


@given(
    data=st.binary(max_size=300),
    start=st.integers(0, 300),
    size=st.integers(0, 300),
    value=st.integers(0, 2**32 - 1),
)
def test_both_kernels_compute_the_same_checksums(
    native: ModuleType, data: bytes, start: int, size: int, value: int
) -> None:
    start = min(start, len(data))
    end = min(start + size, len(data))
    expected = reference.crc32(data, start, end, value)
    assert native.crc32(data, start, end, value) == expected


# --- each with itself


@pytest.mark.each_kernel
@given(task=raw.tasks)
def test_to_measure_is_to_convert_without_the_bytes(task: Task) -> None:
    job, data = task
    for kernel in KERNELS:
        converted = trace(kernel.Transcoder, replace(job, work="transcode"), data)
        measured = trace(kernel.Transcoder, replace(job, work="measure"), data)
        assert measured.steps == converted.steps, kernel
        assert len(converted.output) == converted.produced == measured.produced, kernel


@pytest.mark.each_kernel
@given(task=raw.tasks)
def test_windows_and_targets_do_not_matter(task: Task) -> None:
    job, data = task
    job = replace(job, handles_large=False)
    for kernel in KERNELS:
        in_pieces = trace(kernel.Transcoder, job, data)
        at_once = trace(kernel.Transcoder, job.whole(), data)
        for calls in ("output", "produced", "reached", "outcome", "damage", "state"):
            assert getattr(in_pieces, calls) == getattr(at_once, calls), (kernel, calls)


@each_kernel
@given(body=raw.records(), base_offset=st.integers(-5, 2**62), base_timestamp=raw.timestamps)
def test_columns_read_what_encode_writes(
    kernel: ModuleType, body: list[bytes], base_offset: int, base_timestamp: int
) -> None:
    header = batch(*body, base_offset=base_offset, base_timestamp=base_timestamp)
    data = b"".join(body)
    job = Job("columns", first_offset=-(2**63), entered=Entered(header))
    found = trace(kernel.Transcoder, job, data)
    assert found.outcome == Outcome.END
    target = bytearray(len(data))
    progress = kernel.encode(
        *(found.output, 0, len(found.output), data, V2),
        *(base_offset, base_timestamp, target, 0, len(target)),
    )
    assert progress == (len(body) * ROW_SIZE, len(data), Outcome.END)
    assert target == data


@each_kernel
@given(log=raw.logs(), first_offset=st.sampled_from([0, 1, 6]))
def test_converting_through_v1_to_v0_equals_converting_to_v0(
    kernel: ModuleType, log: bytes, first_offset: int
) -> None:
    def converted(data: bytes, to_magic: int) -> Trace:
        job = Job(to_magic=to_magic, first_offset=first_offset, allows=[False])
        return trace(kernel.Transcoder, job, data)

    direct = converted(log, V0)
    by_way = converted(bytes(converted(log, V1).output), V0)
    assert by_way.output == direct.output
