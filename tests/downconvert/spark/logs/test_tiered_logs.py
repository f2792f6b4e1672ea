"""Tiered storage and the segments that brokers still have are one log."""

import gzip
from contextlib import nullcontext
from pathlib import Path

import pytest

from downconvert.spark.errors import CorruptSegmentError, MissingOffsetsError
from downconvert.spark.logs.trees import find_partitions
from downconvert.storage.names import Kind, file_name
from records import RecordsError
from tests.downconvert.spark.reading import packed, partition, rows
from tests.downconvert.spark.stream.test_follow import read, stream
from tests.downconvert.spark.tiered import Packing, aiven, local_tiered
from tests.downconvert.storage.logs import batch, indexed_segment, segment


def offsets(path: Path, **options: object) -> list[int]:
    return [row["offset"] for row in rows(path, **options)]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Offsets 0 up to 6 in tiered storage, in segments of three."""
    for base in (0, 3):
        indexed_segment(tmp_path / "a-0", base, *(batch(at) for at in range(base, base + 3)))
        local_tiered(tmp_path / "logs" / "tier", tmp_path / "a-0", base)
    return tmp_path / "logs"


def test_records_that_a_request_deleted_are_not_read_from_tiered_storage(logs: Path) -> None:
    """The log start offset is in a segment that no broker has any more."""
    partition(logs / "b1", batch(6, 7), "a-0", 6)
    assert offsets(logs) == list(range(8))
    (logs / "b1" / "log-start-offset-checkpoint").write_text("0\n1\na 0 4\n")
    assert offsets(logs) == [4, 5, 6, 7]


@pytest.mark.parametrize("base", [0, 3, 6])
def test_an_empty_copy_adds_nothing_to_tiered_storage(logs: Path, base: int) -> None:
    partition(logs / "b1", b"", "a-0", base)
    assert offsets(logs) == list(range(6))


def test_an_empty_copy_hides_no_damage_at_the_end_of_tiered_storage(logs: Path) -> None:
    partition(logs / "b1", b"", "a-0")
    log = next((logs / "tier").rglob("*3-*.log"))
    data = log.read_bytes()
    log.write_bytes(data[: len(data) // 3] + b"noise" * 30)
    found = rows(logs, mode="PERMISSIVE")
    assert [row["offset"] for row in found if row["_corrupt"] is None] == list(range(4))
    (report,) = (row["_corrupt"] for row in found if row["_corrupt"] is not None)
    assert (report["startOffset"], report["endOffset"]) == (4, None)


@pytest.mark.parametrize("kind", ["empty", "preallocated", "gzipped"])
def test_the_high_watermark_of_an_empty_copy_does_not_end_tiered_storage(
    logs: Path, kind: str
) -> None:
    """Brokers copy only what is below the high watermark."""
    partition(logs / "b1", bytes(4096) if kind == "preallocated" else b"", "a-0")
    if kind == "gzipped":
        path = logs / "b1" / "a-0" / file_name(0, Kind.LOG)
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(b""))
        path.unlink()
    (logs / "b1" / "replication-offset-checkpoint").write_text("0\n1\na 0 0\n")
    assert offsets(logs, stopAtHighWatermark=True) == list(range(6))


@pytest.mark.parametrize(("base", "end"), [(3, 6), (6, 4)])
def test_the_high_watermark_of_a_copy_counts_from_where_tiered_storage_ends(
    logs: Path, base: int, end: int
) -> None:
    """Such a copy is empty because everything before has been moved away. It is not a new one."""
    partition(logs / "b1", b"", "a-0", base)
    (logs / "b1" / "replication-offset-checkpoint").write_text("0\n1\na 0 4\n")
    assert offsets(logs, stopAtHighWatermark=True) == list(range(end))


def test_offsets_missing_before_an_empty_segment_are_reported(logs: Path) -> None:
    partition(logs / "b1", b"", "a-0", 8)
    with pytest.raises(MissingOffsetsError, match="offsets 6 up to 8 are missing"):
        offsets(logs)


def test_tiered_storage_goes_on_where_all_brokers_end(logs: Path) -> None:
    """The copies of two lagging brokers, with an end in the midst of a segment."""
    for name, count in (("b1", 2), ("b2", 5)):
        (logs / name).mkdir()
        segment(logs / name / "a-0", 0, *(batch(at, size=12) for at in range(count)))
    assert offsets(logs) == list(range(6))


def test_a_stream_reads_tiered_storage_beside_an_empty_gzipped_copy(logs: Path) -> None:
    path = logs / "b1" / "a-0" / f"{file_name(0, Kind.LOG)}.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(b""))
    source = stream(logs)
    end = source.latestOffset({"a": {"0": 0}})
    assert read(source, {"a": {"0": 0}}, end) == [f"a-0:{at}" for at in range(6)]


def test_tiered_storage_goes_on_where_the_copies_of_an_epoch_end(logs: Path) -> None:
    """The leader's epochs say that the log went further than both copies."""
    for name, count in (("b1", 1), ("b2", 2)):
        data = b"".join(batch(at, leader_epoch=0) for at in range(count))
        partition(logs / name, data, "a-0")
    (logs / "b1" / "a-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 6\n")
    assert offsets(logs) == list(range(6))


