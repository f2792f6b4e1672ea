"""How transactions end, from batch to batch: committed, aborted, open, or it is not known."""

from pathlib import Path

import pytest

from downconvert.spark.logs.compacted import with_cleaned
from downconvert.spark.logs.outcomes import followed
from downconvert.spark.logs.trees import find_partitions
from downconvert.storage.names import Kind, file_name
from downconvert.storage.producers.producer_state import ProducerState
from records.batches.builder import build_marker
from records.batches.control import ControlRecordType
from tests.downconvert.spark.reading import rows
from tests.downconvert.storage.logs import batch, segment

FIRST = batch(0, 1, transactional=True, producer_id=0, producer_epoch=3, base_sequence=0)
Ended = list[tuple[int, int, int]]


def marker(offset: int, kind: ControlRecordType = ControlRecordType.COMMIT) -> bytes:
    return build_marker(kind, offset=offset, timestamp=20, producer_id=0, producer_epoch=3)


def outcome(
    path: Path, *, cleaned: int = 0, start: int = 0, known: tuple[ProducerState, ...] = ()
) -> tuple[Ended, Ended]:
    """Aborted and open transactions: producer, first and last offset."""
    (log,) = find_partitions([str(path)])
    aborted, left = followed(with_cleaned(log, cleaned), start, known)
    found = [[(one.producer_id, one.first_offset, one.last_offset) for one in aborted]]
    assert all(one.last_offset == 2**63 - 1 for one in left)
    return found[0], [(one.producer_id, one.first_offset, 0) for one in left]


OPEN: tuple[Ended, Ended] = [], [(0, 0, 0)]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([], OPEN),
        ([batch(2)], OPEN),
        ([marker(2)], ([], [])),
        ([marker(2, ControlRecordType.ABORT), batch(3)], ([(0, 0, 2)], [])),
    ],
)
def test_markers_end_transactions(
    tmp_path: Path, ends: list[bytes], expected: tuple[Ended, Ended]
) -> None:
    segment(tmp_path / "a-0", 0, FIRST, *ends)
    segment(tmp_path / "a-0", 2 + len(ends))
    assert outcome(tmp_path) == expected


@pytest.mark.parametrize("is_last", [False, True])
def test_a_damaged_batch_may_have_been_the_marker(tmp_path: Path, is_last: bool) -> None:
    """The following batches are read."""
    later = [] if is_last else [batch(3)]
    segment(tmp_path / "a-0", 0, FIRST, marker(2)[:-1] + b"?", *later)
    assert outcome(tmp_path) == ([(0, 0, 2)], [])


def test_a_marker_that_is_damaged_here_counts_as_another_copy_has_it(tmp_path: Path) -> None:
    for name, end in (("b1", marker(2)[:-1] + b"?"), ("b2", marker(2))):
        (tmp_path / name).mkdir()
        segment(tmp_path / name / "a-0", 0, FIRST, end, batch(3))
    assert outcome(tmp_path) == ([], [])
    found = [row["offset"] for row in rows(tmp_path, isolation="read_committed")]
    assert found == [0, 1, 3]


def test_damage_at_the_end_of_the_log_may_hide_the_marker(tmp_path: Path) -> None:
    segment(tmp_path / "a-0", 0, FIRST, bytes(70) + b"noise")
    assert outcome(tmp_path) == ([(0, 0, 2)], [])
    segment(tmp_path / "a-0", 0, FIRST, bytes(70))  # preallocated
    assert outcome(tmp_path) == OPEN


@pytest.mark.parametrize("rest", [b"", bytes(70) + b"noise"])
def test_the_marker_may_be_among_missing_offsets_but_not_among_compacted_ones(
    tmp_path: Path, rest: bytes
) -> None:
    segment(tmp_path / "a-0", 0, FIRST, rest)
    segment(tmp_path / "a-0", 5, batch(5))
    assert outcome(tmp_path) == ([(0, 0, 2)], [])
    assert outcome(tmp_path, cleaned=5) == (OPEN if not rest else ([(0, 0, 2)], []))


@pytest.mark.parametrize("cleaned", [4, 5, 7, 10])
def test_offsets_that_a_cleaner_removed_in_one_copy_may_be_a_transaction_in_another(
    tmp_path: Path, cleaned: int
) -> None:
    """The cleaner has cleaned up to `cleaned`. Only the other copy has the offsets from 2 to 9."""
    of_producer = {"transactional": True, "producer_id": 0, "producer_epoch": 3}
    aborted = batch(3, 4, **of_producer), marker(5, ControlRecordType.ABORT)
    for name in ("b1", "b2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cleaner-offset-checkpoint").write_text(f"0\n1\na 0 {cleaned}\n")
    segment(tmp_path / "b1" / "a-0", 0, batch(0, 1))
    segment(tmp_path / "b1" / "a-0", 10, batch(10))
    segment(tmp_path / "b2" / "a-0", 2, batch(2), *aborted, batch(6), batch(7, 8, 9))
    assert outcome(tmp_path, cleaned=cleaned) == ([(0, 3, 5)], [])
    found = [row["offset"] for row in rows(tmp_path, isolation="read_committed")]
    assert found == [0, 1, 2, 6, 7, 8, 9, 10]
    found = [row["offset"] for row in rows(tmp_path)]
    assert found == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]


def test_a_snapshot_counts_for_what_no_copy_has_any_more(tmp_path: Path) -> None:
    segment(tmp_path / "a-0", 5, batch(5), batch(6))
    known = ProducerState(0, 3, transaction_start=2), ProducerState(8, 0, transaction_start=6)
    assert outcome(tmp_path, known=known) == ([], [(0, 2, 0)])
    assert outcome(tmp_path, known=known[1:]) == ([], [])
    log = tmp_path / "a-0" / file_name(5, Kind.LOG)
    log.write_bytes(log.read_bytes() + marker(7))
    assert outcome(tmp_path, known=known) == ([], [])
