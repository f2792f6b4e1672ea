"""Each gap of a log is a row: which offsets, in which state, and why."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.jobs import gap_report
from downconvert.spark.jobs.gap_report import absent_offsets, joined, look, plan_of, run
from downconvert.spark.jobs.jobs import JobError, Json
from downconvert.storage.names import Kind, file_name
from tests.downconvert.spark.in_process import SESSION, in_process
from tests.downconvert.spark.logs.test_completeness import BATCHES, rolled
from tests.downconvert.storage.logs import batch, segment


def found(path: Path, *, verify_crc: bool = True) -> list[Json]:
    tasks = plan_of([str(path)], verify_crc=verify_crc)
    return joined(row for task in tasks for row in look(task))


def states(path: Path, *, verify_crc: bool = True) -> list[tuple[str, int, int, str]]:
    rows = found(path, verify_crc=verify_crc)
    return [(f"{r['topic']}-{r['partition']}", r["from"], r["to"], r["state"]) for r in rows]


def test_a_whole_log_has_no_gap(tmp_path: Path) -> None:
    rolled(tmp_path, 1_000_000, is_indexed=False)
    assert found(tmp_path) == []


@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_segment_whose_copy_stopped_is_torn(tmp_path: Path, is_indexed: bool) -> None:
    size = sum(map(len, BATCHES[:6]))
    rolled(tmp_path, size + 17, is_indexed=is_indexed)
    assert states(tmp_path) == [("a-0", 60, 100, "torn")]
    (row,) = found(tmp_path)
    assert "00000000000000000000.log" in row["why"]
    assert absent_offsets([row]) == {"a": 40}


def test_an_index_tells_a_copy_that_stopped_after_a_batch_from_a_segment_that_is_missing(
    tmp_path: Path,
) -> None:
    directory = rolled(tmp_path, sum(map(len, BATCHES[:6])), is_indexed=True)
    assert states(tmp_path) == [("a-0", 60, 100, "torn")]
    for index in directory.glob("*index"):
        index.unlink()
    assert states(tmp_path) == [("a-0", 60, 100, "missing")]
    (directory / file_name(100, Kind.LOG)).unlink()
    assert states(tmp_path) == [("a-0", 60, 200, "missing")]


def test_damaged_neighbours_are_one_gap_and_others_are_not(tmp_path: Path) -> None:
    directory = rolled(tmp_path, 1_000_000, is_indexed=True)
    log = directory / file_name(100, Kind.LOG)
    data = bytearray(log.read_bytes())
    for number in (2, 3, 5):
        data[sum(map(len, BATCHES[10 : 10 + number])) + 70] ^= 1
    log.write_bytes(data)
    assert states(tmp_path) == [("a-0", 120, 140, "damaged"), ("a-0", 150, 160, "damaged")]
    assert states(tmp_path, verify_crc=False) == []
    assert absent_offsets(found(tmp_path)) == {"a": 30}


@pytest.mark.filterwarnings("ignore:copies of a-0 differ")
def test_records_that_a_later_leader_truncated_are_superseded_and_no_loss(tmp_path: Path) -> None:
    for broker, log, epochs in (
        ("b1", [batch(0, 1, leader_epoch=0), batch(2, 3, leader_epoch=0)], "1\n0 0\n"),
        ("b2", [batch(0, 1, leader_epoch=0), batch(2, leader_epoch=1)], "2\n0 0\n1 2\n"),
    ):
        (tmp_path / broker).mkdir()
        segment(tmp_path / broker / "a-0", 0, *log)
        (tmp_path / broker / "a-0" / "leader-epoch-checkpoint").write_text(f"0\n{epochs}")
    assert states(tmp_path) == [("a-0", 2, 4, "superseded")]
    (row,) = found(tmp_path)
    assert "b1/a-0 has them in leader epoch 0" in row["why"]
    assert absent_offsets([row]) == {}


@pytest.mark.filterwarnings("ignore:copies of a-0 differ")
def test_records_that_a_later_leader_may_have_truncated_are_missing(tmp_path: Path) -> None:
    """There is no checkpoint, and only one batch has the later epoch."""
    for broker, last in (("b1", batch(2, 3, leader_epoch=0)), ("b2", batch(2, leader_epoch=1))):
        (tmp_path / broker).mkdir()
        segment(tmp_path / broker / "a-0", 0, batch(0, 1, leader_epoch=0), last)
    assert states(tmp_path) == [("a-0", 3, 4, "missing")]


def test_gaps_of_a_path_without_partitions_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="no partitions there"):
        plan_of([str(tmp_path)])


def test_gaps_are_joined_within_a_partition_a_state_and_known_offsets() -> None:
    def gap(first: int | None, last: int | None, state: str, partition: int = 3) -> Json:
        place: Json = {"topic": "a", "partition": partition, "from": first, "to": last}
        return place | {"state": state, "why": f"{first} {state}"}

    rows = [
        *(gap(9, 12, "torn"), gap(5, 9, "torn"), gap(None, None, "damaged")),
        *(gap(12, 14, "damaged"), gap(12, 20, "superseded"), gap(5, 7, "superseded", 1)),
        *(gap(0, 5, "torn", 1), gap(20, None, "damaged"), gap(None, 7, "damaged", 1)),
    ]
    found = joined(rows)
    assert [(row["partition"], row["from"], row["to"], row["state"]) for row in found] == [
        (1, None, 7, "damaged"),
        (1, 0, 5, "torn"),
        (1, 5, 7, "superseded"),
        (3, None, None, "damaged"),
        (3, 5, 12, "torn"),
        (3, 12, 14, "damaged"),
        (3, 20, None, "damaged"),
        (3, 12, 20, "superseded"),
    ]
    assert found[4]["why"] == "5 torn"
    assert absent_offsets(found) == {"a": 5 + 7 + 2}
    assert len(joined([gap(None, None, "torn"), gap(None, 3, "torn")])) == 2
    assert len(joined([gap(0, 5, "torn", 1), gap(5, 9, "torn", 2)])) == 2
    assert len(joined([gap(0, 5, "torn", 1), gap(5, 9, "torn", 1) | {"topic": "b"}])) == 2


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Gaps of each kind, of no two sizes: two copies of three partitions of two topics. Both of the
    first topic have records that a later leader has truncated."""
    for broker, last, epochs in (("b1", (0, 0), "1\n0 0\n"), ("b2", (1, 1), "2\n0 0\n1 40\n")):
        (tmp_path / broker).mkdir()
        for number, count in ((0, 3), (4, 5)):
            old, lost = batch(*range(30), leader_epoch=0), batch(*range(40), leader_epoch=0)
            new = batch(*range(40, 40 + count - last[0]), leader_epoch=last[0])
            one = tmp_path / broker / f"a-{number}"
            segment(one, 0, lost if number else old)
            segment(one, 40, new)
            (one / "leader-epoch-checkpoint").write_text(f"0\n{epochs}")
    broken = bytearray(batch(0, 1, leader_epoch=0))
    broken[-2] ^= 1
    segment(tmp_path / "b2" / "b-2", 0, bytes(broken), batch(2, leader_epoch=0))
    segment(tmp_path / "b2" / "b-2", 9, batch(9, leader_epoch=0))
    return tmp_path


