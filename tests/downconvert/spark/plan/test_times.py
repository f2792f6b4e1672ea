"""Timestamps of options and of filters lead to the same records, whichever copy has them; and what
no copy has is reported, if it may be as young as what is asked for."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import datasource as ds

from downconvert.spark.errors import MissingOffsetsError
from downconvert.spark.read.reader import SegmentReader
from downconvert.storage.names import Kind, file_name
from records import Codec, ControlRecordType, build_marker
from records.formats import BATCH_HEADER_SIZE
from tests.damage import damaged
from tests.downconvert.spark.reading import packed, partition, reader, rows
from tests.downconvert.spark.stream.test_follow import stream
from tests.downconvert.storage.logs import batch, indexed_segment, segment

ALL = list(range(30))
SIZE = len(batch(*range(5)))


def copy_of(path: Path, *bases: int) -> Path:
    """A copy with the segments of ten offsets that begin at these; timestamps are ten times the
    offsets. Each segment has two batches."""
    path.mkdir(parents=True, exist_ok=True)
    for base in bases:
        indexed_segment(path / "a-0", base, *(batch(*range(at, at + 5)) for at in (base, base + 5)))
    return path / "a-0"


def change(log: Path, position: int, data: bytes | None = None) -> None:
    """Overwrites a log from a position on; without data it is cut there."""
    old = log.read_bytes()
    log.write_bytes(old[:position] + (data or b"") + (old[position + len(data) :] if data else b""))


def lacks_a_file(path: Path) -> None:
    copy_of(path / "b1", 0, 20)
    copy_of(path / "b2", 0, 10)


def is_cut(path: Path) -> None:
    directory = copy_of(path / "b1", 0, 10, 20)
    change(directory / file_name(10, Kind.LOG), 100)
    copy_of(path / "b2", 0, 10)


def has_a_damaged_header(path: Path) -> None:
    directory = copy_of(path / "b1", 0, 10, 20)
    change(directory / file_name(10, Kind.LOG), SIZE, bytes(BATCH_HEADER_SIZE))
    copy_of(path / "b2", 0, 10)


def begins_later(path: Path) -> None:
    copy_of(path / "b1", 20)
    copy_of(path / "b2", 0, 10)


def ends_earlier(path: Path) -> None:
    directory = copy_of(path / "b1", 0, 10, 20)
    text = "0\n1\n0 0\n"
    (directory / "leader-epoch-checkpoint").write_text(text)
    change(directory / file_name(20, Kind.LOG), SIZE, bytes(BATCH_HEADER_SIZE))
    (copy_of(path / "b2", 0, 10, 20) / "leader-epoch-checkpoint").write_text(text)


def has_a_damaged_last_batch(path: Path) -> None:
    """Its body is damaged, so its header leads to the log's end. The time index is damaged too."""
    directory = copy_of(path / "b1", 0, 10, 20)
    change(directory / file_name(20, Kind.LOG), 2 * SIZE - 3, b"???")
    (directory / file_name(20, Kind.TIME_INDEX)).write_bytes(b"noise")
    copy_of(path / "b2", 0, 10, 20)


def has_an_offset_that_is_too_high(path: Path) -> None:
    has_a_wrong_offset(path, 0, 1 << 40)


def has_an_offset_that_is_too_low(path: Path) -> None:
    has_a_wrong_offset(path, SIZE, 7)


def has_an_offset_beyond_the_next_segment(path: Path) -> None:
    has_a_wrong_offset(path, SIZE, 1 << 40)


def has_an_offset_that_is_too_high_in_the_last_segment(path: Path) -> None:
    has_a_wrong_offset(path, 0, 1 << 40, base=20)


def has_a_wrong_offset(path: Path, position: int, offset: int, base: int = 10) -> None:
    """Without indexes, so a search by time looks at all batches."""
    directory = copy_of(path / "b1", 0, 10, 20)
    change(directory / file_name(base, Kind.LOG), position, offset.to_bytes(8, "big"))
    for kind in (Kind.TIME_INDEX, Kind.OFFSET_INDEX):
        (directory / file_name(base, kind)).unlink()
    copy_of(path / "b2", 0, base)


