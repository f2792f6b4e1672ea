"""Damaged gzipped files: readable records are read, and the others are reported."""

import gzip
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from downconvert.spark.errors import CorruptSegmentError, DataLossError
from downconvert.spark.jobs.audit.audit import plan as plan_audit
from downconvert.spark.jobs.audit.audit_segment import audit_segments
from downconvert.spark.logs.places import Json
from downconvert.storage.names import Kind, file_name
from records.formats import V2
from tests.downconvert.storage.logs import batch, indexed_segment

from .reading import packed, rows
from .stream.test_follow import read, stream

LOG: Final = file_name(0, Kind.LOG)  # of the first of two segments
Damage = Callable[[bytes], bytes]


def cut_off(data: bytes) -> bytes:
    """The beginning, up to the middle of the 13th batch."""
    return data[: len(data) * 5 // 8]


def overwritten(data: bytes) -> bytes:
    """Other bytes in the 13th batch, which only checksums notice."""
    middle = len(data) * 5 // 8
    return data[:middle] + b"\xff" * 64 + data[middle + 64 :]


def emptied(_: bytes) -> bytes:
    return b""


def replaced(_: bytes) -> bytes:
    return b"no gzip"


DAMAGES: Final = (cut_off, overwritten, emptied, replaced)


def gzipped(path: Path, damage: Damage, name: str = LOG) -> Path:
    """Gzips all files of a-0, which has 40 batches in two segments, and damages one of them."""
    directory = path / "a-0"
    batches = [batch(at, size=2000) for at in range(40)]
    indexed_segment(directory, 0, *batches[:20])
    indexed_segment(directory, 20, *batches[20:])
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: " + "A" * 22 + "\n")
    (directory / file_name(0, Kind.TRANSACTION_INDEX)).write_bytes(b"")
    (directory / file_name(20, Kind.SNAPSHOT)).write_bytes(b"\0" * 10)
    for file in sorted(directory.iterdir()):
        data = gzip.compress(file.read_bytes(), 0)  # stored: the position of damage is known
        file.with_name(f"{file.name}.gz").write_bytes(damage(data) if file.name == name else data)
        file.unlink()
    return path


@pytest.mark.parametrize("level", ["record", "batch"])
@pytest.mark.parametrize(
    ("damage", "base", "absent"),
    [
        (cut_off, 0, [(12, 20)]),
        (cut_off, 20, [(32, 33), (33, None)]),
        (overwritten, 0, [(12, 13)]),
        (overwritten, 20, [(32, 33), (40, None)]),
        (emptied, 0, [(0, 20)]),
        (replaced, 0, [(0, 20)]),
        (replaced, 20, [(20, None)]),
    ],
)
def test_a_query_reads_up_to_the_damage_and_reports_the_rest(
    tmp_path: Path, damage: Damage, base: int, absent: list[tuple[int, int | None]], level: str
) -> None:
    place = gzipped(tmp_path, damage, file_name(base, Kind.LOG))
    column = "offset" if level == "record" else "baseOffset"
    found = rows(place, level=level, mode="PERMISSIVE")
    got = [row[column] for row in found if row["_corrupt"] is None]
    reports = [row["_corrupt"] for row in found if row["_corrupt"] is not None]
    assert joined([(one["startOffset"], one["endOffset"]) for one in reports]) == joined(absent)
    lost = {at for start, end in absent for at in range(start, 40 if end is None else end)}
    assert got == [at for at in range(40) if at not in lost]
    assert {one["state"] for one in reports} == {"damaged"}
    assert [row[column] for row in rows(place, level=level, mode="DROPMALFORMED")] == got
    with pytest.raises(CorruptSegmentError, match=r"gzip|checksum"):
        rows(place, level=level)


def joined(ranges: list[tuple[int, int | None]]) -> list[tuple[int, int | None]]:
    """Ranges in order. Adjacent ones are joined."""
    found: list[tuple[int, int | None]] = []
    for start, end in ranges:
        if found and found[-1][1] == start:
            start = found.pop()[0]
        found.append((start, end))
    return found


@pytest.mark.parametrize("damage", DAMAGES)
def test_offsets_behind_the_damage_are_read_from_another_copy(
    tmp_path: Path, damage: Damage
) -> None:
    for broker, one in (("b1", damage), ("b2", bytes)):
        (tmp_path / broker).mkdir()
        gzipped(tmp_path / broker, one)
    assert [row["offset"] for row in rows(tmp_path)] == list(range(40))


def test_a_stream_ends_before_a_segment_that_is_no_gzip_with_an_error(tmp_path: Path) -> None:
    source = stream(gzipped(tmp_path, replaced, file_name(20, Kind.LOG)))
    start: Json = {"a": {"0": 0}}
    source.prepareForTriggerAvailableNow()
    end = source.latestOffset(start)
    assert read(source, start, end) == [f"a-0:{at}" for at in range(20)]
    with pytest.raises(DataLossError, match="damaged after offset 20"):
        source.latestOffset(end)


@pytest.mark.parametrize("damage", [cut_off, overwritten])
def test_a_stream_fails_at_damage_within_a_segment(tmp_path: Path, damage: Damage) -> None:
    source = stream(gzipped(tmp_path, damage, file_name(20, Kind.LOG)))
    start: Json = {"a": {"0": 0}}
    source.prepareForTriggerAvailableNow()
    with pytest.raises(CorruptSegmentError, match=r"gzip|checksum"):
        read(source, start, source.latestOffset(start))


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    "name",
    [
        file_name(0, Kind.OFFSET_INDEX),
        file_name(0, Kind.TIME_INDEX),
        file_name(0, Kind.TRANSACTION_INDEX),
        file_name(20, Kind.SNAPSHOT),
        "leader-epoch-checkpoint",
        "partition.metadata",
    ],
)
def test_a_damaged_file_beside_the_logs_costs_no_record(
    tmp_path: Path, name: str, damage: Damage, is_packed: bool
) -> None:
    for broker, one in (("b1", damage), ("b2", bytes)):
        (tmp_path / "logs" / broker).mkdir(parents=True)
        gzipped(tmp_path / "logs" / broker, one, name)
    place = packed(tmp_path / "logs") if is_packed else tmp_path / "logs"
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        assert len(rows(place, isolation="read_committed", startingTimestamp=150)) == 25
    if not name.startswith("0"):
        assert any(f"/{name}: " in str(one.message) for one in notices)


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_audit_reports_a_damaged_segment_and_counts_the_other_one(
    tmp_path: Path, damage: Damage
) -> None:
    place = gzipped(tmp_path, damage)
    shares = [
        share for task in plan_audit([str(place)], (), False) for share in audit_segments(task)
    ]
    assert [(one["segment"], one["magic"], one["records"]) for one in shares] == [
        (0, None, 0),
        (20, V2, 20),
    ]
    (said,) = shares[0]["damages"]
    assert f"{LOG}.gz" in said
    assert "gzip" in said
