"""The time index: Kafka's responses, Kafka's bytes, Kafka's rules."""

import json
from pathlib import Path

import pytest

from downconvert.storage import CorruptIndexError, TimeIndex
from downconvert.storage.disk.files import DISK
from tests import corpus

KAFKAS_BASE = 8589934592
KAFKAS = f"{KAFKAS_BASE:020d}.timeindex"


def empty(tmp_path: Path, base: int = 45, entries_max: int = 30) -> TimeIndex:
    return TimeIndex.open_writable(tmp_path / "0.timeindex", base, DISK, entries_max * 12)


def filled(tmp_path: Path, entries: int = 15) -> TimeIndex:
    index = empty(tmp_path)
    for number in range(1, entries + 1):
        index.append(10 * number, 45 + 10 * number)
    return index


@pytest.fixture
def kafkas(tmp_path: Path) -> TimeIndex:
    (tmp_path / KAFKAS).write_bytes(corpus.vectors(KAFKAS))
    return TimeIndex.open(tmp_path / KAFKAS, KAFKAS_BASE)


def test_lookups_find_what_kafkas_do(kafkas: TimeIndex) -> None:
    lines = corpus.vectors("index-lookups.jsonl").splitlines()
    lookups = [entry for entry in map(json.loads, lines) if entry["lookup"] == "timestamp"]
    assert len(lookups) == 300
    for lookup in lookups:
        assert kafkas.lookup(lookup["target"]) == (lookup["timestamp"], lookup["offset"])


def test_the_same_appends_make_the_same_file(kafkas: TimeIndex, tmp_path: Path) -> None:
    path = tmp_path / "ours.timeindex"
    ours = TimeIndex.open_writable(path, KAFKAS_BASE, DISK)
    for slot in range(len(kafkas)):
        ours.append(*kafkas.entry(slot))
    assert path.stat().st_size == 10485756
    ours.file.trim()
    ours.close()
    assert path.read_bytes() == corpus.vectors(KAFKAS)


def test_a_lookup_finds_the_entry_at_or_before_a_time(tmp_path: Path) -> None:
    assert empty(tmp_path).lookup(100) == (-1, 45)
    index = filled(tmp_path)
    assert index.lookup(9) == (-1, 45)
    assert index.lookup(25) == (20, 65)
    assert index.lookup(30) == (30, 75)
    assert index.lookup(2**63 - 1) == index.last == (150, 195)


def test_one_entry_is_kept_free_for_the_last_timestamp(tmp_path: Path) -> None:
    index = filled(tmp_path, 29)
    assert index.is_full
    with pytest.raises(ValueError, match="full"):
        index.append(1000, 1000)
    index.append(1000, 1000, last=True)
    assert index.last == (1000, 1000)
    with pytest.raises(ValueError, match="full"):
        index.append(1001, 1001, last=True)


def test_an_equal_timestamp_adds_nothing_and_a_lower_one_is_refused(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.append(150, 500)
    assert len(index) == 15
    with pytest.raises(ValueError, match="timestamp 149"):
        index.append(149, 500)
    with pytest.raises(ValueError, match="offset 194"):
        index.append(200, 194)
    with pytest.raises(ValueError, match="offset 194"):
        index.append(200, 194, last=True)
    with pytest.raises(ValueError, match="does not fit"):
        index.append(200, 45 + 2**31)


def test_entries_added_after_a_lookup_are_found(tmp_path: Path) -> None:
    index = filled(tmp_path)
    assert index.lookup(1000) == (150, 195)
    index.append(160, 195)
    assert index.lookup(160) == index.lookup(1000) == (160, 195)
    assert index.lookup(159) == (150, 195)


@pytest.mark.parametrize(("offset", "entries"), [(1000, 15), (195, 14), (70, 2), (65, 1), (46, 0)])
def test_truncation_keeps_entries_below_the_offset(
    tmp_path: Path, offset: int, entries: int
) -> None:
    index = filled(tmp_path)
    index.truncate_to(offset)
    assert len(index) == entries
    assert index.lookup(10**9) == index.last


def test_a_missing_entry_is_an_error(tmp_path: Path) -> None:
    index = filled(tmp_path)
    assert index.entry(0) == (10, 55)
    with pytest.raises(ValueError, match="which has 15"):
        index.entry(15)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("0000000000000009000000020000000000000008000000030", "multiple of 12"),
        ("000000000000000900000002000000000000000800000003", "last timestamp"),
        ("0000000000000009fffffffe", "last offset"),
    ],
)
def test_the_check_follows_kafkas_rules(tmp_path: Path, data: str, reason: str) -> None:
    path = tmp_path / "1.timeindex"
    path.write_bytes(bytes.fromhex(data + "0" * (len(data) % 2)))
    with pytest.raises(CorruptIndexError, match=reason):
        TimeIndex.open(path, 45).check()


def test_a_sound_index_passes_the_check(tmp_path: Path) -> None:
    filled(tmp_path).check()
    empty(tmp_path, base=0).check()
