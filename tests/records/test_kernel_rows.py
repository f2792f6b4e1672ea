"""Rows to records and to columns: the kernels do the same, and refuse the same."""

from itertools import pairwise
from struct import Struct
from types import ModuleType
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import MemoryRecords, Record, read, reference
from records.kernel import ROW_SIZE
from records.record import ROW
from records.reference import gathering
from records.varint import varint
from tests.strategies import SMALL_CONTENTS, Segment, segments

from .examples import GAPS, batch, message, record
from .kernels import each_kernel

OFFSET: Final = Struct(">q")

EVERY = (-(2**63), 2**63 - 1)


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


def columns(
    kernel: ModuleType,
    rows: bytes,
    source: bytes,
    *,
    rows_max: int = 1000,
    bytes_max: int = 2**31 - 1,
    wanted: tuple[bool, bool, bool] = (True, True, True),
    offsets: tuple[int, int] = EVERY,
    timestamps: tuple[int, int] = EVERY,
) -> list[Any]:
    """The columns taken each time that they are full, and at the end."""
    columns = kernel.ArrowColumns(rows_max, bytes_max, *wanted, offsets, timestamps)
    taken, at = [], 0
    while True:
        at += columns.add_rows(rows, at, len(rows), source)
        count = len(columns)
        taken.append(plain(columns.take()))
        assert taken[-1][0] == count <= rows_max
        if at == len(rows):
            return taken


def plain(taken: Any) -> Any:
    """All buffers as bytes."""
    if isinstance(taken, tuple):
        return tuple(map(plain, taken))
    return taken if taken is None or isinstance(taken, int) else bytes(taken)


def responses(kernel: ModuleType, rows: bytes, source: bytes) -> list[Any]:
    """The results for rows, or the refusals."""

    def made(base_sequence: int) -> list[Record]:
        return looked_at(kernel.make_records(rows, 0, len(rows), source, 5, base_sequence))

    def made_inner(verify: bool) -> tuple[list[Record], int]:
        records, at = kernel.make_inner_records(rows, 0, len(rows), source, 0, 1, verify)
        return looked_at(records), at

    calls = (
        lambda: made(2**31 - 3),
        lambda: made(-1),
        lambda: made(-(2**31)),
        lambda: made_inner(True),
        lambda: made_inner(False),
        lambda: columns(kernel, rows, source),
        lambda: columns(kernel, rows, source, rows_max=2, bytes_max=9),
        lambda: columns(kernel, rows, source, wanted=(True, False, False), offsets=(1, 10)),
        lambda: columns(kernel, rows, source, wanted=(False, True, False), timestamps=(0, 2**40)),
    )
    found: list[Any] = []
    for call in calls:
        try:
            found.append(call())
        except ValueError:
            found.append(ValueError)
    return found


@given(segment=segments(contents=SMALL_CONTENTS))
def test_both_kernels_make_the_same_records_and_columns_of_rows(
    native: ModuleType, segment: Segment
) -> None:
    source = segment.data
    rows = rows_of(source)
    assert responses(native, rows, source) == responses(reference, rows, source)


@each_kernel
def test_the_first_and_the_last_offset_and_timestamp_are_wanted(kernel: ModuleType) -> None:
    source = batch(*(record(n, timestamp_delta=7 * n) for n in range(4)))
    rows = rows_of(source)
    first = int(ROW.unpack_from(rows)[1])
    for low, high in [(1, 2), (1, 1), (0, 3), (3, 9)]:
        kept = len(range(low, min(high, 3) + 1))
        of_offsets = columns(kernel, rows, source, offsets=(low, high))
        times = first + 7 * low, first + 7 * high
        of_timestamps = columns(kernel, rows, source, timestamps=times)
        assert [taken[0] for taken in (*of_offsets, *of_timestamps)] == [kept, kept]


NUMBERS = st.sampled_from([-(2**63), -1, 0, 1, 2, 60, 61, 100, 2**31, 2**63 - 1])


@given(
    rows=st.lists(st.lists(NUMBERS, min_size=10, max_size=10), min_size=1, max_size=3),
    source=st.sampled_from([GAPS, message(1, 0) + message(0, 1), b""]),
)
def test_both_kernels_refuse_the_same_rows(
    native: ModuleType, rows: list[list[int]], source: bytes
) -> None:
    packed = b"".join(ROW.pack(*row) for row in rows)
    assert responses(native, packed, source) == responses(reference, packed, source)


