"""Signs that a cleaner has removed offsets, in logs of each format and codec."""

from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.spark.errors import CorruptSegmentError, MissingOffsetsError
from downconvert.spark.logs.compacted import cleaned_until
from downconvert.spark.logs.segment_files import SegmentFile
from downconvert.storage.names import OFFSET_MAX, Kind, State, file_name
from records import Codec, MemoryRecords
from records.formats import V0, V1, V2
from tests.damage import damaged
from tests.downconvert.spark.reading import packed, rows
from tests.downconvert.storage.logs import batch, indexed_segment, segment

from .test_completeness import LEVELS, reasons

END = 50  # where the next segment begins


def shows_a_cleaner(*batches: bytes) -> bool:
    """Whether a segment of these batches is one that a cleaner has cleaned."""
    data = b"".join(batches)
    file = SegmentFile("absent/a-0", 0, State.LIVE, len(data), END)
    found = cleaned_until(file, 20, MemoryRecords(data))
    assert found in (20, END)
    return found == END


def test_a_gap_in_a_copy_says_nothing_of_offsets_that_a_later_leader_had() -> None:
    data = batch(0, 1) + batch(5, 6)
    file = SegmentFile("absent/a-0", 0, State.LIVE, len(data), END, valid_until=30)

    def found(file: SegmentFile, end: int) -> int:
        return cleaned_until(file, end, MemoryRecords(data))

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


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("cleaned", [0, 4, 8])
def test_a_cleaned_copy_that_ends_earlier_says_nothing_of_later_offsets(
    tmp_path: Path, cleaned: int, level: str
) -> None:
    """The leader's copy has a damaged batch there. A cleaner has gone beyond the other copy, whose
    end was not copied."""
    batches = [batch(at, at + 1, leader_epoch=0) for at in range(0, 10, 2)]
    for broker, own in (("b1", batches), ("b2", [batches[0], batches[2]])):
        (tmp_path / broker).mkdir()
        indexed_segment(tmp_path / broker / "a-0", 0, *own)
    checkpoint = tmp_path / "b2" / "cleaner-offset-checkpoint"
    checkpoint.write_text(f"0\n1\na 0 {cleaned}\n")
    damaged = bytearray(b"".join(batches))
    damaged[sum(map(len, batches[:3])) + 70] ^= 1
    (tmp_path / "b1" / "a-0" / file_name(0, Kind.LOG)).write_bytes(damaged)
    (reason,) = reasons(tmp_path, level=level)
    assert "offsets from 6 up to 8" in reason
    with pytest.raises(CorruptSegmentError):
        rows(tmp_path, level=level)


@pytest.mark.parametrize(
    ("field", "to"), [("records_count", 1), ("last_offset_delta", 1), ("last_offset_delta", 99)]
)
def test_a_damaged_header_shows_no_cleaner(field: str, to: int) -> None:
    dense = [batch(*range(at, at + 4)) for at in range(0, 12, 4)]
    bad = damaged(dense[1], field=field, to=to, crc="stale")
    assert not shows_a_cleaner(dense[0], bad, dense[2])
    assert shows_a_cleaner(dense[0], bad, dense[2], batch(20))
