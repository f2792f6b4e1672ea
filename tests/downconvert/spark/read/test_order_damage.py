"""Batches with wrong offsets beside damage: what is read, and which offsets are reported."""

from pathlib import Path

import pytest

from downconvert.storage.names import Kind, file_name
from tests.damage import damaged, flipped, with_offset, wrong
from tests.downconvert.spark.reading import partition, rows
from tests.downconvert.storage.logs import batch, indexed_segment, segment


@pytest.mark.parametrize("level", ["record", "batch"])
@pytest.mark.parametrize("low", [(0,), (2,), (3,), (0, 0), (1, 3), (2, 0)])
def test_entries_with_too_low_offsets_after_damage_are_lost_with_it(
    tmp_path: Path, level: str, low: tuple[int, ...]
) -> None:
    """Whether their offsets are below the damaged entry, or among its own."""
    bad = flipped(batch(2, 3), 8 * (len(batch(2, 3)) - 1))
    too_low = [with_offset(batch(4 + 2 * n, 5 + 2 * n), at) for n, at in enumerate(low)]
    after = 4 + 2 * len(low)
    partition(tmp_path, b"".join([batch(0, 1), bad, *too_low, batch(after, after + 1)]))
    found = rows(tmp_path, level=level, mode="PERMISSIVE")
    gaps = [row["_corrupt"] for row in found if row["_corrupt"]]
    lost = {at for one in gaps for at in range(one["startOffset"], one["endOffset"])}
    assert lost == set(range(2, after))
    column = "offset" if level == "record" else "lastOffset"
    read = [row[column] for row in found if row["_corrupt"] is None]
    assert read == ([0, 1, after, after + 1] if level == "record" else [1, after + 1])


@pytest.mark.parametrize("level", ["record", "batch"])
def test_a_damaged_entry_does_not_make_an_indexed_one_seem_too_low(
    tmp_path: Path, level: str
) -> None:
    """Its header states more offsets than it has."""
    good = [batch(at, at + 1) for at in range(0, 10, 2)]
    bad = damaged(good[1], field="last_offset_delta", to=100, crc="stale")
    indexed_segment(tmp_path / "topic-0", 0, *good)
    data = b"".join([good[0], bad, *good[2:]])
    (tmp_path / "topic-0" / file_name(0, Kind.LOG)).write_bytes(data)
    found = rows(tmp_path, level=level, mode="PERMISSIVE")
    (gap,) = (row["_corrupt"] for row in found if row["_corrupt"] is not None)
    assert (gap["startOffset"], gap["endOffset"]) == (2, 4)


@pytest.mark.parametrize("level", ["record", "batch"])
def test_damage_whose_offsets_are_unknown_is_a_row_without_them(tmp_path: Path, level: str) -> None:
    """The entry before has a wrong offset, which nothing shows."""
    good = [batch(at, at + 1) for at in range(0, 10, 2)]
    bad = damaged(good[2], field="magic", to=7, crc="stale")
    indexed_segment(tmp_path / "topic-0", 0, *good)
    data = b"".join([good[0], with_offset(good[1], 100), bad, *good[3:]])
    (tmp_path / "topic-0" / file_name(0, Kind.LOG)).write_bytes(data)
    found = rows(tmp_path, level=level, mode="PERMISSIVE")
    (gap,) = (row["_corrupt"] for row in found if row["_corrupt"] is not None)
    assert (gap["startOffset"], gap["endOffset"]) == (None, None)
    assert "unknown magic" in gap["reason"]


@pytest.mark.parametrize("level", ["record", "batch"])
def test_a_wrong_offset_before_the_leaders_beginning_hides_nothing(
    tmp_path: Path, level: str
) -> None:
    """The last batch of another copy's segment, which ends where the leader's log begins."""
    entries = [batch(*range(first, first + 10)) for first in range(100, 300, 10)]
    for broker in ("b1", "b2"):
        (tmp_path / broker).mkdir()
        segment(tmp_path / broker / "a-0", 200, *entries[10:])
    segment(tmp_path / "b1" / "a-0", 300, batch(300))
    segment(tmp_path / "b2" / "a-0", 100, *entries[:9], wrong(entries[9], 40))
    found = rows(tmp_path, level=level, mode="PERMISSIVE")
    lost = [row["_corrupt"] for row in found if row["_corrupt"] is not None]
    assert [(one["startOffset"], one["endOffset"]) for one in lost] == [(190, 200)]
    assert len(found) == 1 + (191 if level == "record" else 20)


@pytest.mark.parametrize("size", range(300, 1500, 100))
def test_damage_after_a_wrong_offset_is_reported_where_a_task_begins(
    tmp_path: Path, size: int
) -> None:
    """In another copy's segment, which goes beyond the beginning of the leader's log."""
    entries = [batch(*range(first, first + 10)) for first in range(100, 300, 10)]
    for broker in ("b1", "b2"):
        (tmp_path / broker).mkdir()
    segment(tmp_path / "b1" / "a-0", 200, *entries[10:])
    directory = tmp_path / "b2" / "a-0"
    indexed_segment(directory, 100, *entries[:12])
    bad = [wrong(entries[5], 19), flipped(entries[6], 8 * 70)]
    data = b"".join([*entries[:5], *bad, *entries[7:12]])
    (directory / file_name(100, Kind.LOG)).write_bytes(data)
    found = rows(tmp_path, mode="PERMISSIVE", maxPartitionBytes=size)
    lost = [row["_corrupt"] for row in found if row["_corrupt"] is not None]
    absent = {at for one in lost for at in range(one["startOffset"], one["endOffset"])}
    assert absent == set(range(150, 170))
    assert len(found) - len(lost) == 180


@pytest.mark.parametrize("level", ["record", "batch"])
@pytest.mark.parametrize("start", [0, 4])
def test_a_wrong_offset_is_where_the_batch_before_it_ends(
    tmp_path: Path, level: str, start: int
) -> None:
    """Damage hides the offsets of the batches before that one. Reading begins there, or goes on."""
    entries = [batch(at, at + 1) for at in range(0, 12, 2)]
    log = indexed_segment(tmp_path / "a-0", 0, *entries).path()
    noise = b"\xff" * len(entries[1])
    log.write_bytes(b"".join([entries[0], noise, entries[2], wrong(entries[3], 2), *entries[4:]]))
    options = {"mode": "PERMISSIVE", "startingOffsets": f'{{"a":{{"0":{start}}}}}'}
    found = [row["_corrupt"] for row in rows(tmp_path, level=level, **options) if row["_corrupt"]]
    named = [(one["startOffset"], one["endOffset"]) for one in found]
    assert named == ([(2, 4), (6, 8)] if start == 0 else [(6, 8)])


@pytest.mark.parametrize("level", ["record", "batch"])
def test_a_wrong_offset_in_the_gap_that_another_one_has_left_is_reported_with_its_own(
    tmp_path: Path, level: str
) -> None:
    entries = [batch(*range(first, first + 10)) for first in range(0, 50, 10)]
    entries[1], entries[3] = with_offset(entries[1], 3), with_offset(entries[3], 12)
    partition(tmp_path, b"".join(entries))
    found = rows(tmp_path, level=level, mode="PERMISSIVE")
    lost = [row["_corrupt"] for row in found if row["_corrupt"] is not None]
    assert [(one["startOffset"], one["endOffset"]) for one in lost] == [(10, 20), (30, 40)]
    column = "offset" if level == "record" else "lastOffset"
    assert {row[column] for row in found if not row["_corrupt"]} >= {9, 29, 49}