@each_kernel
@pytest.mark.parametrize(("start", "end"), [(0, 81), (-1, 80), (80, 0), (0, 2**40), (1, 80)])
def test_incomplete_rows_and_rows_outside_their_buffer_are_refused(
    kernel: ModuleType, start: int, end: int
) -> None:
    rows = rows_of(GAPS)[: 2 * ROW_SIZE]
    with pytest.raises(ValueError, match=r"\w"):
        kernel.make_records(rows, start, end, GAPS, 0, -1)
    with pytest.raises(ValueError, match=r"\w"):
        kernel.make_inner_records(rows, start, end, GAPS, 0, 0, False)
    columns = kernel.ArrowColumns(9, 9, True, True, True, EVERY, EVERY)
    with pytest.raises(ValueError, match=r"\w"):
        columns.add_rows(rows, start, end, GAPS)


@each_kernel
@pytest.mark.parametrize(("rows_max", "bytes_max"), [(0, 1), (1, 2**31), (-1, 1), (1, -1)])
def test_columns_without_rows_or_above_arrows_limit_are_refused(
    kernel: ModuleType, rows_max: int, bytes_max: int
) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        kernel.ArrowColumns(rows_max, bytes_max, True, True, True, EVERY, EVERY)


@each_kernel
def test_a_refused_row_leaves_columns_unchanged(kernel: ModuleType) -> None:
    rows = rows_of(GAPS)
    bad = ROW.pack(1, 1, 0, 0, 0, 0, 0, 0, 1, 1)  # with half a header
    columns = kernel.ArrowColumns(9, 99, True, True, True, EVERY, EVERY)
    assert columns.add_rows(rows, 0, len(rows), GAPS) == len(rows)
    with pytest.raises(ValueError, match=r"\w"):
        columns.add_rows(rows + bad, 0, len(rows + bad), GAPS)
    once = kernel.ArrowColumns(9, 99, True, True, True, EVERY, EVERY)
    once.add_rows(rows, 0, len(rows), GAPS)
    assert len(columns) == len(once) == 3
    assert plain(columns.take()) == plain(once.take())


@each_kernel
def test_columns_work_after_a_refusal_as_before(kernel: ModuleType) -> None:
    rows = rows_of(GAPS)
    bad = ROW.pack(1, 1, 0, 0, 0, 0, 0, 0, 1, 1)  # with half a header
    columns = kernel.ArrowColumns(2, 99, True, True, True, EVERY, EVERY)
    with pytest.raises(ValueError, match=r"\w"):
        columns.add_rows(bad, 0, len(bad), GAPS)
    assert columns.add_rows(rows, 0, len(rows), GAPS) == 2 * ROW_SIZE
    assert columns.add_rows(rows, 0, len(rows), GAPS) == 0


def test_headers_of_the_reference_count_until_their_column_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gathering, "COLUMN_SIZE_MAX", 100)
    log = batch(record(0, None, None, headers=[(b"h", b"x" * 25)]))
    rows = rows_of(log)
    columns = reference.ArrowColumns(9, 100, True, True, True, EVERY, EVERY)
    for _ in range(3):
        assert columns.add_rows(rows, 0, ROW_SIZE, log) == ROW_SIZE
        with pytest.raises(ValueError, match="a column is larger than 2 GiB"):
            columns.add_rows(rows, 0, ROW_SIZE, log)
        assert len(columns) == columns.take()[0] == 1


@given(
    segment=segments(contents=SMALL_CONTENTS),
    rows_max=st.integers(1, 20),
    bytes_max=st.integers(0, 200),
    cut=st.integers(1, 300),
    first=st.integers(-1, 30),
)
def test_entries_become_the_columns_of_their_rows(
    native: ModuleType, segment: Segment, rows_max: int, bytes_max: int, cut: int, first: int
) -> None:
    """Whole or in windows, and however often columns are taken. Entries that are left are added by
    their rows, as far as those are found."""
    data = segment.data
    size = {"rows_max": rows_max, "bytes_max": bytes_max}
    columns = native.ArrowColumns(rows_max, bytes_max, True, True, True, (first, 2**40), EVERY)
    taken, at = [], 0
    for end in (*range(cut, len(data), cut), len(data)):
        while True:
            consumed, is_full = columns.add_entries(data, at, end, True, True, 2**20)
            at += consumed
            if not is_full:
                break
            assert len(columns)
            taken.append(plain(columns.take()))
    taken.append(plain(columns.take()))
    found = columns_of_log(data[:at], first, size)
    assert joined(taken) == joined(found)


