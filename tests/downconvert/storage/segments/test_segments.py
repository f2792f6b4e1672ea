"""Segments are found by their offsets, and there is one of each."""

from pathlib import Path

import pytest

from downconvert.storage.disk.open_files import OpenFiles
from downconvert.storage.segments.segment import Segment
from downconvert.storage.segments.segments import Segments

BASES = (0, 10, 20, 30)


@pytest.fixture
def four(tmp_path: Path) -> list[Segment]:
    return [Segment(tmp_path, base, OpenFiles()) for base in BASES]


def test_segments_are_in_the_order_of_their_offsets(four: list[Segment]) -> None:
    segments = Segments(reversed(four))
    assert list(segments) == four
    assert [segments.after(one) for one in four] == [*four[1:], None]
    assert [segments.is_last(one) for one in four] == [False, False, False, True]


def test_an_offset_belongs_to_the_last_segment_that_begins_at_or_before_it(
    four: list[Segment],
) -> None:
    segments = Segments(four[1:])
    first = {offset: next(segments.starting_at(offset)) for offset in (0, 9, 10, 19, 20, 99)}
    _, one, two, three = four
    assert first == {0: one, 9: one, 10: one, 19: one, 20: two, 99: three}


def test_segments_from_an_offset_on_come_each_with_the_next(four: list[Segment]) -> None:
    zero, one, two, three = four
    segments = Segments(four)
    everything = [(zero, one), (one, two), (two, three), (three, None)]
    for offset, begins_at in ((0, 0), (9, 0), (10, 1), (29, 2), (30, 3), (99, 3)):
        assert list(segments.pairs_from(offset)) == everything[begins_at:]
    assert list(Segments(four[1:]).pairs_from(0)) == everything[1:]
    assert list(Segments().pairs_from(0)) == []


@pytest.mark.parametrize("again", range(len(BASES)))
def test_two_segments_with_one_base_offset_are_refused(four: list[Segment], again: int) -> None:
    segments = Segments(four)
    with pytest.raises(ValueError, match=f"already is a segment of offset {BASES[again]}"):
        segments.add(four[again])
    assert list(segments) == four


@pytest.mark.parametrize("number", range(len(BASES)))
def test_a_removed_segment_can_be_added_again(four: list[Segment], number: int) -> None:
    segments = Segments(four)
    segments.remove(four[number])
    assert four[number] not in segments
    assert list(segments) == [one for one in four if one is not four[number]]
    segments.add(four[number])
    assert list(segments) == four
    assert all(one in segments for one in four)


def test_another_segment_with_the_same_offset_is_not_contained(
    four: list[Segment], tmp_path: Path
) -> None:
    segments = Segments(four)
    assert Segment(tmp_path, BASES[2], OpenFiles()) not in segments
    assert "a segment" not in segments
