"""Notes of an export can be read again, and an incomplete one is not believed."""

import pytest

from downconvert.spark.jobs.export.export_manifest import (
    Exported,
    NoteError,
    is_replaced,
    merged,
    parse,
)
from downconvert.storage import TopicPartition
from downconvert.storage.names import OFFSET_MAX

NAME = TopicPartition("a-b", 10)


def exported(*ranges: tuple[int, int]) -> Exported:
    return Exported("read_uncommitted", ranges={NAME: list(ranges)})


def test_a_note_is_read_back_with_all_its_facts() -> None:
    note = exported((0, 5), (9, 12))
    note.cluster_id, note.topic_ids, note.files = "c", {"a-b": "id"}, {"topic=a-b/date=x/f"}
    assert parse(note.to_json().encode()) == note


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"version":1}', b"\xff", exported((0, 5)).to_json().encode()[:-9]]
)
def test_an_incomplete_note_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own, too
        parse(text)


def test_a_note_of_a_later_version_is_not_passed_over() -> None:
    with pytest.raises(NoteError, match="a later version"):
        parse(b'{"version":2}')


def test_ranges_are_joined_where_they_touch() -> None:
    note = exported((0, 5))
    for added in ((9, 12), (5, 7), (10, 11)):
        note.add(exported(added))
    assert note.ranges == {NAME: [(0, 7), (9, 12)]}
    assert [note.end_from(NAME, offset) for offset in (0, 6, 7, 9, 12)] == [7, 7, 7, 12, 12]
    assert note.end_of(NAME) == 12
    assert [note.start_after(NAME, offset) for offset in (0, 7, 9)] == [9, 9, OFFSET_MAX]
    assert note.end_of(TopicPartition("c", 0)) is None


def test_committed_records_that_are_there_are_not_all_records() -> None:
    name = TopicPartition("a", 1)
    committed = Exported("read_committed", ranges={name: [(0, 7)]})
    everything = Exported("read_uncommitted", ranges={name: [(20, 30)]})
    notes = [committed, None, everything]
    assert merged(notes, "read_uncommitted").ranges == {name: [(20, 30)]}
    assert merged(notes, "read_committed").ranges == {name: [(0, 7), (20, 30)]}


def test_epochs_are_kept_of_the_ends_of_ranges_only() -> None:
    note = exported((0, 5), (9, 12))
    note.add(Exported("read_uncommitted", epochs={NAME: {5: 1, 12: 3, 7: 2}}))
    assert note.epochs == {NAME: {5: 1, 12: 3}}
    copied = note.copy()
    note.add(exported((5, 8)))
    assert note.epochs == {NAME: {12: 3}}
    copied.remove(NAME, 10)
    assert (copied.ranges, copied.epochs) == ({NAME: [(0, 5), (9, 10)]}, {NAME: {5: 1}})
    copied.remove(NAME, 9)
    assert copied.ranges == {NAME: [(0, 5)]}
    copied.remove(NAME, 0)
    assert (copied.ranges, copied.epochs) == ({NAME: []}, {NAME: {}})


def test_facts_that_a_note_omits_stay_known() -> None:
    note = Exported("read_uncommitted", "cluster", {"a": "A"}, files={"one"})
    note.add(Exported("read_uncommitted", None, {"b": "B"}, files={"two"}))
    assert (note.cluster_id, note.topic_ids) == ("cluster", {"a": "A", "b": "B"})
    assert note.files == {"one", "two"}
    note.add(Exported("read_uncommitted", "other"))
    assert note.cluster_id == "other"


def test_a_note_replaces_those_of_its_isolation_and_what_is_not_whole() -> None:
    new = Exported("read_committed")
    assert is_replaced(None, new)
    assert is_replaced(Exported("read_committed"), new)
    assert not is_replaced(Exported("read_uncommitted"), new)


def test_ranges_within_others_and_empty_ones_change_nothing() -> None:
    note = exported((0, 9))
    note.add(exported((2, 4), (20, 20)))
    assert note.ranges == {NAME: [(0, 9)]}
    assert [note.end_from(NAME, offset) for offset in (0, 9)] == [9, 9]
    assert note.start_after(NAME, 0) == OFFSET_MAX
