"""The offset index: Kafka's responses, Kafka's bytes, Kafka's rules."""

import json
from pathlib import Path

import pytest

from downconvert.storage import CorruptIndexError, OffsetIndex
from downconvert.storage.disk.files import DISK
from tests import corpus

KAFKAS_BASE = 8589934592
KAFKAS = f"{KAFKAS_BASE:020d}.index"


def empty(tmp_path: Path, base: int = 45, entries_max: int = 30) -> OffsetIndex:
    return OffsetIndex.open_writable(tmp_path / "0.index", base, DISK, entries_max * 8)


def filled(tmp_path: Path) -> OffsetIndex:
    index = empty(tmp_path)
    for entry in ((45, 0), (46, 10), (47, 23), (48, 37)):
        index.append(*entry)
    return index


@pytest.fixture
def kafkas(tmp_path: Path) -> OffsetIndex:
    (tmp_path / KAFKAS).write_bytes(corpus.vectors(KAFKAS))
    return OffsetIndex.open(tmp_path / KAFKAS, KAFKAS_BASE)


def test_lookups_find_what_kafkas_do(kafkas: OffsetIndex) -> None:
    lines = corpus.vectors("index-lookups.jsonl").splitlines()
    lookups = [entry for entry in map(json.loads, lines) if entry["lookup"] == "offset"]
    assert len(lookups) == 300
    for lookup in lookups:
        assert kafkas.lookup(lookup["target"]) == (lookup["offset"], lookup["position"])


def test_the_same_appends_make_the_same_file(kafkas: OffsetIndex, tmp_path: Path) -> None:
    path = tmp_path / "ours.index"
    ours = OffsetIndex.open_writable(path, KAFKAS_BASE, DISK)
    for slot in range(len(kafkas)):
        ours.append(*kafkas.entry(slot))
    assert path.stat().st_size == 10485760
    ours.file.trim()
    ours.close()
    assert path.read_bytes() == corpus.vectors(KAFKAS)


def test_a_lookup_below_the_first_entry_finds_the_beginning(tmp_path: Path) -> None:
    assert empty(tmp_path).lookup(50) == (45, 0)
    index = empty(tmp_path)
    index.append(50, 100)
    assert index.lookup(49) == (45, 0)
    assert index.lookup(44) == (45, 0)
    assert index.lookup(50) == index.lookup(2**63 - 1) == (50, 100)


@pytest.mark.parametrize(
    ("position", "size", "offset"),
    [
        (0, 5, 46),
        (0, 10, 46),
        (0, 22, 47),
        (0, 23, 47),
        (10, 24, 48),
        (37, 1, None),
        (0, 200, None),
    ],
)
def test_the_upper_bound_of_a_read(
    tmp_path: Path, position: int, size: int, offset: int | None
) -> None:
    assert filled(tmp_path).upper_bound(position, size) == offset


def test_an_empty_index_has_no_upper_bound(tmp_path: Path) -> None:
    assert empty(tmp_path).upper_bound(0, 5) is None


@pytest.mark.parametrize(("offset", "last"), [(12, 9), (10, 9), (9, 8), (5, 4), (1, 0)])
def test_truncation_keeps_entries_below_the_offset(tmp_path: Path, offset: int, last: int) -> None:
    index = empty(tmp_path, base=0)
    for entry in range(1, 10):
        index.append(entry, entry)
    index.truncate_to(offset)
    assert index.last_offset == last
    index.append(offset, 100)  # and there is room again
    assert index.lookup(offset) == (offset, 100)


def test_entries_added_after_a_lookup_are_found(tmp_path: Path) -> None:
    index = filled(tmp_path)
    assert index.lookup(100) == (48, 37)
    index.append(60, 50)
    assert index.lookup(60) == index.lookup(100) == (60, 50)
    assert index.lookup(59) == (48, 37)


@pytest.mark.parametrize("offset", [45, 44, 45 + 2**31, 48, 47])
def test_an_offset_that_does_not_rise_or_fit_is_refused(tmp_path: Path, offset: int) -> None:
    index = filled(tmp_path)
    with pytest.raises(ValueError, match="offset"):
        index.append(offset, 50)
    assert len(index) == 4


def test_a_full_index_refuses_entries(tmp_path: Path) -> None:
    index = empty(tmp_path, base=0, entries_max=3)
    for offset in (1, 2, 3):
        assert not index.is_full
        index.append(offset, offset)
    assert index.is_full
    with pytest.raises(ValueError, match="full"):
        index.append(4, 4)


def test_a_missing_entry_is_an_error(tmp_path: Path) -> None:
    index = filled(tmp_path)
    assert index.entry(3) == (48, 37)
    for slot in (4, -1):
        with pytest.raises(ValueError, match="which has 4"):
            index.entry(slot)


def test_the_check_follows_kafkas_rules(tmp_path: Path) -> None:
    index = empty(tmp_path, base=45)
    index.append(45, 7)  # the last offset may be the base offset
    index.check()
    index.close()
    path = tmp_path / "1.index"
    path.write_bytes(b"\xff\xff\xff\xff\x00\x00\x00\x01")
    with pytest.raises(CorruptIndexError, match="below the segment's"):
        OffsetIndex.open(path, 45).check()
    path.write_bytes(b"\x00\x00\x00\x01\x00\x00\x00\x01\x00")
    with pytest.raises(CorruptIndexError, match="multiple of 8"):
        OffsetIndex.open(path, 45).check()


def test_lookups_are_right_after_a_truncation_and_other_entries(tmp_path: Path) -> None:
    """The index is so large that keys of its older part are kept in memory."""
    index = empty(tmp_path, base=0, entries_max=4000)
    for number in range(3000):
        index.append(10 * number, 100 * number)
    for _ in range(2):  # the first time keys are read, the second time they are used
        for offset in range(0, 20_000, 100):
            assert index.lookup(offset) == (offset, 10 * offset)
    index.truncate_to(5000)
    for number in range(500, 3500):
        index.append(7 * number + 5000, 100 * number)
    for offset in [*range(0, 5000, 100), *range(8500, 20_000, 100)] * 2:
        expected = (offset, 10 * offset)
        if offset >= 5000:
            number = (offset - 5000) // 7
            expected = (7 * number + 5000, 100 * number)
        assert index.lookup(offset) == expected
    index.close()