def columns_of_log(data: bytes, first: int, size: dict[str, int]) -> list[Any]:
    """The columns of a log's records, by the reader and the reference."""
    records = list(read(MemoryRecords(data)))
    rows, source = [], b""
    for each in records:
        row = [each.offset, each.timestamp, int(each.timestamp_type)]
        for field in (each.key, each.value):
            row += [len(source), -1 if field is None else len(field)]
            source += field or b""
        encoded = b"".join(
            varint(len(name.encode("utf-8", "surrogateescape")))
            + name.encode("utf-8", "surrogateescape")
            + (varint(-1) if value is None else varint(len(value)) + value)
            for name, value in each.headers
        )
        rows.append(ROW.pack(*row, len(source), len(encoded), len(each.headers)))
        source += encoded
    bounds = {"offsets": (first, 2**40)}
    return columns(reference, b"".join(rows), source, **size, **bounds)  # type: ignore[arg-type]


def joined(taken: list[Any]) -> list[Any]:
    """The rows of columns that were taken one after the other."""
    rows: list[Any] = []
    for count, offsets, times, kinds, keys, values, headers in taken:
        _, _, ends, names, contents = headers
        ends = memoryview(ends).cast("i")
        pairs = list(zip(fields(names), fields(contents), strict=True))
        rows += zip(
            memoryview(offsets).cast("q"),
            memoryview(times).cast("q"),
            memoryview(kinds).cast("i"),
            fields(keys),
            fields(values),
            [pairs[ends[row] : ends[row + 1]] for row in range(count)],
            strict=True,
        )
    return rows


def fields(column: Any) -> list[bytes | None]:
    nulls, validity, ends, data = column
    ends = memoryview(ends).cast("i")
    found = [data[start:end] for start, end in pairwise(ends)]
    if validity is not None:
        bits = [validity[row // 8] >> (row % 8) & 1 for row in range(len(found))]
        found = [field if bit else None for field, bit in zip(found, bits, strict=True)]
    assert found.count(None) == nulls
    return found


@each_kernel
@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 3), (0, len(GAPS) + 1)])
def test_entries_outside_their_buffer_are_refused(kernel: ModuleType, start: int, end: int) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        kernel.read_entries(GAPS, start, end, True, False, 100)
    columns = kernel.ArrowColumns(9, 9, True, True, True, EVERY, EVERY)
    with pytest.raises(ValueError, match=r"\w"):
        columns.add_entries(GAPS, start, end, True, True, 100)