SHAPES = [
    *(lacks_a_file, is_cut, has_a_damaged_header, begins_later, ends_earlier),
    *(has_a_damaged_last_batch, has_an_offset_that_is_too_high, has_an_offset_that_is_too_low),
    has_an_offset_beyond_the_next_segment,
    has_an_offset_that_is_too_high_in_the_last_segment,
]


def offsets(path: Path, **options: Any) -> list[int]:
    return [row["offset"] for row in rows(path, **options) if not row.get("_corrupt")]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_timestamp_leads_to_records_of_another_copy(tmp_path: Path, shape: Any) -> None:
    shape(tmp_path / "logs")
    for path in (tmp_path / "logs", packed(tmp_path / "logs")):
        assert offsets(path) == ALL
        for at in (0, 91, 101, 150, 200, 251, 291):
            after = [offset for offset in ALL if 10 * offset >= at]
            assert offsets(path, startingTimestamp=at) == after, at
            assert offsets(path, endingTimestamp=at) == [one for one in ALL if one not in after], at


@pytest.mark.parametrize("shape", SHAPES)
def test_a_filter_reads_records_of_another_copy(tmp_path: Path, shape: Any) -> None:
    shape(tmp_path)
    for at in (91, 170, 200):
        assert filtered(tmp_path, at) == [offset for offset in ALL if 10 * offset >= at], at


def test_absent_offsets_right_before_the_first_record_may_be_as_young(tmp_path: Path) -> None:
    copy_of(tmp_path, 0, 20)
    for at in (91, 120, 200):
        with pytest.raises(MissingOffsetsError, match="offsets 10 up to 20"):
            rows(tmp_path, startingTimestamp=at)
        found = rows(tmp_path, mode="PERMISSIVE", startingTimestamp=at)
        assert [row["offset"] for row in found] == [None, *range(20, 30)]
        assert (found[0]["_corrupt"]["startOffset"], found[0]["_corrupt"]["endOffset"]) == (10, 20)
        with pytest.raises(MissingOffsetsError, match="offsets 10 up to 20"):
            rows(tmp_path, endingTimestamp=at)
        with pytest.raises(MissingOffsetsError, match="offsets 10 up to 20"):
            filtered(tmp_path, at)
    assert offsets(tmp_path, startingTimestamp=201) == list(range(21, 30))
    assert offsets(tmp_path, endingTimestamp=90) == list(range(9))


def test_all_absent_offsets_before_the_first_record_may_be_as_young(tmp_path: Path) -> None:
    """The end of a segment, and all of the next one."""
    directory = copy_of(tmp_path, 0, 10, 20)
    change(directory / file_name(0, Kind.LOG), SIZE)
    change(directory / file_name(10, Kind.LOG), 0)
    found = rows(tmp_path, mode="PERMISSIVE", startingTimestamp=120)
    assert [row["_corrupt"]["startOffset"] for row in found if row["_corrupt"]] == [5, 10]
    assert [row["offset"] for row in found if not row["_corrupt"]] == list(range(20, 30))


def test_absent_offsets_that_no_cleaner_has_reached_may_be_as_young(
    tmp_path: Path,
) -> None:
    copy_of(tmp_path, 0, 20)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\na 0 15\n")
    with pytest.raises(MissingOffsetsError, match="offsets 15 up to 20"):
        rows(tmp_path, startingTimestamp=120)
    found = rows(tmp_path, mode="PERMISSIVE", startingTimestamp=120)
    assert [row["offset"] for row in found] == [None, *range(20, 30)]
    assert (found[0]["_corrupt"]["startOffset"], found[0]["_corrupt"]["endOffset"]) == (15, 20)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\na 0 20\n")
    assert offsets(tmp_path, startingTimestamp=120) == list(range(20, 30))