A0 = [("a", 0, 30, 40, "missing"), ("a", 0, 40, 43, "superseded")]
A4 = [("a", 4, 40, 45, "superseded")]
DAMAGED, ABSENT = ("b", 2, 0, 2, "damaged"), ("b", 2, 3, 9, "missing")


@pytest.mark.filterwarnings("ignore:copies of a-. differ")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [*A0, *A4, DAMAGED, ABSENT]),
        ({"topics": ["b"]}, [DAMAGED, ABSENT]),
        ({"topics": ["nothing", "?"], "verify_crc": False}, [*A0, *A4, ABSENT]),
        ({"compacted": ["b"]}, [*A0, *A4, DAMAGED]),
        ({"compacted": ["a"], "topics": ["a"]}, [A0[1], *A4]),
        ({"verify_crc": False, "compacted": ["b"]}, [*A0, *A4]),
    ],
)
def test_a_run_reports_what_its_options_ask_for(
    logs: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], expected: list[Any]
) -> None:
    """Rows of tasks come in any order."""

    def reverse(session: Any, tasks: Any, *given: Any) -> Any:
        return in_process(session, tasks[::-1], *given)

    monkeypatch.setattr(gap_report, "run_tasks", reverse)
    monkeypatch.setattr(gap_report, "watched", lambda *_, **__: nullcontext())
    paths = [str(logs / "b1"), str(logs / "b2")]
    rows = run(gap_report.gaps(SESSION, paths, **options))
    names = ("topic", "partition", "from", "to", "state")
    assert [tuple(row[name] for name in names) for row in rows] == expected
    for row in rows:
        directory = logs / ("b1" if row["state"] == "superseded" else "b2")
        assert str(directory / f"{row['topic']}-{row['partition']}") in row["why"]
