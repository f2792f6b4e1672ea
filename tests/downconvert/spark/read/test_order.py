"""No checksum covers the offset in a batch's header. If it does not fit between those of the
neighbours, the batch is damaged: otherwise records would be left out, or have others' offsets."""

from pathlib import Path
from typing import Any, Final

import pytest

from downconvert.spark.errors import CorruptSegmentError, MissingOffsetsError
from downconvert.storage.names import Kind, file_name
from records import Codec, ControlRecordType, build_marker
from tests.damage import wrong
from tests.downconvert.spark.reading import packed, rows
from tests.downconvert.spark.stream.test_follow import read as follow
from tests.downconvert.spark.stream.test_follow import stream
from tests.downconvert.storage.logs import batch, indexed_segment, segment

BITS: Final = (0, 1, 2, 3, 5, 31, 62, 63)
FEW: Final = (0, 5, 62, 63)  # the next offset, among the neighbours, far above, and below zero
BATCHES: Final = 12  # of a segment
KINDS: Final[dict[str, dict[str, Any]]] = {
    "plain": {"records": 10, "magic": 2},
    "gzip": {"records": 10, "magic": 2, "codec": Codec.GZIP},
    "messages of v1": {"records": 1, "magic": 1},
}
PLACES: Final = (0, 1, 6, BATCHES - 2, BATCHES - 1)
BASE: Final = 1000


def written(directory: Path, kind: str) -> list[bytes]:
    """Two segments; returns the batches of the first."""
    options = dict(KINDS[kind])
    records = options.pop("records")

    def entries(base: int) -> list[bytes]:
        firsts = range(base, base + records * BATCHES, records)
        return [batch(*range(first, first + records), **options) for first in firsts]

    directory.mkdir(parents=True)
    following = BASE + records * BATCHES
    indexed_segment(directory, following, *entries(following))
    found = entries(BASE)
    indexed_segment(directory, BASE, *found)
    return found


def flip(directory: Path, found: list[bytes], number: int, bit: int) -> None:
    log = directory / file_name(BASE, Kind.LOG)
    log.write_bytes(b"".join([*found[:number], wrong(found[number], bit), *found[number + 1 :]]))


