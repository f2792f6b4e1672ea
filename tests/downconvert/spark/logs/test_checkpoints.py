"""A damaged checkpoint counts as missing, and causes a warning, for each of its readers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.jobs import gap_report
from downconvert.spark.jobs.audit import audit
from downconvert.spark.jobs.audit.audit_segment import audit_segments
from downconvert.spark.logs.checkpoints import leader_epochs, noted_offsets
from downconvert.storage.names import (
    CLEANER_POINTS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    PARTITION_METADATA,
)
from tests.downconvert.spark.exporting import archived, exported
from tests.downconvert.spark.reading import packed, partition, rows
from tests.downconvert.spark.stream.test_follow import Limit, read, stream
from tests.downconvert.storage.logs import batch

OFFSETS = [0, 1, 2, 5, 6]
DAMAGES = [b"", b"\0" * 40, b"0\n2\na 0 3\n", b"9\n1\na 0 3\n", b"0\n1\na 0 -3\n", b"\xff" * 9]
OUT_OF_RANGE = b"0\n1\na 0 99999999999999999999\n"


def query(path: Path, **options: Any) -> list[int]:
    return [row["offset"] for row in rows(path, **options)]


def streamed(path: Path) -> list[int]:
    source = stream(path)
    start = source.initialOffset()
    source.prepareForTriggerAvailableNow()
    end: Any = source.latestOffset(start, Limit())  # type: ignore[arg-type]
    return [int(row.rpartition(":")[2]) for row in read(source, start, end)]


def an_export(path: Path) -> list[int]:
    target = path.parent / "lake"
    with pytest.MonkeyPatch.context() as patch:
        exported(patch, path, target)
    return [row[2] for row in archived(target)]


def audited(path: Path) -> list[int]:
    shares = [one for task in audit.plan([str(path)], (), False) for one in audit_segments(task)]
    assert not any(share["damages"] for share in shares)
    assert sum(share["records"] for share in shares) == len(OFFSETS)
    gaps = [row for task in gap_report.plan_of([str(path)]) for row in gap_report.look(task)]
    assert [(row["from"], row["to"]) for row in gaps] == []
    return OFFSETS


READERS = {
    "query": query,
    "query of committed records": lambda path: query(path, isolation="read_committed"),
    "query up to the high watermark": lambda path: query(path, stopAtHighWatermark=True),
    "stream": streamed,
    "export": an_export,
    "audit and gaps": audited,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("damage", [*DAMAGES, OUT_OF_RANGE])
@pytest.mark.parametrize("reads", READERS.values(), ids=READERS)
@pytest.mark.parametrize("is_packed", [False, True])
def test_records_are_read_without_a_damaged_checkpoint(
    tmp_path: Path, reads: Callable[[Path], list[int]], damage: bytes, is_packed: bool
) -> None:
    logs = tmp_path / "logs"
    directory = partition(logs, batch(0, 1, 2) + batch(5, 6), "a-0")
    for name in (HIGH_WATERMARKS, LOG_STARTS, CLEANER_POINTS):
        (logs / name).write_bytes(damage)
    for name in (LEADER_EPOCHS, PARTITION_METADATA):
        (directory / name).write_bytes(damage)
    assert reads(packed(logs) if is_packed else logs) == OFFSETS


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        (HIGH_WATERMARKS, READERS["query up to the high watermark"]),
        (HIGH_WATERMARKS, READERS["stream"]),
        (HIGH_WATERMARKS, READERS["export"]),
        (LOG_STARTS, READERS["query"]),
        (LOG_STARTS, READERS["audit and gaps"]),
        (CLEANER_POINTS, READERS["query"]),
    ],
)
@pytest.mark.parametrize("damage", [DAMAGES[1], DAMAGES[4]])
def test_a_damaged_checkpoint_gives_a_warning(
    tmp_path: Path, name: str, reads: Callable[[Path], list[int]], damage: bytes
) -> None:
    logs = tmp_path / "logs"
    partition(logs, batch(0, 1, 2) + batch(5, 6), "a-0")
    (logs / name).write_bytes(damage)
    with pytest.warns(RuntimeWarning, match=f"{name}: .*; this checkpoint counts as missing"):
        assert reads(logs) == OFFSETS


@pytest.mark.parametrize("text", ["-1 5", "3 -5", "3 9223372036854775808"])
def test_leader_epochs_out_of_range_count_as_missing(tmp_path: Path, text: str) -> None:
    (tmp_path / LEADER_EPOCHS).write_text(f"0\n2\n0 0\n{text}\n")
    with pytest.warns(RuntimeWarning, match=f"{LEADER_EPOCHS}: .*counts as missing"):
        assert leader_epochs(tmp_path) == []


def test_leader_epochs_come_in_their_order(tmp_path: Path) -> None:
    (tmp_path / LEADER_EPOCHS).write_text("0\n3\n3 7\n0 0\n2 5\n")
    assert [one.epoch for one in leader_epochs(tmp_path)] == [0, 2, 3]


@pytest.mark.parametrize("text", ["a 0 -3", "a 0 9223372036854775808", ""])
def test_offsets_out_of_range_count_as_missing(tmp_path: Path, text: str) -> None:
    path = tmp_path / LOG_STARTS
    path.write_text(f"0\n2\nb 0 3\n{text}\n" if text else "")
    with pytest.warns(RuntimeWarning, match=f"{LOG_STARTS}: .*counts as missing"):
        assert noted_offsets(path) is None
    assert noted_offsets(tmp_path / "none") is None