@pytest.mark.parametrize("is_clipped", [False, True])
@pytest.mark.parametrize(
    ("cleaned", "absent"),
    [(0, (10, 20)), (15, (15, 20)), (19, (19, 20)), (20, None), (25, None), (29, None)],
)
def test_absent_offsets_begin_after_those_that_a_cleaner_has_reached(
    tmp_path: Path, cleaned: int, absent: tuple[int, int] | None, is_clipped: bool
) -> None:
    """The offsets from 20 to 29 are in one copy, and those before in one, or in another."""
    copy_of(tmp_path / "b1", *((20, 40) if is_clipped else (0, 40)))
    copy_of(tmp_path / "b2", *((0,) if is_clipped else (20,)))
    for copy in ("b1", "b2"):
        (tmp_path / copy / "cleaner-offset-checkpoint").write_text(f"0\n1\na 0 {cleaned}\n")
    for path in (tmp_path, packed(tmp_path)):
        found = rows(path, mode="PERMISSIVE", startingTimestamp=120)
        told = [
            (row["_corrupt"]["startOffset"], row["_corrupt"]["endOffset"])
            for row in found
            if row["_corrupt"]
        ]
        assert told == [*([absent] if absent else []), (30, 40)]
        wanted = [*range(20, 30), *range(40, 50)]
        assert [row["offset"] for row in found if not row["_corrupt"]] == wanted
        assert offsets(path, mode="DROPMALFORMED", endingTimestamp=120) == list(range(10))
        start = stream(path, startingTimestamp=120).initialOffset()
        assert start == {"a": {"0": absent[0] if absent else 20}}
        later = offsets(path, mode="DROPMALFORMED", startingTimestamp=301)
        assert later == list(range(40, 50))


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    "changed", [b"\xff" * BATCH_HEADER_SIZE, bytes(BATCH_HEADER_SIZE)], ids=["changed", "zeros"]
)
def test_a_damaged_end_may_be_as_young(tmp_path: Path, changed: bytes, is_packed: bool) -> None:
    """Zeros up to the end would be room that is not written yet."""
    path = tmp_path / "logs"
    copy_of(path, 0)
    segment(path / "a-0", 10, *(batch(*range(at, at + 5)) for at in (10, 15, 20)))
    change(path / "a-0" / file_name(10, Kind.LOG), SIZE, changed)
    tmp_path = packed(path) if is_packed else path
    for at in (150, 240):
        found = rows(tmp_path, mode="PERMISSIVE", startingTimestamp=at)
        assert [row["_corrupt"]["startOffset"] for row in found] == [15]
    assert offsets(tmp_path, mode="DROPMALFORMED", startingTimestamp=120) == [12, 13, 14]


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("is_last", [False, True])
def test_a_batch_that_seems_to_be_cut_off_hides_no_younger_ones(
    tmp_path: Path, is_last: bool, is_packed: bool
) -> None:
    """Its size leads beyond the end of the segment. An index leads to the batch behind it."""
    path = tmp_path / "logs"
    copy_of(path, 0, *([] if is_last else [30]))
    indexed_segment(path / "a-0", 10, *(batch(*range(at, at + 5)) for at in (10, 15, 20, 25)))
    change(path / "a-0" / file_name(10, Kind.LOG), SIZE + 8, b"\x7f")
    place = packed(path) if is_packed else path
    for at in (150, 195, 240, 241):
        found = rows(place, mode="PERMISSIVE", startingTimestamp=at)
        told = [row["_corrupt"]["startOffset"] for row in found if row["_corrupt"]]
        assert told == ([15] if at < 200 else []), at
        read = [row["offset"] for row in found if not row["_corrupt"]]
        assert read == list(range(max(20, -(-at // 10)), 30 if is_last else 40)), at


def test_a_damaged_last_batch_may_be_as_young(tmp_path: Path) -> None:
    has_a_damaged_last_batch(tmp_path)
    for path in (tmp_path / "b1", packed(tmp_path / "b1")):
        found = rows(path, mode="PERMISSIVE", startingTimestamp=250)
        assert [row["_corrupt"]["startOffset"] for row in found] == [25]


def test_offsets_that_a_cleaner_removed_are_not_absent(tmp_path: Path) -> None:
    copy_of(tmp_path, 0, 20)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\na 0 20\n")
    assert offsets(tmp_path, startingTimestamp=120) == list(range(20, 30))
    assert filtered(tmp_path, 120) == list(range(20, 30))


@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_marker_is_not_the_first_record_of_its_time(tmp_path: Path, is_indexed: bool) -> None:
    """A transaction may end long after its records, and older records may follow."""
    written = batch(
        0, 1, timestamp=100, transactional=True, producer_id=7, producer_epoch=0, base_sequence=0
    )
    end = build_marker(
        ControlRecordType.COMMIT, offset=2, timestamp=500, producer_id=7, producer_epoch=0
    )
    made = indexed_segment if is_indexed else segment
    (tmp_path / "logs").mkdir()
    made(
        tmp_path / "logs" / "a-0", 0, written, end, batch(3, timestamp=110), batch(4, timestamp=600)
    )
    for path in (tmp_path / "logs", packed(tmp_path / "logs")):
        assert offsets(path, startingTimestamp=500) == [4]
        assert offsets(path, endingTimestamp=500) == [0, 1, 3]
        assert offsets(path, startingTimestamp=105) == [3, 4]


def test_a_deleted_record_is_not_the_first_of_its_time(tmp_path: Path) -> None:
    young, old = batch(0, timestamp=500), batch(1, 2, 3, timestamp=100)
    for copy in ("b1", "b2"):
        (tmp_path / copy / "a-0").mkdir(parents=True)
        indexed_segment(tmp_path / copy / "a-0", 0, young, old)
    for start in (1, 2):
        checkpoint = tmp_path / "b2" / "log-start-offset-checkpoint"
        checkpoint.write_text(f"0\n1\na 0 {start}\n")
        left = [1, 2, 3][start - 1 :]
        for place in (tmp_path, packed(tmp_path)):
            assert offsets(place, startingTimestamp=500) == []
            assert offsets(place, endingTimestamp=500) == left
            assert offsets(place, startingTimestamp=100) == left


def test_a_copy_that_notes_its_own_start_hides_no_earlier_record(tmp_path: Path) -> None:
    copy_of(tmp_path / "b1", 10, 20)
    (tmp_path / "b1" / "log-start-offset-checkpoint").write_text("0\n1\na 0 10\n")
    copy_of(tmp_path / "b2", 0, 10)
    assert offsets(tmp_path) == ALL
    assert offsets(tmp_path, startingTimestamp=50) == ALL[5:]
    assert offsets(tmp_path, endingTimestamp=50) == ALL[:5]


@pytest.mark.parametrize("start", [3, 4])
def test_a_header_with_too_few_offsets_hides_no_record_at_the_start_of_a_log(
    tmp_path: Path, start: int
) -> None:
    log = copy_of(tmp_path / "b1", 0, 10, 20) / file_name(0, Kind.LOG)
    short = damaged(batch(*range(5)), field="last_offset_delta", to=start - 1, crc="stale")
    change(log, 0, short)
    (tmp_path / "b1" / "log-start-offset-checkpoint").write_text(f"0\n1\na 0 {start}\n")
    copy_of(tmp_path / "b2", 0, 10)
    assert offsets(tmp_path) == ALL[start:]
    assert offsets(tmp_path, startingTimestamp=10 * start) == ALL[start:]
    assert offsets(tmp_path, endingTimestamp=10 * start) == []


def filtered(path: Path, at: int) -> list[int]:
    """The offsets that a query reads with a filter of timestamps from `at` on."""
    source: SegmentReader = reader(path)
    time = datetime.fromtimestamp(at / 1000, UTC)
    source.pushFilters([ds.GreaterThanOrEqual(("timestamp",), time)])
    return [
        offset
        for task in source.partitions()
        for found in source.read(task)
        for offset in found.column("offset").to_pylist()
    ]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_filter_takes_a_message_without_a_timestamp_for_one_before_1970(
    tmp_path: Path, codec: Codec
) -> None:
    data = batch(0, 1, magic=0, codec=codec) + batch(2, magic=1, codec=codec)
    partition(tmp_path, data, "a-0")
    assert filtered(tmp_path, -1) == [0, 1, 2]
    assert filtered(tmp_path, 0) == [2]
