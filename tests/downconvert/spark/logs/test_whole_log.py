"""A walk through a log meets each offset once: where the best copy has it, else where another one
has it, else as missing."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downconvert.spark.logs.compacted import with_cleaned
from downconvert.spark.logs.completeness import State, Stretch
from downconvert.spark.logs.trees import find_partitions
from downconvert.spark.logs.whole_log import whole_log
from downconvert.storage.names import OFFSET_MAX
from tests.downconvert.storage.logs import batch, segment

SEGMENT, BATCH = 12, 3  # offsets in a segment, and in a batch
NUMBERS = range(2 * SEGMENT // BATCH)  # of the batches, in two segments
HOW = st.sampled_from(["sound", "sound", "body", "header"])


def walk(path: Path, start: int = 0, cleaned: int = 0) -> list[Stretch]:
    (log,) = find_partitions([str(path)])
    return list(whole_log(with_cleaned(log, cleaned), start))


def copy_of(path: Path, how: list[str]) -> None:
    """A copy of two segments. `how`: what happened to each of their batches."""
    path.mkdir(parents=True)
    for first in (0, SEGMENT // BATCH):
        data = []
        for number in range(first, first + SEGMENT // BATCH):
            at = BATCH * number
            one = bytearray(batch(*range(at, at + BATCH), leader_epoch=0))
            if how[number] == "body":
                one[-1] ^= 1
            elif how[number] == "header":
                one[:61] = bytes(61)
            data.append(bytes(one))
        segment(path, BATCH * first, *data)


@pytest.mark.filterwarnings("ignore:copies of a-0 differ", "ignore:.* is damaged after offset")
@given(st.lists(st.tuples(HOW, HOW), min_size=len(NUMBERS), max_size=len(NUMBERS)), st.data())
def test_each_offset_is_met_once_where_a_copy_has_it(
    how: list[tuple[str, str]], data: st.DataObject
) -> None:
    """In order, and from any offset on. Without indexes, all after a damaged header is lost. At the
    end of the last segment this hides where the log ends."""
    start = data.draw(st.integers(0, 2 * SEGMENT - 1))
    copies = [list(one) for one in zip(*how, strict=True)]
    found: dict[int, set[str]] = {at: set() for at in range(2 * SEGMENT)}
    for number, copy in enumerate(copies):
        for first in (0, SEGMENT // BATCH):
            batches = range(first, first + SEGMENT // BATCH)
            lost = next((at for at in batches if copy[at] == "header"), batches[-1] + 1)
            for at in batches:
                if at < lost and copy[at] == "sound":
                    for offset in range(BATCH * at, BATCH * at + BATCH):
                        found[offset].add(f"b{number + 1}")
    with TemporaryDirectory() as scratch:
        for number, copy in enumerate(copies):
            copy_of(Path(scratch) / f"b{number + 1}" / "a-0", copy)
        pieces = walk(Path(scratch), start)
    assert [one.start for one in pieces[1:]] == [one.end for one in pieces[:-1]]
    for piece in pieces:
        for offset in range(max(piece.start, start), min(piece.end, 2 * SEGMENT)):
            if piece.state is State.MISSING:
                assert not found[offset]
            else:
                assert piece.segment is not None
                broker = Path(piece.segment.path).parts[-3]
                assert piece.state is State.WHOLE
                assert broker in found[offset]
    met = {at for one in pieces for at in range(one.start, min(one.end, 2 * SEGMENT))}
    assert met >= {offset for offset, where in found.items() if where and offset >= start}


def test_offsets_that_a_cleaner_removed_between_two_segments_are_not_missing(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "a-0"
    segment(directory, 0, batch(0, 1))
    segment(directory, 9, batch(9))
    missing = [one for one in walk(tmp_path) if one.state is State.MISSING]
    assert [(one.start, one.end) for one in missing] == [(2, 9)]
    missing = [one for one in walk(tmp_path, cleaned=9) if one.state is State.MISSING]
    assert missing == []


def test_a_cleaner_that_came_to_the_middle_of_a_gap_leaves_the_rest_missing(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "a-0"
    segment(directory, 0, batch(0, 1))
    segment(directory, 9, batch(9))
    missing = [one for one in walk(tmp_path, cleaned=5) if one.state is State.MISSING]
    assert [(one.start, one.end) for one in missing] == [(5, 9)]


@pytest.mark.parametrize("cleaned", [0, 5, 9])
def test_no_cleaner_explains_what_is_behind_damage(tmp_path: Path, cleaned: int) -> None:
    """The damaged batch was in the log: a cleaner has left it."""
    directory = tmp_path / "a-0"
    segment(directory, 0, batch(0, 1), b"\xff" * 61, batch(5))
    segment(directory, 9, batch(9))
    missing = [one for one in walk(tmp_path, cleaned=cleaned) if one.state is State.MISSING]
    assert [(one.start, one.end) for one in missing] == [(2, 9)]


def test_the_end_of_the_log_is_not_known_behind_a_damaged_header(tmp_path: Path) -> None:
    segment(tmp_path / "a-0", 0, batch(0, 1), b"\xff" * 61, batch(4))
    found = [(one.start, one.end, one.state) for one in walk(tmp_path)]
    assert found == [(0, 2, State.WHOLE), (2, OFFSET_MAX, State.MISSING)]


def test_an_empty_last_segment_ends_the_log(tmp_path: Path) -> None:
    directory = tmp_path / "a-0"
    segment(directory, 0, batch(0, 1))
    segment(directory, 2)
    assert [(one.start, one.end) for one in walk(tmp_path)] == [(0, 2)]
