"""Missing offsets are an error, or are named: they are never left out silently."""

from pathlib import Path

import pytest

from downconvert.spark.errors import CorruptSegmentError, DataLossError, MissingOffsetsError
from downconvert.spark.logs.completeness import State, Stretch, scan
from downconvert.spark.logs.places import Json
from downconvert.spark.logs.segment_files import SegmentFile
from downconvert.storage.names import OFFSET_MAX, Kind, file_name
from downconvert.storage.names import State as FileState
from tests.downconvert.spark.reading import rows
from tests.downconvert.spark.stream.test_follow import read, stream
from tests.downconvert.storage.logs import batch, indexed_segment, segment

BATCHES = [batch(*range(base, base + 10), leader_epoch=0) for base in range(0, 300, 10)]
LEVELS = ["record", "batch"]


def offsets(path: Path, **options: object) -> list[int]:
    return [row["offset"] for row in rows(path, **options) if row["offset"] is not None]


def reasons(path: Path, **options: object) -> list[str]:
    found = rows(path, mode="PERMISSIVE", **options)
    return [row["_corrupt"]["reason"] for row in found if row["_corrupt"] is not None]


def rolled(path: Path, keep: int, *, is_indexed: bool) -> Path:
    """Three segments of a hundred records, of the first of which only some bytes were copied."""
    directory = path / "a-0"
    make = indexed_segment if is_indexed else segment
    for base in (0, 100, 200):
        make(directory, base, *BATCHES[base // 10 : base // 10 + 10])
    log = directory / file_name(0, Kind.LOG)
    log.write_bytes(log.read_bytes()[:keep])
    return directory


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("torn", [0, 1, 17, 100])
def test_a_rolled_segment_that_was_not_copied_to_its_end_is_an_error(
    tmp_path: Path, torn: int, is_indexed: bool, level: str
) -> None:
    size = sum(map(len, BATCHES[:6]))
    rolled(tmp_path, size + torn, is_indexed=is_indexed)
    error = CorruptSegmentError if torn else MissingOffsetsError
    with pytest.raises(error, match=r"0\.log"):
        rows(tmp_path, level=level)
    (reason,) = reasons(tmp_path, level=level)
    assert "60 up to 100" in reason
    if level == "record":
        left = [*range(60), *range(100, 300)]
        assert offsets(tmp_path, mode="PERMISSIVE") == left
        assert offsets(tmp_path, mode="DROPMALFORMED") == left
        assert offsets(tmp_path, endingOffsets='{"a":{"0":60}}') == left[:60]
        assert offsets(tmp_path, startingOffsets='{"a":{"0":100}}') == left[60:]


@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_rolled_segment_that_was_not_copied_is_an_error(tmp_path: Path, is_indexed: bool) -> None:
    rolled(tmp_path, 0, is_indexed=is_indexed)
    with pytest.raises(MissingOffsetsError, match="a-0: offsets 0 up to 100 are missing"):
        rows(tmp_path)
    with pytest.warns(RuntimeWarning, match="offsets 0 up to 100 are missing"):
        assert offsets(tmp_path, failOnDataLoss=False) == list(range(100, 300))


def test_the_last_segment_ends_where_it_is_torn_or_preallocated(tmp_path: Path) -> None:
    for tail in (b"", BATCHES[3][:-1], BATCHES[3][:5], bytes(5), bytes(3_000_000)):
        segment(tmp_path / "a-0", 0, *BATCHES[:3], tail)
        assert offsets(tmp_path) == list(range(30))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("base", [0, 200])
def test_zeros_over_a_header_without_an_index_are_damage(
    tmp_path: Path, base: int, level: str
) -> None:
    directory = rolled(tmp_path, 1_000_000, is_indexed=False)
    log = directory / file_name(base, Kind.LOG)
    data = bytearray(log.read_bytes())
    at = sum(map(len, BATCHES[base // 10 : base // 10 + 4]))
    data[at : at + 61] = bytes(61)
    log.write_bytes(data)
    with pytest.raises(CorruptSegmentError, match=f"at byte {at}"):
        rows(tmp_path, level=level)
    (reason,) = reasons(tmp_path, level=level)
    assert ("from 40 up to 100" if base == 0 else "from 240 on") in reason


@pytest.mark.parametrize("epoch", [0, 1])
def test_another_copy_has_what_a_leader_wrote_up_to_the_next_leaders_first_record(
    tmp_path: Path, epoch: int
) -> None:
    """A copy with the records of epoch 0 up to offset 3, where epoch 1 begins."""
    for broker, bases in (("b1", [3]), ("b2", [0])):
        (tmp_path / broker).mkdir()
        for base in bases:
            data = batch(*range(base, base + 3), leader_epoch=1 if base else epoch)
            segment(tmp_path / broker / "a-0", base, data)
    segment(tmp_path / "b1" / "a-0", 0)
    (tmp_path / "b1" / "a-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 3\n")
    if epoch == 0:
        assert offsets(tmp_path) == list(range(6))
    else:  # of another leader than the log's
        with pytest.raises(MissingOffsetsError, match="offsets 0 up to 3"):
            offsets(tmp_path)


@pytest.mark.parametrize("level", LEVELS)
def test_offsets_that_a_cleaner_removed_are_not_missing(tmp_path: Path, level: str) -> None:
    directory = tmp_path / "a-0"
    segment(directory, 0, batch(0, 1), batch(2))
    segment(directory, 10, batch(10))
    with pytest.raises(MissingOffsetsError, match="offsets 3 up to 10"):
        rows(tmp_path, level=level)
    assert len(rows(tmp_path, level=level, compacted="a*")) > 1
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\na 0 10\n")
    assert offsets(tmp_path) == [0, 1, 2, 10]
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\na 0 9\n")
    with pytest.raises(MissingOffsetsError, match="offsets 9 up to 10"):
        rows(tmp_path, level=level)
    (tmp_path / "cleaner-offset-checkpoint").unlink()
    segment(directory, 0, batch(0, 2))  # offsets are missing inside, too
    assert offsets(tmp_path) == [0, 2, 10]


def test_an_index_that_leads_beyond_the_end_shows_that_a_cleaned_segment_is_not_whole(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "a-0"
    cleaned = [batch(0, 2), batch(5), batch(7, 8)]
    indexed_segment(directory, 0, *cleaned)
    segment(directory, 10, batch(10))
    assert offsets(tmp_path) == [0, 2, 5, 7, 8, 10]
    log = directory / file_name(0, Kind.LOG)
    log.write_bytes(b"".join(cleaned[:2]))
    with pytest.raises(MissingOffsetsError, match="offsets 6 up to 10"):
        rows(tmp_path)


# --- of a stream that ends when it has read all that is there


def available_now(path: Path, **options: object) -> list[str]:
    source = stream(path, **options)
    source.prepareForTriggerAvailableNow()
    start: Json = {"a": {"0": 0}}
    found: list[str] = []
    while (end := source.latestOffset(start)) != start:
        found += read(source, start, end)
        start = end
    return found


def test_available_now_reads_all_of_a_compacted_topic_that_was_copied_just_now(
    tmp_path: Path,
) -> None:
    for base in range(0, 100, 20):
        segment(tmp_path / "a-0", base, batch(base, base + 3), batch(base + 7))
    expected = [f"a-0:{base + at}" for base in range(0, 100, 20) for at in (0, 3, 7)]
    assert available_now(tmp_path) == expected


def test_available_now_fails_where_offsets_are_missing(tmp_path: Path) -> None:
    segment(tmp_path / "a-0", 0, *BATCHES[:3])
    segment(tmp_path / "a-0", 50, *BATCHES[5:7])
    with pytest.raises(DataLossError, match="a-0 has no records from offset 30 up to 50"):
        available_now(tmp_path)
    with pytest.raises(MissingOffsetsError, match="offsets 30 up to 50 are missing"):
        available_now(tmp_path, gapTimeoutMs=0)
    with pytest.warns(RuntimeWarning, match="30 up to 50"):
        found = available_now(tmp_path, failOnDataLoss=False)
    assert found == [f"a-0:{offset}" for offset in [*range(30), *range(50, 70)]]


def scanned(directory: Path, start: int, *batches: bytes) -> list[Stretch]:
    segment(directory, 0, *batches)
    size = sum(map(len, batches))
    file = SegmentFile(str(directory), 0, FileState.LIVE, size, OFFSET_MAX)
    return list(scan(file, start, OFFSET_MAX))


def test_the_checksum_of_a_batch_counts_for_its_last_offset_too(tmp_path: Path) -> None:
    damaged = bytearray(batch(0, 1, 2))
    damaged[-1] ^= 1
    found = scanned(tmp_path, 2, bytes(damaged), batch(3, 4))
    assert [(one.start, one.end, one.state) for one in found] == [
        (2, 3, State.DAMAGED),
        (3, 5, State.WHOLE),
    ]


def test_offsets_that_come_again_are_no_part_of_a_copy(tmp_path: Path) -> None:
    again = batch(2)
    found = scanned(tmp_path, 0, batch(0, 1, 2), again, batch(3, 4))
    size = len(batch(0, 1, 2))
    assert [(one.start, one.end, one.first, one.last) for one in found] == [
        (0, 3, 0, size),
        (3, 5, size + len(again), size + len(again) + len(batch(3, 4))),
    ]


def test_offsets_that_are_missing_after_a_cut_segment_are_reported_once(tmp_path: Path) -> None:
    indexed_segment(tmp_path / "a-0", 0, *BATCHES[:6])
    indexed_segment(tmp_path / "a-0", 100, *BATCHES[10:12])
    for size in (len(BATCHES[0]), 2 * len(BATCHES[0]), 10_000):
        (reason,) = reasons(tmp_path, maxPartitionBytes=size)
        assert "60 up to 100" in reason


@pytest.mark.parametrize("end", [1, 2, 3, 4, 6])
def test_the_gap_before_the_first_batch_of_an_epoch_is_a_cleaners_wherever_reading_ends(
    tmp_path: Path, end: int
) -> None:
    """The leader's copy of the segment is damaged. Another one has been cleaned."""
    last = batch(*range(3, 6), leader_epoch=1)
    for name, data in (("b1", b"\xff" * 200), ("b2", last)):
        directory = tmp_path / name / "a-0"
        directory.mkdir(parents=True)
        more = [batch(7, leader_epoch=1)] if name == "b1" else []  # so it is the leader's
        indexed_segment(directory, 6, batch(6, leader_epoch=1), *more)
        segment(directory, 0, data)
        (directory / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 3\n")
    found = rows(tmp_path, mode="PERMISSIVE", endingOffsets=f'{{"a": {{"0": {end}}}}}')
    assert [row["offset"] for row in found] == [3, 4, 5][: max(0, end - 3)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("start", [0, 40, 50])
def test_another_copy_goes_on_after_a_last_batch_with_a_wrong_offset(
    tmp_path: Path, start: int, level: str
) -> None:
    """The leader's epochs say that the log went further. The other copy's batch is damaged, too."""
    for broker in ("b1", "b2"):
        (tmp_path / broker).mkdir()
    misplaced = (20).to_bytes(8, "big") + BATCHES[4][8:]
    segment(tmp_path / "b1" / "a-0", 0, *BATCHES[:4], misplaced)
    (tmp_path / "b1" / "a-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 70\n")
    log = indexed_segment(tmp_path / "b2" / "a-0", 0, *BATCHES[:7]).path()
    log.write_bytes(b"".join([*BATCHES[:4], b"\xff" * 61 + BATCHES[4][61:], *BATCHES[5:7]]))
    options = {"mode": "PERMISSIVE", "startingOffsets": f'{{"a":{{"0":{start}}}}}'}
    found = rows(tmp_path, level=level, **options)
    named = [row["_corrupt"] for row in found if row["_corrupt"]]
    wanted = [(40, 50)] if start < 50 else []
    assert [(one["startOffset"], one["endOffset"]) for one in named] == wanted
    column, step = ("offset", 1) if level == "record" else ("baseOffset", 10)
    read = [row[column] for row in found if not row["_corrupt"]]
    assert read == [at for at in range(start, 70, step) if not 40 <= at < 50]
