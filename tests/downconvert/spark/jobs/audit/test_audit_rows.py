"""The figures in the rows of an audit, of logs in which no two of them are equal."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.jobs import gap_report
from downconvert.spark.jobs.audit import audit as auditing
from downconvert.spark.jobs.audit.audit import plan
from downconvert.spark.jobs.audit.audit_segment import DAMAGES_MAX, audit_segments
from downconvert.spark.jobs.audit.sample import STRETCH_SIZE
from downconvert.storage.indexes.transaction_index import ENTRY, VERSION
from records import Codec, ControlRecordType, Record, build, build_marker
from records.formats import V2
from tests.downconvert.spark.descriptors import open_below
from tests.downconvert.spark.in_process import SESSION, in_process
from tests.downconvert.spark.reading import packed
from tests.downconvert.storage.logs import batch, segment

Row = dict[str, Any]


def audited(path: Path) -> list[Row]:
    tasks = plan([str(path)], (), everything=True)
    return [row for task in tasks for row in audit_segments(task)]


def sent(*offsets: int, producer_id: int, **options: Any) -> bytes:
    """A transactional batch."""
    given: Any = {"producer_id": producer_id, "producer_epoch": 0, "transactional": True}
    return batch(*offsets, **given, **options)


def marker(offset: int, producer_id: int, kind: ControlRecordType) -> bytes:
    return build_marker(kind, offset=offset, timestamp=7, producer_id=producer_id)


ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


@pytest.mark.parametrize("is_packed", [False, True])
def test_offsets_in_two_segments_of_one_directory_count_once(
    tmp_path: Path, is_packed: bool
) -> None:
    segment(tmp_path / "a-0", 0, *(batch(n) for n in range(10)))
    segment(tmp_path / "a-0", 6, *(batch(n) for n in range(6, 12)))
    rows = audited(packed(tmp_path) if is_packed else tmp_path)
    assert [(row["segment"], row["records"], row["damages"]) for row in rows] == [
        (0, 6, []),
        (6, 6, []),
    ]
    assert [row["log_bytes"] for row in rows] == [6 * len(batch(0))] * 2


def test_times_are_the_lowest_and_highest_of_a_share_and_contents_are_keys_values_and_headers(
    tmp_path: Path,
) -> None:
    """Times go neither up nor down."""
    records = [
        Record(n, 500, key=b"k" * n, value=b"v" * 10, headers=(("long", b"x"), ("n", None)))
        for n in range(3)
    ]
    times = [batch(n, timestamp=time) for n, time in ((3, 200), (4, 900), (5, 300))]
    segment(tmp_path / "a-0", 0, build(records, magic=V2), *times)
    (row,) = audited(tmp_path)
    assert (row["oldest"], row["newest"]) == (200, 900)
    assert row["sampled_payload"] == (0 + 1 + 2) + 6 * 10 + 3 * (len("long") + 1 + len("n"))
    assert (row["sampled_records"], row["sampled_with_headers"]) == (6, 3)
    for cost in (row["v1"], row["v0"]):
        assert 0 < cost["buffers"] != cost["temporary"] > 0


def test_transactions_are_counted_in_their_shares(tmp_path: Path) -> None:
    """The first batch is in none. One of three transactions is aborted, with two batches."""
    parts = [
        batch(0, 1, codec=Codec.LZ4),
        sent(2, 3, 4, producer_id=7, codec=Codec.GZIP),
        sent(5, producer_id=8, codec=Codec.GZIP),
        sent(6, 7, 8, 9, producer_id=7, codec=Codec.GZIP),
        marker(10, 7, ABORT),
        marker(11, 8, COMMIT),
        sent(12, 13, producer_id=7),
        marker(14, 7, COMMIT),
    ]
    segment(tmp_path / "a-0", 0, *parts)
    rows = {row["codec"]: row for row in audited(tmp_path)}
    names = ("batches", "records", "transactional_batches", "aborted_batches", "aborted_records")
    assert [rows["gzip"][name] for name in names] == [3, 8, 3, 2, 7]
    assert [rows["none"][name] for name in names] == [4, 2, 1, 0, 0]
    assert [rows["lz4"][name] for name in names] == [1, 2, 0, 0, 0]
    assert (rows["none"]["control_batches"], rows["gzip"]["control_batches"]) == (3, 0)


def test_aborted_records_before_the_log_start_are_not_counted(tmp_path: Path) -> None:
    first, second = sent(0, 1, producer_id=7), sent(2, 3, 4, producer_id=7)
    segment(tmp_path / "a-0", 0, first, second, marker(5, 7, ABORT), batch(6))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\na 0 2\n")
    (row,) = audited(tmp_path)
    assert (row["aborted_batches"], row["aborted_records"], row["records"]) == (1, 3, 4)


def test_an_unreadable_index_of_transactions_is_damage(tmp_path: Path) -> None:
    parts = sent(0, 1, producer_id=7), marker(2, 7, ABORT)
    segment(tmp_path / "a-0", 0, *parts)
    segment(tmp_path / "a-0", 3, batch(3))
    entry = ENTRY.pack(VERSION + 1, 7, 0, 2, 3)
    (tmp_path / "a-0" / f"{0:020d}.txnindex").write_bytes(entry)
    first, second = audited(tmp_path)
    assert [f"{0:020d}.txnindex" in damage for damage in first["damages"]] == [True]
    assert (first["records"], second["damages"]) == (2, [])


def test_damage_in_the_last_segment_is_reported_once_and_only_there(tmp_path: Path) -> None:
    wrong = bytearray(batch(11))
    wrong[16] = 9  # its magic
    segment(tmp_path / "a-0", 0, batch(0), batch(1))
    segment(tmp_path / "a-0", 10, batch(10), bytes(wrong), batch(12), batch(13))
    first, last = audited(tmp_path)
    (damage,) = last["damages"]
    assert f"{10:020d}.log: unknown magic" in damage
    assert (first["damages"], first["batches"], last["batches"]) == ([], 2, 1)
    assert last["tail_bytes"] == sum(len(batch(n)) for n in (11, 12, 13))


def test_some_damages_of_a_segment_are_named_each_once(tmp_path: Path) -> None:
    broken = [batch(n)[:-1] + b"?" for n in range(DAMAGES_MAX + 2)]
    segment(tmp_path / "a-0", 0, *broken[:2])
    segment(tmp_path / "b-0", 0, *broken)
    few, many = (row["damages"] for row in audited(tmp_path))
    assert [len(set(few)), len(few)] == [2, 2]  # also where the sample is read
    assert [len(set(many)), len(many)] == [DAMAGES_MAX, DAMAGES_MAX]


def test_damage_in_a_tar_is_named_by_its_path_there(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    segment(tmp_path / "logs" / "a-0", 0, batch(0), batch(1)[:-1] + b"?")
    tar = packed(tmp_path / "logs")
    (task,) = plan([str(tar)], (), everything=True)
    (row,) = audit_segments(task)
    (damage,) = row["damages"]
    assert damage.startswith(f"{task.directory}/{0:020d}.log: ")
    assert str(tar) in damage


def test_records_that_are_read_from_another_copy_are_counted_there_only(tmp_path: Path) -> None:
    """An aborted transaction is among them."""
    lost = sent(6, 7, 8, producer_id=7)
    parts = [sent(0, 1, producer_id=8), marker(2, 8, COMMIT), batch(3, 4, 5)]
    for broker in ("b1", "b2"):
        (tmp_path / broker).mkdir()
    segment(tmp_path / "b1" / "a-0", 0, *parts, lost, marker(9, 7, ABORT))
    segment(tmp_path / "b2" / "a-0", 6, lost, marker(9, 7, ABORT), batch(10))
    first, second = audited(tmp_path)
    assert (first["records"], second["records"]) == (5, 4)
    assert (first["aborted_records"], second["aborted_records"]) == (0, 3)
    assert (first["log_bytes"], first["tail_bytes"]) == (sum(map(len, parts)), 0)
    assert (first["damages"], first["next_offset"]) == ([], 6)


def test_where_a_compressed_old_batch_begins_is_not_known(tmp_path: Path) -> None:
    segment(tmp_path / "a-0", 0, batch(3, 4, magic=1, codec=Codec.GZIP), batch(5, 6))
    segment(tmp_path / "b-0", 0, batch(3, 4), batch(5, 6, magic=1, codec=Codec.GZIP))
    starts = {(row["topic"], row["magic"]): row["first_offset"] for row in audited(tmp_path)}
    assert starts["a", 1] is None
    assert starts["b", 2] == 3


def test_a_task_has_one_segment_open_besides_the_last(tmp_path: Path) -> None:
    for base in range(6):
        segment(tmp_path / "a-0", base, batch(base))
    (task,) = plan([str(tmp_path)], (), everything=True)
    counts = [len(open_below(tmp_path)) for _ in audit_segments(task)]
    assert len(counts) == 6
    assert max(counts) <= 2
    assert not open_below(tmp_path)


def test_tasks_are_of_one_size_and_have_each_segment_that_has_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments below the log start are left out. A sample reads less, so its tasks have more."""
    size = len(batch(5))
    for base in range(5, 12):
        segment(tmp_path / "a-0", base, batch(base))
    segment(tmp_path / "b-1", 5, batch(5))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\na 0 7\n")
    monkeypatch.setattr(auditing, "TASK_SIZE", 3 * size)
    monkeypatch.setattr(auditing, "SAMPLED_SIZE", 2 * size)

    def planned(*, everything: bool) -> list[tuple[str, tuple[int, ...]]]:
        tasks = plan([str(tmp_path)], (), everything)
        return [(f"{task.topic}-{task.partition}", task.segments) for task in tasks]

    assert planned(everything=False) == [("a-0", (7, 8, 9)), ("a-0", (10, 11)), ("b-1", (5,))]
    assert planned(everything=True) == [
        *(("a-0", (7, 8)), ("a-0", (9, 10)), ("a-0", (11,))),
        ("b-1", (5,)),
    ]


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs tasks in this process, and does not add up their rows."""
    for module in (auditing, gap_report):
        monkeypatch.setattr(module, "run_tasks", in_process)
        monkeypatch.setattr(module, "watched", lambda *_, **__: nullcontext())
    monkeypatch.setattr(auditing, "added_up", lambda rows: rows)


@pytest.mark.usefixtures("without_spark")
def test_a_run_is_of_what_its_options_ask_for(tmp_path: Path) -> None:
    """The damaged batch is outside of the sample."""
    parts = [batch(n, size=STRETCH_SIZE // 2 + 100) for n in range(12)]
    parts[7] = parts[7][:-1] + b"?"
    segment(tmp_path / "a-0", 0, *parts)
    segment(tmp_path / "b-3", 0, batch(0, 1, 2))

    def found(**options: Any) -> list[tuple[str, int, int]]:
        rows: Any = auditing.run(auditing.audit(SESSION, [str(tmp_path)], **options))
        return [(row.topic, row.sampled_records, len(row.damages)) for row in rows]

    assert found() == [("a", 4, 1), ("b", 3, 0)]
    assert found(verify_crc=False) == [("a", 4, 0), ("b", 3, 0)]
    assert found(everything=True) == [("a", 11, 1), ("b", 3, 0)]
    assert found(topics=["b"], everything=True) == [("b", 3, 0)]


@pytest.mark.usefixtures("without_spark")
def test_offsets_in_no_copy_are_counted_by_headers_of_the_topics_that_are_asked_for(
    tmp_path: Path,
) -> None:
    for name, end in (("a-0", 2), ("a-1", 5), ("b-3", 7)):
        segment(tmp_path / name, 0, batch(*range(end))[:-1] + b"?")  # no header says so
        segment(tmp_path / name, 10, batch(10))
    assert auditing.absent(SESSION, [str(tmp_path)]) == {"a": 8 + 5, "b": 3}
    assert auditing.absent(SESSION, [str(tmp_path)], topics=["b"]) == {"b": 3}
