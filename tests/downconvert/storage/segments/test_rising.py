"""A batch whose offset does not fit between its neighbours' does not say where a log ends."""

import pytest

from downconvert.storage.segments.rising import Rising, below, may_have
from records import MemoryRecords
from tests.downconvert.storage.logs import batch


def ends(*bases: int) -> list[tuple[bool, int]]:
    """What adding each of some batches of ten offsets says, and the offset after it."""
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


def test_a_single_batch_beyond_an_offset_does_not_end_what_is_below_it() -> None:
    bases = [0, 10, 1044, 30, 50, 60, 20]
    data = b"".join(batch(*range(base, base + 10)) for base in bases)
    found = [header.base_offset for header in below(MemoryRecords(data).batches(), 50)]
    assert found == [0, 10, 30]


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
