"""A batch whose offset does not fit between its neighbours' does not say where a log ends."""

from contextlib import nullcontext
from typing import Literal

import pytest

from downconvert.storage.names import OFFSET_MAX
from downconvert.storage.segments.rising import Rising, below, counted, fitting, in_order, may_have
from records import CorruptRecordsError, MemoryRecords
from tests.damage import damaged
from tests.downconvert.storage.logs import batch


def ends(*bases: int) -> list[tuple[bool, int]]:
    """The results of adding batches of ten offsets, each with the offset after it."""
    rising = Rising(0)
    found = []
    for base in bases:
        header = next(MemoryRecords(batch(*range(base, base + 10))).batches())
        found.append((rising.add(header), rising.after))
    return found


@pytest.mark.parametrize("gap", [0, 5])
def test_batches_that_rise_end_where_the_last_one_does(gap: int) -> None:
    assert ends(0, 10 + gap, 20 + gap) == [(True, 10), (True, 20 + gap), (True, 30 + gap)]


def test_a_batch_that_goes_back_does_not_count() -> None:
    assert ends(0, 10, 4, 30) == [(True, 10), (True, 20), (False, 20), (True, 40)]


def test_a_batch_that_the_next_one_shows_to_be_wrong_no_longer_counts() -> None:
    assert ends(0, 1034, 20, 30) == [(True, 10), (True, 1044), (True, 30), (True, 40)]
    assert ends(0, 1034, 2058, 30) == [(True, 10), (True, 1044), (True, 2068), (False, 2068)]


def test_a_single_batch_beyond_an_offset_does_not_end_the_batches_below() -> None:
    bases = [0, 10, 1044, 30, 50, 60, 20]
    data = b"".join(batch(*range(base, base + 10)) for base in bases)
    found = [header.base_offset for header in below(MemoryRecords(data).batches(), 50)]
    assert found == [0, 10, 30]


@pytest.mark.parametrize(
    ("bases", "expected"),
    [
        ([0, 10, 25], [0, 10, 25]),
        ([0, 11, 20], [0, 20]),  # one offset too high
        ([0, 1034, 20], [0, 20]),
        ([0, 4, 20], [0, 20]),
        ([0, 10, 1044], [0, 10, 1044]),  # nothing shows that the last one is wrong
    ],
)
@pytest.mark.parametrize("is_torn", [False, True])
def test_batches_with_a_wrong_offset_are_left_out(
    bases: list[int], expected: list[int], is_torn: bool
) -> None:
    data = b"".join(batch(*range(base, base + 10)) for base in bases)
    torn = damaged(batch(0), field="magic", to=9) if is_torn else b""
    found = []
    with pytest.raises(CorruptRecordsError) if is_torn else nullcontext():
        for header in fitting(MemoryRecords(data + torn).batches(), 0):
            found.append(header.base_offset)
    assert found == expected


@pytest.mark.parametrize(
    ("crc", "following", "end"),
    [("stale", 10, 10), ("stale", 90, 90), ("stale", 120, 100), ("fixed", 10, 100)],
)
@pytest.mark.parametrize("is_torn", [False, True])
def test_a_batch_ends_before_the_next_one_unless_its_checksum_says_more(
    crc: Literal["stale", "fixed"], following: int, end: int, is_torn: bool
) -> None:
    first = damaged(batch(*range(10)), field="last_offset_delta", to=99, crc=crc)
    torn = damaged(batch(0), field="magic", to=9) if is_torn else b""
    found = []
    with pytest.raises(CorruptRecordsError) if is_torn else nullcontext():
        for header in counted(MemoryRecords(first + batch(following) + torn)):
            found.append((header.base_offset, header.last_offset + 1))
    assert found == [(0, end), (following, following + 1)]


@pytest.mark.parametrize("second", [None, 20])
def test_an_index_entry_is_of_its_batch_or_of_one_that_was_appended_with_it(
    second: int | None,
) -> None:
    first, following = (
        None if base is None else next(MemoryRecords(batch(base, base + 9)).batches())
        for base in (10, second)
    )
    assert first is not None
    found = [entry for entry in range(30) if may_have(first, following, entry)]
    assert found == [*range(10, 20), *(range(20, 30) if second else ())]


def bases(*firsts: int, end: int = OFFSET_MAX) -> list[int | None]:
    """The first offsets that are in order of batches of ten; the last one is None after damage."""
    data = b"".join(batch(*range(first, first + 10)) for first in firsts)
    found: list[int | None] = []
    try:
        for header in in_order(MemoryRecords(data).batches(), 10, end):
            found.append(header.base_offset)
    except CorruptRecordsError:
        found.append(None)
    return found


@pytest.mark.parametrize("end", [OFFSET_MAX, 60, 90])
def test_batches_rise_with_or_without_gaps(end: int) -> None:
    assert bases(10, 20, 50, end=end) == [10, 20, 50]


@pytest.mark.parametrize("wrong", [0, 12, 1 << 40])
@pytest.mark.parametrize("number", [0, 1])
def test_nothing_is_in_order_from_a_wrong_offset_on(wrong: int, number: int) -> None:
    firsts = [10, 20, 30]
    firsts[number] = wrong
    assert bases(*firsts) == [*[10, 20][:number], None]


def test_the_last_batch_is_below_the_next_segment_or_was_merged_from_it() -> None:
    assert bases(10, 55, end=60) == [10, None]
    assert bases(10, 60, end=60) == [10, 60]
    assert bases(10, 55) == [10, 55]
