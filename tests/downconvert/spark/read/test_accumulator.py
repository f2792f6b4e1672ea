"""The buffer that rows point into: they leave it before its bytes do; it grows up to a limit."""

from collections.abc import Iterator
from typing import Any

import pytest

from downconvert.spark.read.accumulator import BUFFER_SIZE, Accumulator
from records import CorruptRecordsError
from records.kernel import ROW_SIZE, Outcome


class Columns:
    """Takes rows as the gatherer does, and notes them with the bytes that they point into."""

    def __init__(self) -> None:
        self.taken: list[tuple[bytes, Any]] = []

    def add(self, rows: memoryview, source: Any) -> Iterator[str]:
        self.taken.append((bytes(rows), source))
        yield "a batch"


class Rows:
    """Makes rows of a byte of the source each, and notes where."""

    def __init__(self) -> None:
        self.room: list[tuple[int, int]] = []

    def columns(
        self, source: Any, start: int, end: int, remaining: int, rows: Any, at: int, size: int
    ) -> tuple[int, int, int]:
        self.room.append((at, size))
        count = min(end - start, remaining, (size - at) // ROW_SIZE)
        for n in range(count):
            place = at + n * ROW_SIZE
            rows[place : place + ROW_SIZE] = bytes([source[start + n]]) * ROW_SIZE
        return count, count * ROW_SIZE, int(Outcome.END)


def made(limit: int = 8 * BUFFER_SIZE) -> tuple[Accumulator, Columns]:
    columns: Any = Columns()
    return Accumulator(columns, limit), columns


def test_rows_are_added_one_after_the_other_and_leave_together() -> None:
    accumulator, columns = made()
    transcoder: Any = Rows()
    assert accumulator.columns(transcoder, b"abc", 0, 2, 9) == (2, 2 * ROW_SIZE, Outcome.END)
    assert accumulator.columns(transcoder, b"abc", 2, 3, 9) == (1, ROW_SIZE, Outcome.END)
    assert transcoder.room == [(0, len(accumulator.rows)), (2 * ROW_SIZE, len(accumulator.rows))]
    assert list(accumulator.flush()) == ["a batch"]
    rows, source = columns.taken.pop()
    assert rows == b"".join(bytes([letter]) * ROW_SIZE for letter in b"abc")
    assert source is accumulator.buffer
    assert list(accumulator.flush()) == []
    assert columns.taken == []
    accumulator.columns(transcoder, b"d", 0, 1, 9)
    assert transcoder.room[-1] == (0, len(accumulator.rows))


@pytest.mark.parametrize("source", [b"", b"other bytes"])
def test_rows_may_point_into_other_bytes_even_if_there_are_none(source: bytes) -> None:
    """Records without key and value point into nothing."""
    accumulator, columns = made()
    transcoder: Any = Rows()
    accumulator.columns(transcoder, b"a", 0, 1, 1)
    assert list(accumulator.flush(source)) == ["a batch"]
    assert columns.taken[0][1] is source


def test_a_buffer_grows_to_twice_its_size_and_shrinks_again() -> None:
    accumulator, _ = made()
    for factor in (2, 4, 8):
        accumulator.grow(5)
        assert len(accumulator.buffer) == factor * BUFFER_SIZE
    accumulator.used = 7
    accumulator.clear()
    assert (accumulator.used, len(accumulator.buffer)) == (0, BUFFER_SIZE)
    kept = accumulator.buffer
    accumulator.used = 7
    accumulator.clear()
    assert accumulator.used == 0
    assert accumulator.buffer is kept


@pytest.mark.parametrize(
    ("limit", "growths"),
    [(1, 0), (BUFFER_SIZE, 0), (BUFFER_SIZE + 1, 1), (2 * BUFFER_SIZE, 1), (3 * BUFFER_SIZE, 2)],
)
def test_a_buffer_of_the_limit_grows_no_more(limit: int, growths: int) -> None:
    accumulator, _ = made(limit)
    for _ in range(growths):
        accumulator.grow(77)
    words = f"a record is larger than {limit} bytes, which the option maxRecordBytes allows"
    with pytest.raises(CorruptRecordsError, match=words) as caught:
        accumulator.grow(77)
    assert caught.value.position == 77
    assert len(accumulator.buffer) == 2**growths * BUFFER_SIZE


def test_a_record_that_is_incomplete_in_as_many_bytes_as_the_limit_is_too_large() -> None:
    accumulator, _ = made(100)
    accumulator.check_growth(99, 3)
    for size in (100, 101):
        with pytest.raises(CorruptRecordsError) as caught:
            accumulator.check_growth(size, 3)
        assert caught.value.position == 3