def test_damage_at_the_end_of_the_last_copy_is_reported_though_tiered_storage_goes_on(
    logs: Path,
) -> None:
    """The copy may have gone further than both."""
    partition(logs / "b1", batch(0) + bytes(61) + b"noise", "a-0")
    found = rows(logs, mode="PERMISSIVE")
    assert [row["offset"] for row in found if row["_corrupt"] is None] == list(range(6))
    (report,) = (row["_corrupt"] for row in found if row["_corrupt"] is not None)
    assert (report["startOffset"], report["endOffset"]) == (6, None)
    with pytest.raises(CorruptSegmentError):
        offsets(logs)


@pytest.mark.parametrize("left", [None, 2, 5])
@pytest.mark.filterwarnings("ignore:.*not known whether it went")
@pytest.mark.parametrize("damaged", [(4,), (3,), (4, 5), (3, 4, 5)])
def test_damage_in_the_last_segment_of_tiered_storage_hides_nothing(
    logs: Path, left: int | None, damaged: tuple[int, ...]
) -> None:
    """Beside nothing, and beside a broker's copy that ends before it, or within it."""
    log = next((logs / "tier").rglob("*3-*.log"))
    data = bytearray(log.read_bytes())
    size = len(data) // 3
    for at in damaged:
        data[(at - 3) * size : (at - 2) * size] = b"\0" * 61 + b"noise".ljust(size - 61, b"!")
    log.write_bytes(data)
    if left is not None:
        partition(logs / "b1", b"".join(batch(at, size=12) for at in range(left)), "a-0")
    expected = [at for at in range(6) if at not in damaged or at < (left or 0)]
    hidden = left is not None and damaged[-1] == 5  # that there was more is not certain
    with (
        pytest.warns(RuntimeWarning, match="not known whether it went") if hidden else nullcontext()
    ):
        found = rows(logs, mode="PERMISSIVE")
    assert [row["offset"] for row in found if row["_corrupt"] is None] == expected
    lost = {at for at in damaged if at not in expected and (not hidden or at < expected[-1])}
    reports = [row["_corrupt"] for row in found if row["_corrupt"] is not None]
    named = {
        at
        for one in reports
        for at in range(6)
        if one["startOffset"] <= at and (one["endOffset"] is None or at < one["endOffset"])
    }
    assert lost <= named <= set(damaged)
    if lost:
        with pytest.raises(RecordsError):
            offsets(logs)
    else:
        assert offsets(logs) == expected


def test_damage_inside_tiered_storage_says_nothing_of_the_end_of_the_log(
    logs: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """A broker has the same segments."""
    log = next((logs / "tier").rglob("*0-*.log"))
    data = log.read_bytes()
    log.write_bytes(data[: len(data) // 3] + bytes(61) + b"noise")
    for base in (0, 3):
        partition(logs / "b1", b"".join(batch(at) for at in range(base, base + 3)), "a-0", base)
    assert offsets(logs) == list(range(6))
    assert [str(one.message) for one in recwarn] == []


def test_damage_at_the_end_of_tiered_storage_says_nothing_of_a_log_that_a_broker_goes_on_with(
    logs: Path, recwarn: pytest.WarningsRecorder
) -> None:
    log = next((logs / "tier").rglob("*3-*.log"))
    data = log.read_bytes()
    log.write_bytes(data[: len(data) // 3] + bytes(61) + b"noise")
    partition(logs / "b1", batch(6, 7), "a-0", 6)
    found = rows(logs, mode="PERMISSIVE")
    assert [row["offset"] for row in found if row["_corrupt"] is None] == [0, 1, 2, 3, 6, 7]
    (report,) = (row["_corrupt"] for row in found if row["_corrupt"] is not None)
    assert (report["startOffset"], report["endOffset"]) == (4, 6)
    assert [str(one.message) for one in recwarn] == []


@pytest.mark.parametrize("is_packed", [False, True])
def test_indexes_of_a_segment_in_tiered_storage_are_the_brokers(
    tmp_path: Path, is_packed: bool
) -> None:
    """All of them are in one object, which may be in a tar."""
    source = tmp_path / "a-0"
    indexed_segment(source, 0, *(batch(at) for at in range(5)))
    aiven(tmp_path / "tier", source, 0, 4, Packing(100))
    path = packed(tmp_path / "tier") if is_packed else tmp_path / "tier"
    (log,) = find_partitions([str(path)])
    for kind in (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX):
        blob = log.segments[0].blob(kind)
        assert blob is not None
        assert blob.read() == (source / file_name(0, kind)).read_bytes()


def test_segments_that_end_where_the_next_one_begins_are_whole(tmp_path: Path) -> None:
    for base in (0, 3):
        indexed_segment(tmp_path / "a-0", base, *(batch(at) for at in range(base, base + 3)))
        aiven(tmp_path / "tier", tmp_path / "a-0", base, base + 2, Packing(100))
    (log,) = find_partitions([str(tmp_path / "tier")])
    assert [(one.next_offset, one.is_clipped) for one in log.segments] == [(3, False), (6, False)]
