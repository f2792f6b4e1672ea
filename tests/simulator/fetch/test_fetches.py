"""How a log is cut into fetches."""

from pathlib import Path

from records import FileRecords
from simulator.fetch.fetches import BatchIndex
from tests.simulator.segments import batch, written

BATCHES = [batch(range(2)), batch(range(2, 5)), batch(range(5, 6)), batch(range(8, 9))]
SIZES = [len(data) for data in BATCHES]


def index_of(path: Path) -> BatchIndex:
    with FileRecords.open(path) as log:
        return BatchIndex(log)


def test_a_fetch_is_as_many_whole_batches_as_fit(tmp_path: Path) -> None:
    index = index_of(written(tmp_path, *BATCHES))
    assert len(index) == 4
    assert index.size == sum(SIZES)
    assert index.cut(0, SIZES[0] + SIZES[1]) == 2
    assert index.cut(0, SIZES[0] + SIZES[1] - 1) == 1
    assert index.cut(1, 10**9) == 4


def test_a_fetch_has_one_batch_even_where_that_is_too_large(tmp_path: Path) -> None:
    assert index_of(written(tmp_path, *BATCHES)).cut(1, 1) == 2


def test_a_fetch_names_its_place_in_the_file(tmp_path: Path) -> None:
    fetch = index_of(written(tmp_path, *BATCHES)).fetch(3, 1, 3, 4)
    assert fetch == (3, SIZES[0], SIZES[1] + SIZES[2], 4)


def test_the_batch_of_an_offset_is_found_also_in_a_gap(tmp_path: Path) -> None:
    index = index_of(written(tmp_path, *BATCHES))
    assert [index.at_offset(offset, 0) for offset in (0, 1, 2, 5, 6, 8, 9)] == [0, 0, 1, 2, 3, 3, 4]


def test_batches_after_damage_are_left_out(tmp_path: Path) -> None:
    index = index_of(written(tmp_path, *BATCHES))
    index.end_before(SIZES[0] + SIZES[1] + 5)
    assert len(index) == 2
    assert index.size == SIZES[0] + SIZES[1]


def test_damaged_headers_end_the_index_and_are_reported(tmp_path: Path) -> None:
    index = index_of(written(tmp_path, BATCHES[0], b"\0" * 100))
    assert len(index) == 1
    assert "entry is smaller than a message header" in str(index.damage)
    assert index.damage is not None
    assert index.damage.position == SIZES[0]


def test_the_batch_of_an_offset_is_not_before_the_one_to_begin_with(tmp_path: Path) -> None:
    assert index_of(written(tmp_path, *BATCHES)).at_offset(0, 2) == 2
