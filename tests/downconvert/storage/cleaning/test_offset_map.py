"""The map of offsets keeps the last offset of each key, in memory of a fixed size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downconvert.storage.cleaning.offset_map import SLOT_SIZE, OffsetMap


@given(st.lists(st.binary(max_size=3)), st.integers(2, 300))
def test_the_map_works_like_a_dictionary_until_it_is_full(keys: list[bytes], slots: int) -> None:
    found, expected = OffsetMap(slots * SLOT_SIZE), dict[bytes, int]()
    for offset, key in enumerate(keys):
        if found.put(key, offset):
            expected[key] = offset
            assert found.last_offset == offset
        else:
            assert key not in expected
            assert len(found) == int(slots * 0.9)
    assert {key: found.get(key) for key in expected} == expected
    assert {found.get(key) for key in keys if key not in expected} <= {-1}
    assert len(found) == len(expected)
    found.close()


def test_a_full_map_still_updates_its_keys() -> None:
    found = OffsetMap(3 * SLOT_SIZE)
    assert [found.put(key, at) for at, key in enumerate((b"a", b"b", b"c", b"a"))] == [
        True, True, False, True,
    ]  # fmt: skip
    assert (found.get(b"a"), found.get(b"b"), found.get(b"c")) == (3, 1, -1)


def test_a_buffer_without_room_for_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="no room for a key"):
        OffsetMap(SLOT_SIZE)
