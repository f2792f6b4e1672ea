"""What notes of an export say, and that none is believed that is not whole."""

import pytest

from downconvert.spark.jobs.export.export_manifest import Exported, NoteError, merged, parse
from downconvert.storage import TopicPartition
from downconvert.storage.names import OFFSET_MAX

NAME = TopicPartition("a-b", 10)


def exported(*ranges: tuple[int, int]) -> Exported:
    return Exported("read_uncommitted", ranges={NAME: list(ranges)})


def test_a_note_says_what_it_was_told() -> None:
    note = exported((0, 5), (9, 12))
    note.cluster_id, note.topic_ids, note.files = "c", {"a-b": "id"}, {"topic=a-b/date=x/f"}
    assert parse(note.to_json().encode()) == note


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"version":1}', b"\xff", exported((0, 5)).to_json().encode()[:-9]]
)
def test_what_is_not_whole_is_none(text: bytes) -> None:
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