@each_kernel
def test_a_negative_limit_of_decompressed_bytes_is_refused(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        kernel.read_entries(GAPS, 0, len(GAPS), True, False, -1)
    with pytest.raises(ValueError, match=r"\w"):
        kernel.summarize_batch(GAPS, 0, len(GAPS), -1)


def test_entries_are_read_up_to_one_that_is_not_whole(native: ModuleType) -> None:
    log = message(0, 3) + GAPS + message(1, 20) + GAPS[:-1]
    found, consumed = native.read_entries(b"<" + log, 1, 1 + len(log), True, False, 100)
    assert [record.offset for record in found] == [3, 10, 12, 13, 20]
    assert consumed == len(log) - len(GAPS) + 1


@pytest.mark.parametrize("magic", [0, 1, 2, 255])
def test_an_entry_smaller_than_a_message_is_left(native: ModuleType, magic: int) -> None:
    """Its head may reach into the next entry, or past the end."""
    for size in range(-2, 14):
        entry = bytes(8) + size.to_bytes(4, signed=True) + bytes(4) + bytes([magic]) + bytes(9)
        entry = entry[: 12 + max(size, 0)]
        for after in b"", OFFSET.pack(1), GAPS:
            log = entry + after
            columns = native.ArrowColumns(9, 1000, True, True, True, EVERY, EVERY)
            assert native.read_entries(log, 0, len(log), False, True, 1000) == ([], 0)
            assert columns.add_entries(log, 0, len(log), False, True, 1000) == (0, False)
            assert native.summarize_batch(log, 0, len(entry), 1000) is None


@pytest.mark.parametrize("kind", ["does not fit", "is damaged"])
@pytest.mark.parametrize("before", [0, 1])
def test_an_entry_that_is_left_to_the_caller_leaves_no_rows(
    native: ModuleType, kind: str, before: int
) -> None:
    """Any number of its records may have become rows."""
    good = batch(*(record(delta, headers=[(b"h", b"x")]) for delta in range(5)))
    left = good if kind == "does not fit" else batch(*[record(n) for n in range(4)], b"\x01")
    rows_max = 5 * before + 4 if kind == "does not fit" else 100
    columns = native.ArrowColumns(rows_max, 1000, True, True, True, EVERY, EVERY)
    log = good * before + OFFSET.pack(100) + left[OFFSET.size :] + OFFSET.pack(200)
    consumed, is_full = columns.add_entries(log, 0, len(log), True, True, 1000)
    assert (consumed, len(columns)) == (len(good) * before, 5 * before)
    assert is_full == (kind == "does not fit" and before > 0)
    again = native.ArrowColumns(rows_max, 1000, True, True, True, EVERY, EVERY)
    again.add_entries(log, 0, consumed + OFFSET.size, True, True, 1000)
    assert plain(columns.take()) == plain(again.take())


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_an_entry_is_left_if_the_next_one_does_not_begin_after_it(
    native: ModuleType, magic: int
) -> None:
    """No checksum covers offsets, and without the next entry nothing is known of them."""
    entry = batch(record(0), record(1)) if magic == 2 else message(magic, 1)
    taken = {}
    for following in (-1, 0, 1, 2, 2**63 - 1):
        log = entry + OFFSET.pack(following)
        columns = native.ArrowColumns(9, 1000, True, True, True, EVERY, EVERY)
        taken[following], _ = columns.add_entries(log, 0, len(log), True, True, 1000)
        assert columns.add_entries(log, 0, len(log) - 1, True, True, 1000) == (0, False)
    whole = len(entry)
    assert list(taken.values()) == [0, 0, 0, whole, whole]


def test_columns_that_were_full_before_they_were_taken_are_not_full(native: ModuleType) -> None:
    good, damaged = batch(record(0)), batch(record(0), b"\x01", base_offset=1)
    columns = native.ArrowColumns(1, 1000, True, True, True, EVERY, EVERY)
    log = good + damaged + OFFSET.pack(100)  # an entry is read only if another one follows
    assert columns.add_rows(rows_of(good) * 2, 0, 2 * ROW_SIZE, good) == ROW_SIZE
    columns.take()
    assert columns.add_entries(log, 0, len(log), True, True, 1000) == (len(good), False)


@each_kernel
@pytest.mark.parametrize("base_sequence", [-1, -2, -(2**31), 0, 2**31 - 1])
def test_records_have_sequence_numbers_if_the_first_is_not_negative(
    kernel: ModuleType, base_sequence: int
) -> None:
    log = batch(record(0), record(1), base_sequence=base_sequence)
    expected = [base_sequence, (base_sequence + 1) % 2**31] if base_sequence >= 0 else [-1, -1]
    found, _ = kernel.read_entries(log, 0, len(log), True, False, 100)
    made = kernel.make_records(rows_of(log), 0, 2 * ROW_SIZE, log, 0, base_sequence)
    for records in (found, made) if found else (made,):
        assert [each.sequence for each in records] == expected


@each_kernel
@pytest.mark.parametrize("verify", [False, True])
def test_a_row_needs_a_message_that_reaches_to_its_magic(kernel: ModuleType, verify: bool) -> None:
    row = ROW.pack(0, 0, 0, 0, -1, 0, -1, 0, 0, 0)
    for size in -(2**31), -12, -1, 0, 3, 4:  # the magic is the fifth byte after the size
        source = bytes(8) + size.to_bytes(4, signed=True) + bytes(20)
        with pytest.raises(ValueError, match=r"\w"):
            kernel.make_inner_records(row, 0, ROW_SIZE, source, 0, 0, verify)
    found, at = kernel.make_inner_records(row, 0, ROW_SIZE, bytes(11) + b"\x05" * 6, 0, 0, False)
    assert (len(found), at) == (1, 17)


@each_kernel
@pytest.mark.parametrize(("bytes_max", "count"), [(9, 1), (10, 2), (13, 2), (14, 3)])
def test_encoded_headers_need_room_beside_keys_and_values(
    kernel: ModuleType, bytes_max: int, count: int
) -> None:
    """Added rows count without their sizes: 4 bytes each, and 6 for the next."""
    source = b"kv\x02h\x02x"
    rows = 3 * ROW.pack(0, 0, 0, 0, 1, 1, 1, 2, 4, 1)
    filled = kernel.ArrowColumns(9, bytes_max, True, True, True, EVERY, EVERY)
    assert filled.add_rows(rows, 0, len(rows), source) == count * ROW_SIZE
    assert len(filled) == count
