"""The search of an index gives what a plain binary search gives, from fewer pages."""

from bisect import bisect_right
from random import Random
from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downconvert.storage.indexes.search import MARK_EVERY, MARKS_AFTER, WARM_SIZE, WarmSearch

ENTRIES = {8: Struct(">q"), 12: Struct(">q4x")}


def search_of(keys: list[int], entry_size: int) -> WarmSearch:
    data = b"".join(ENTRIES[entry_size].pack(key) for key in keys)
    return WarmSearch(data, entry_size)


def rising(count: int, seed: int) -> list[int]:
    random = Random(seed)
    keys, key = [], -3
    for _ in range(count):
        key += random.choice((1, 1, 2, 50))
        keys.append(key)
    return keys


@pytest.mark.parametrize("entry_size", [8, 12])
@pytest.mark.parametrize("count", [0, 1, 2, 682, 683, 1024, 1025, 1026, 5000, 20000])
def test_results_equal_those_of_a_plain_binary_search(entry_size: int, count: int) -> None:
    keys = rising(count, count)
    search = search_of(keys, entry_size)
    random = Random(7)
    end = keys[-1] if keys else 0
    for number in range(3 * MARKS_AFTER + 1500):
        key = random.randrange(-6, end + 6) if number % 3 else random.choice([*keys, -4])
        assert search.floor(key, count) == bisect_right(keys, key) - 1


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True), st.data())
def test_any_sorted_keys_are_searched_correctly(keys: list[int], data: st.DataObject) -> None:
    keys.sort()
    key = data.draw(st.integers(-(2**63), 2**63 - 1) | st.sampled_from([*keys, 0]))
    for entry_size in ENTRIES:
        found = search_of(keys, entry_size).floor(key, len(keys))
        assert found == bisect_right(keys, key) - 1


@pytest.mark.parametrize("entry_size", [8, 12])
def test_appended_entries_are_found(entry_size: int) -> None:
    keys = rising(9000, 3)
    view = bytearray(len(keys) * entry_size)
    search = WarmSearch(view, entry_size)
    random = Random(5)
    for count, key in enumerate(keys):
        ENTRIES[entry_size].pack_into(view, count * entry_size, key)
        search.appended(key)
        if count % 10 == 0:
            sought = random.randrange(-6, key + 3)
            assert search.floor(sought, count + 1) == bisect_right(keys, sought, 0, count + 1) - 1


def test_a_search_near_the_end_reads_only_the_warm_section() -> None:
    """All before it is made so that a search in it would go wrong."""
    keys = rising(5000, 1)
    warm = WARM_SIZE // 8
    search = search_of([2**62] * (5000 - warm) + keys[-warm:], 8)
    for slot in range(5000 - warm, 5000):
        assert search.floor(keys[slot], 5000) == slot


def test_removed_entries_are_not_found() -> None:
    keys = rising(5000, 2)
    search = search_of(keys, 8)
    for slot in range(2 * MARKS_AFTER):
        assert search.floor(keys[slot * MARK_EVERY], 5000) == slot * MARK_EVERY
    search.forget()
    assert search.floor(keys[4000], 3000) == 2999
