"""Rows to records and to columns: the kernels do the same, and refuse the same."""

from array import array
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import Record, reference
from records.kernel import ROW_SIZE
from records.record import ROW
from tests.strategies import SMALL_CONTENTS, Segment, segments

from .examples import GAPS, message
from .kernels import KERNELS, REQUIRE_NATIVE, each_kernel

LIMIT = 4096


@pytest.fixture(scope="module")
def twin() -> ModuleType:
    if len(KERNELS) == 1:
        pytest.skip(f"the native kernel has not been built, and {REQUIRE_NATIVE} is not set")
    return KERNELS[1]


def rows_of(data: bytes) -> bytes:
    rows = bytearray(1000 * ROW_SIZE)
    transcoder = reference.Transcoder(0, -(2**63), 0, False)
    _, produced, _ = transcoder.columns(data, 0, len(data), len(data), rows, 0, len(rows))
    return bytes(rows[:produced])


def looked_at(records: list[Record]) -> list[Record]:
    """With their headers, which may be found to be none when they are made."""
    for each in records:
        assert isinstance(each.headers, tuple)
    return records


def answers(kernel: ModuleType, rows: bytes, source: bytes) -> list[Any]:
    """What it makes of rows; where it refuses them, that."""

    def gathered(values: bool) -> tuple[Any, ...]:
        count = len(rows) // ROW_SIZE
        ends, data = array("i", [-1] * (count + 1)), bytearray(LIMIT)
        validity = bytearray((count + 7) // 8)
        at = (rows, 0, len(rows), source, values, ends, validity, data)
        size, nulls = kernel.gather_column(*at)
        return ends, validity, data[:size], nulls

    def made(base_sequence: int) -> list[Record]:
        return looked_at(kernel.make_records(rows, 0, len(rows), source, 5, base_sequence))

    def made_inner(verify: bool) -> tuple[list[Record], int]:
        records, at = kernel.make_inner_records(rows, 0, len(rows), source, 0, 1, verify)
        return looked_at(records), at

    calls = (
        lambda: made(2**31 - 3),
        lambda: made(-1),
        lambda: made_inner(True),
        lambda: made_inner(False),
        lambda: gathered(False),
        lambda: gathered(True),
        lambda: kernel.gather_headers(rows, 0, len(rows), source),
    )
    found: list[Any] = []
    for call in calls:
        try:
            found.append(call())
        except ValueError:
            found.append(ValueError)
    return found


@given(segment=segments(contents=SMALL_CONTENTS))
def test_both_make_the_same_of_rows(twin: ModuleType, segment: Segment) -> None:
    source = segment.data
    rows = rows_of(source)
    assert answers(twin, rows, source) == answers(reference, rows, source)


NUMBERS = st.sampled_from([-(2**63), -1, 0, 1, 2, 60, 61, 100, 2**31, 2**63 - 1])


@given(
    rows=st.lists(st.lists(NUMBERS, min_size=10, max_size=10), min_size=1, max_size=3),
    source=st.sampled_from([GAPS, message(1, 0) + message(0, 1), b""]),
)
def test_both_refuse_the_same_rows(twin: ModuleType, rows: list[list[int]], source: bytes) -> None:
    packed = b"".join(ROW.pack(*row) for row in rows)
    assert answers(twin, packed, source) == answers(reference, packed, source)


@each_kernel
@pytest.mark.parametrize(("start", "end"), [(0, 81), (-1, 80), (80, 0), (0, 2**40), (1, 80)])
def test_rows_are_whole_and_inside_of_their_buffer(
    kernel: ModuleType, start: int, end: int
) -> None:
    rows = rows_of(GAPS)[: 2 * ROW_SIZE]
    with pytest.raises(ValueError, match=r"\w"):
        kernel.make_records(rows, start, end, GAPS, 0, -1)
    with pytest.raises(ValueError, match=r"\w"):
        kernel.make_inner_records(rows, start, end, GAPS, 0, 0, False)
    with pytest.raises(ValueError, match=r"\w"):
        kernel.gather_headers(rows, start, end, GAPS)


@each_kernel
@pytest.mark.parametrize(("ends", "validity", "data"), [(15, 1, 99), (16, 0, 99), (16, 1, 3)])
def test_targets_that_are_too_small_are_refused(
    kernel: ModuleType, ends: int, validity: int, data: int
) -> None:
    rows = rows_of(GAPS)
    targets = bytearray(ends), bytearray(validity), bytearray(data)
    with pytest.raises(ValueError, match="room"):
        kernel.gather_column(rows, 0, len(rows), GAPS, True, *targets)
    enough = map(bytearray, (16, 1, 4))
    assert kernel.gather_column(rows, 0, len(rows), GAPS, True, *enough) == (4, 1)


@each_kernel
@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 3), (0, len(GAPS) + 1)])
def test_entries_are_inside_of_their_buffer(kernel: ModuleType, start: int, end: int) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        kernel.read_entries(GAPS, start, end, True, False, 100)


def test_entries_are_read_up_to_one_that_is_not_whole(twin: ModuleType) -> None:
    log = message(0, 3) + GAPS + message(1, 20) + GAPS[:-1]
    found, consumed = twin.read_entries(b"<" + log, 1, 1 + len(log), True, False, 100)
    assert [record.offset for record in found] == [3, 10, 12, 13, 20]
    assert consumed == len(log) - len(GAPS) + 1