@pytest.mark.parametrize("level", ["record", "batch"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", PLACES)
def test_a_wrong_offset_is_reported_and_nothing_else_is_lost(
    tmp_path: Path, level: str, kind: str, number: int
) -> None:
    """Any bit of it may be wrong, and the segment may be cut anywhere."""
    directory = tmp_path / "orders-0"
    found = written(directory, kind)
    records = KINDS[kind]["records"]
    first = BASE + records * number
    column = "offset" if level == "record" else "baseOffset"
    right = [row[column] for row in rows(tmp_path, level=level)]
    left = [one for one in right if not first <= one < first + records]
    for bit in BITS if kind == "plain" else FEW:
        flip(directory, found, number, bit)
        for size in (len(found[0]), 2**20):
            with pytest.raises((CorruptSegmentError, MissingOffsetsError)):
                rows(tmp_path, level=level, maxPartitionBytes=size)
            reported = rows(tmp_path, level=level, mode="PERMISSIVE", maxPartitionBytes=size)
            reports = [row["_corrupt"] for row in reported if row["_corrupt"]]
            lost = [(one["startOffset"], one["endOffset"]) for one in reports]
            read = [row[column] for row in reported if not row["_corrupt"]]
            assert (lost, read) == ([(first, first + records)], left), (bit, size)


@pytest.mark.parametrize("level", ["record", "batch"])
@pytest.mark.parametrize("number", PLACES)
def test_another_copy_has_the_batch_with_a_wrong_offset(
    tmp_path: Path, level: str, number: int
) -> None:
    written(tmp_path / "broker-1" / "orders-0", "plain")
    right = rows(tmp_path, level=level)
    found = written(tmp_path / "broker-2" / "orders-0", "plain")
    for broker in ("broker-1", "broker-2"):
        for bit in BITS:
            flip(tmp_path / broker / "orders-0", found, number, bit)
            read = rows(tmp_path, level=level)
            assert [_of_log(row) for row in read] == [_of_log(row) for row in right]
        (tmp_path / broker / "orders-0" / file_name(BASE, Kind.LOG)).write_bytes(b"".join(found))


def _of_log(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("segment", "position")}


@pytest.mark.parametrize("number", PLACES)
def test_a_batch_with_a_wrong_offset_is_not_counted(tmp_path: Path, number: int) -> None:
    found = written(tmp_path / "orders-0", "plain")
    for bit in BITS:
        flip(tmp_path / "orders-0", found, number, bit)
        with pytest.raises((CorruptSegmentError, MissingOffsetsError)):
            rows(tmp_path, level="count")
        read = rows(tmp_path, level="count", mode="DROPMALFORMED")
        assert sum(row["records"] for row in read) == 2 * BATCHES * 10 - 10, bit


@pytest.mark.parametrize("level", ["record", "batch"])
def test_a_batch_after_a_gap_is_right_if_the_next_one_goes_back(tmp_path: Path, level: str) -> None:
    """A cleaner has removed the offsets in the gap."""
    entries = [batch(*range(first, first + 10)) for first in (0, 40, 50, 60)]
    entries[2] = bytes(7) + b"\3" + entries[2][8:]  # 3 in place of 50
    (tmp_path / "orders-0").mkdir()
    log = tmp_path / "orders-0" / file_name(0, Kind.LOG)
    log.write_bytes(b"".join(entries))
    found = rows(tmp_path, level=level, mode="PERMISSIVE")
    lost = [row["_corrupt"] for row in found if row["_corrupt"]]
    assert [(one["startOffset"], one["endOffset"]) for one in lost] == [(50, 60)]
    column = "offset" if level == "record" else "lastOffset"
    assert {row[column] for row in found if not row["_corrupt"]} >= {9, 49, 69}


def test_wrong_offsets_at_both_ends_of_a_segment_are_reported_however_it_is_split(
    tmp_path: Path,
) -> None:
    found = written(tmp_path / "logs" / "topic-0", "plain")
    ends = [wrong(found[0], 35), *found[1:-1], wrong(found[-1], 35)]
    (tmp_path / "logs" / "topic-0" / file_name(BASE, Kind.LOG)).write_bytes(b"".join(ends))
    place = packed(tmp_path / "logs")
    for size in (100, len(found[0]) * (BATCHES - 1), 1 << 20):
        reports = [
            row["_corrupt"] for row in rows(place, mode="PERMISSIVE", maxPartitionBytes=size)
        ]
        gaps = [(one["startOffset"], one["endOffset"]) for one in reports if one is not None]
        assert gaps == [(BASE, BASE + 10), (BASE + 110, BASE + 120)], size


def test_without_checksums_offsets_are_taken_as_they_are(tmp_path: Path) -> None:
    found = written(tmp_path / "orders-0", "plain")
    flip(tmp_path / "orders-0", found, 6, 3)
    assert len(rows(tmp_path, verifyCrc="false")) == 2 * BATCHES * 10


@pytest.mark.parametrize("level", ["record", "batch"])
@pytest.mark.parametrize("number", [1, 2])
def test_wrong_offsets_in_two_neighbouring_segments_are_both_reported(
    tmp_path: Path, level: str, number: int
) -> None:
    """The first one seems to go beyond the second one, and has none of its records."""
    for base in (0, 30):
        entries = [batch(*range(first, first + 10)) for first in range(base, base + 30, 10)]
        at = 1 if base else number
        entries[at] = wrong(entries[at], 40)
        segment(tmp_path / "orders-0", base, *entries)
    found = rows(tmp_path, level=level, mode="PERMISSIVE")
    lost = [row["_corrupt"] for row in found if row["_corrupt"]]
    first = 10 * number
    assert [(one["startOffset"], one["endOffset"]) for one in lost] == [
        (first, first + 10),
        (40, 50),
    ]


@pytest.mark.parametrize("level", ["record", "batch"])
@pytest.mark.parametrize("number", [1, 4])
def test_a_wrong_offset_in_another_copy_hides_nothing(
    tmp_path: Path, level: str, number: int
) -> None:
    damaged = [batch(*range(first, first + 10)) for first in range(0, 80, 10)]
    damaged[5] = damaged[5][:-1] + b"?"
    other = [*damaged[:number], wrong(damaged[number], 40), *damaged[number + 1 :]]
    for broker, entries in (("broker-1", damaged), ("broker-2", other)):
        (tmp_path / broker).mkdir()
        segment(tmp_path / broker / "orders-0", 0, *entries)
    found = rows(tmp_path, level=level, mode="PERMISSIVE")
    lost = [row["_corrupt"] for row in found if row["_corrupt"]]
    assert [(one["startOffset"], one["endOffset"]) for one in lost] == [(50, 60)]


@pytest.mark.parametrize("level", ["record", "batch"])
@pytest.mark.parametrize(("base", "low"), [(20, 38), (30, 44)])
def test_a_wrong_offset_does_not_fill_a_gap_in_the_next_segment(
    tmp_path: Path, level: str, base: int, low: int
) -> None:
    """It is `low` in place of 30, and the next segment lacks the offsets from 40 to 49."""
    entries = [batch(*range(first, first + 10)) for first in range(20, 60, 10)]
    entries[1] = entries[1][:7] + bytes([low]) + entries[1][8:]
    segment(tmp_path / "orders-0", base, *entries[(base - 20) // 10 : 2])
    segment(tmp_path / "orders-0", 40, entries[2][:-1] + b"?", entries[3])
    found = rows(tmp_path, level=level, mode="PERMISSIVE")
    lost = [row["_corrupt"] for row in found if row["_corrupt"]]
    assert [(one["startOffset"], one["endOffset"]) for one in lost] == [(30, 40), (40, 50)]
    column = "offset" if level == "record" else "lastOffset"
    assert {row[column] for row in found if not row["_corrupt"]} <= {*range(20, 30), *range(50, 60)}


@pytest.mark.parametrize("level", ["record", "batch"])
@pytest.mark.parametrize("cleaned", [0, 30])
def test_the_last_batch_of_a_copy_counts_after_a_gap_that_a_cleaner_has_made(
    tmp_path: Path, level: str, cleaned: int
) -> None:
    first, last = batch(*range(10)), batch(*range(30, 40))
    damaged = [first, batch(*range(10, 30)), last[:-1] + b"?", batch(*range(40, 50))]
    for broker, entries in (("broker-1", damaged), ("broker-2", [first, last])):
        (tmp_path / broker).mkdir()
        segment(tmp_path / broker / "orders-0", 0, *entries)
    checkpoint = tmp_path / "broker-2" / "cleaner-offset-checkpoint"
    checkpoint.write_text(f"0\n1\norders 0 {cleaned}\n")
    found = rows(tmp_path, level=level, mode="PERMISSIVE")
    lost = [row["_corrupt"] for row in found if row["_corrupt"]]
    assert [(one["startOffset"], one["endOffset"]) for one in lost] == [(30, 40)][cleaned:]


@pytest.mark.parametrize("number", [2, 3])
def test_a_batch_of_a_copy_counts_if_its_index_leads_there(tmp_path: Path, number: int) -> None:
    """Whether it is the last one, or the next one has an offset that is too low."""
    entries = [batch(*range(10)), batch(*range(10, 20)), batch(20), batch(21)]
    damaged = [*entries[:number], entries[number][:-1] + b"?", *entries[number + 1 :]]
    low = entries[3][:7] + bytes([15]) + entries[3][8:]
    copy = [*entries[:3], low] if number == 2 else entries
    for broker, written in (("broker-1", damaged), ("broker-2", copy)):
        directory = tmp_path / "logs" / broker / "orders-0"
        directory.parent.mkdir(parents=True)
        indexed_segment(directory, 0, *entries)
        (directory / file_name(0, Kind.LOG)).write_bytes(b"".join(written))
    for path in (tmp_path / "logs", packed(tmp_path / "logs")):
        found = rows(path, mode="PERMISSIVE")
        assert [row["offset"] for row in found] == list(range(22)), path


@pytest.mark.parametrize("make", [segment, indexed_segment])
@pytest.mark.parametrize("offset", [1, 1 << 40])
@pytest.mark.parametrize("end", [ControlRecordType.ABORT, None])
def test_a_wrong_offset_shows_no_record_of_a_transaction_as_committed(
    tmp_path: Path, make: Any, offset: int, end: ControlRecordType | None
) -> None:
    """It is that of the transaction's first batch."""
    of_one = {"producer_id": 1, "producer_epoch": 0, "transactional": True}
    entries = [batch(10, 11), batch(12, 13, **of_one), batch(14, 15, **of_one), batch(16)]
    if end is not None:
        entries.append(build_marker(end, offset=17, timestamp=0, producer_id=1, producer_epoch=0))
    entries.append(batch(18))
    make(tmp_path / "a-0", 10, *entries)
    entries[1] = offset.to_bytes(8, "big") + entries[1][8:]
    (tmp_path / "a-0" / file_name(10, Kind.LOG)).write_bytes(b"".join(entries))
    found = rows(tmp_path, isolation="read_committed", mode="PERMISSIVE")
    read = [row["offset"] for row in found if not row["_corrupt"]]
    assert read == ([10, 11] if end is None else [10, 11, 16, 18])
    options = {"isolation": "read_committed", "mode": "DROPMALFORMED", "failOnDataLoss": False}
    source = stream(tmp_path, startingOffsets="earliest", **options)
    streamed = follow(source, source.initialOffset(), source.latestOffset())
    assert streamed == [f"a-0:{at}" for at in read]
