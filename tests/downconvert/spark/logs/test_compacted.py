"""What shows that a cleaner has removed offsets, in logs of each format and codec."""

from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.spark.errors import MissingOffsetsError
from downconvert.spark.logs.compacted import cleaned_until
from downconvert.spark.logs.segment_files import SegmentFile
from downconvert.storage.names import OFFSET_MAX, State
from records import Codec, MemoryRecords
from records.formats import V0, V1, V2
from tests.downconvert.spark.reading import packed, rows
from tests.downconvert.storage.logs import batch, segment

END = 50  # where the next segment begins


def shows_a_cleaner(*batches: bytes) -> bool:
    """Whether a segment of these batches is one that a cleaner has cleaned."""
    data = b"".join(batches)
    file = SegmentFile("absent/a-0", 0, State.LIVE, len(data), END)
    found = cleaned_until(file, 20, MemoryRecords(data).batches())
    assert found in (20, END)
    return found == END


def test_a_gap_in_a_copy_says_nothing_of_offsets_that_a_later_leader_had() -> None:
    data = batch(0, 1) + batch(5, 6)
    file = SegmentFile("absent/a-0", 0, State.LIVE, len(data), END, valid_until=30)

    def found(file: SegmentFile, end: int) -> int:
        return cleaned_until(file, end, MemoryRecords(data).batches())

    assert found(file, 20) == 30
    assert found(file, 35) == 35
    assert found(replace(file, cleaned=40), 20) == 30
    assert found(replace(file, cleaned=OFFSET_MAX), 20) == END  # the topic is known to be compacted


@pytest.mark.parametrize("before", [V0, V1, V2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("magic", [V0, V1, V2])
def test_a_gap_before_a_batch_that_says_where_it_begins_is_a_cleaners(
    magic: int, codec: Codec, before: int
) -> None:
    """A compressed message of v0 or v1 has only its last offset in its header."""
    first = batch(0, 1, magic=before, codec=Codec.SNAPPY)
    assert not shows_a_cleaner(first, batch(2, 3, magic=magic, codec=codec))
    late = batch(4, 5, magic=magic, codec=codec)
    assert shows_a_cleaner(first, late) is (magic == V2 or codec is Codec.NONE)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_offsets_missing_inside_a_batch_of_v2_are_a_cleaners(codec: Codec) -> None:
    for offsets, is_shown in (((0, 1, 2), False), ((0, 2), True), ((1, 2, 3), False)):
        assert shows_a_cleaner(batch(*offsets, codec=codec)) is is_shown


@pytest.mark.parametrize("magic", [V0, V1, V2])
def test_a_gap_is_seen_up_to_the_last_two_batches_and_none_is_seen_around_a_wrong_offset(
    magic: int,
) -> None:
    """The segment holds offsets up to 49."""
    dense = [batch(at, magic=magic) for at in range(4)]
    for at in range(1, 4):
        assert shows_a_cleaner(*dense[:at], *dense[at + 1 :]) is (at < 3)
    assert not shows_a_cleaner(*dense, batch(END, magic=magic))
    assert not shows_a_cleaner(*dense, batch(END + 5, magic=magic))
    assert shows_a_cleaner(*dense, batch(END - 1, magic=magic))
    assert not shows_a_cleaner(*dense[:2], batch(30, magic=magic), *dense[2:])
    assert not shows_a_cleaner(*dense[:3], dense[0], dense[3])


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    ("topic", "is_compacted"),
    [("__consumer_offsets", True), ("__transaction_state", True), ("__share_group_state", False)],
)
def test_gaps_between_segments_of_the_brokers_own_topics_are_a_cleaners(
    tmp_path: Path, topic: str, is_compacted: bool, is_packed: bool
) -> None:
    (tmp_path / "logs").mkdir()
    for base in (0, 10):
        segment(tmp_path / "logs" / f"{topic}-0", base, batch(base, base + 1))
    place = packed(tmp_path / "logs") if is_packed else tmp_path / "logs"
    if is_compacted:
        assert [row["offset"] for row in rows(place)] == [0, 1, 10, 11]
    else:
        with pytest.raises(MissingOffsetsError, match="offsets 2 up to 10 are missing"):
            rows(place)
