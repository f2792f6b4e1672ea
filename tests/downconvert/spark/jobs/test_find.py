"""Records are found by key, with the file, byte and offset at which they are."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from downconvert.spark.errors import CorruptSegmentError
from downconvert.spark.jobs import find
from downconvert.spark.jobs.find import plan_of, search
from downconvert.spark.jobs.jobs import JobError, Json
from downconvert.spark.logs.splits import Split
from downconvert.spark.options.options import Options
from downconvert.spark.plan.bounds import Bounds
from downconvert.spark.plan.planner import plan
from downconvert.spark.read.rows import read_records
from downconvert.storage.names import Kind, file_name
from records import Codec, MemoryRecords, Record, build, read
from records.formats import V0, V1, V2
from tests.downconvert.spark.descriptors import open_below
from tests.downconvert.spark.in_process import SESSION
from tests.downconvert.spark.reading import packed
from tests.downconvert.storage.logs import indexed_segment

KEYS = (b"k3", b"\xff\x00")


def found(path: Path, *keys: bytes, topics: tuple[str, ...] = (), skip: bool = False) -> list[Json]:
    tasks = plan_of([str(path)], keys, topics=topics, skip_damaged=skip)
    return [row for task in tasks for row in search(task)]


def log(path: Path, *batches: bytes, base: int = 0, name: str = "orders-0") -> Path:
    file = path / name / file_name(base, Kind.LOG)
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"".join(batches))
    return file


def entry(first: int, count: int, magic: int, codec: Codec = Codec.NONE) -> bytes:
    """Keys k0 to k9 in turns, and a key that is not UTF-8 at every seventh offset."""
    records = [
        Record(
            n,
            1000 * n,
            key=KEYS[1] if n % 7 == 6 else b"k%d" % (n % 10),
            value=b"v" * n or None,
        )
        for n in range(first, first + count)
    ]
    return build(records, magic=magic, codec=codec)


@pytest.mark.parametrize("magic", [V0, V1, V2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_every_record_with_a_key_is_found_where_it_is(
    tmp_path: Path, magic: int, codec: Codec
) -> None:
    parts = [entry(first, 5, magic, codec) for first in range(0, 50, 5)]
    file = log(tmp_path, *parts)
    rows = found(tmp_path, *KEYS)
    expected = [n for n in range(50) if n % 7 == 6 or n % 10 == 3]
    assert [row["offset"] for row in rows] == expected
    data = file.read_bytes()
    for row in rows:
        assert (row["topic"], row["partition"], row["segment"]) == ("orders", 0, str(file))
        batch = data[row["position"] : row["position"] + row["sizeInBytes"]]
        (record,) = [r for r in read(MemoryRecords(batch)) if r.offset == row["offset"]]
        assert record.key == row["key"]
        assert len(record.value or b"") == row["valueSize"]


def test_values_are_read_only_where_a_key_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[set[str]] = []

    def reading(split: Split, options: Options, bounds: Bounds, schema: Any) -> Iterator[Any]:
        asked.append(set(schema.names))
        return read_records(split, options, bounds, schema)

    monkeypatch.setattr(find, "read_records", reading)
    log(tmp_path, entry(0, 50, V2))
    assert found(tmp_path, b"nobody") == []
    assert asked == [{"key", "offset"}]
    assert [row["offset"] for row in found(tmp_path, b"k9")] == [9, 19, 29, 39, 49]
    assert "value" in asked[-1]


def test_a_tombstone_has_no_size_of_a_value(tmp_path: Path) -> None:
    log(tmp_path, build([Record(0, 0, key=b"gone")], magic=V2))
    (row,) = found(tmp_path, b"gone")
    assert row["valueSize"] is None


def test_damage_fails_or_is_skipped(tmp_path: Path) -> None:
    parts = [entry(first, 5, V2) for first in range(0, 20, 5)]
    log(tmp_path, parts[0], parts[1][:-1] + b"?", *parts[2:])
    with pytest.raises(CorruptSegmentError, match="checksum does not match"):
        found(tmp_path, b"k3")
    rows = found(tmp_path, b"k3", b"k8", skip=True)
    assert [row["offset"] for row in rows] == [3, 18]
    assert rows[1]["position"] == sum(map(len, parts[:3]))


def test_an_absent_log_is_an_error(tmp_path: Path) -> None:
    log(tmp_path, entry(0, 5, V2))
    assert found(tmp_path, b"nobody") == []
    with pytest.raises(JobError, match="others: no such topic"):
        found(tmp_path, b"k3", topics=("others",))


def test_a_key_is_found_in_a_log_that_is_not_mounted(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log(tmp_path / "logs", *(entry(first, 5, V2) for first in range(0, 20, 5)))
    expected = [(row["offset"], row["position"]) for row in found(tmp_path / "logs", b"k8")]
    rows = found(packed(tmp_path / "logs"), b"k8")
    assert [(row["offset"], row["position"]) for row in rows] == expected
    assert len(rows) == 2


@pytest.mark.parametrize("is_packed", [False, True])
def test_positions_are_those_in_the_file_however_it_is_split(
    tmp_path: Path, is_packed: bool
) -> None:
    parts = [entry(first, 5, V2) for first in range(0, 50, 5)]
    indexed_segment(tmp_path / "orders-0", 0, *parts)
    path = packed(tmp_path / "orders-0") if is_packed else tmp_path
    (whole,) = plan_of([str(path)], [b"k7"], topics=(), skip_damaged=False)
    splits = plan(replace(whole.options, max_partition_bytes=300), Bounds())
    assert sum(map(len, splits)) > 3
    rows = [row for one in splits for row in search(replace(whole, splits=one))]
    assert rows == list(search(whole))
    places = [(row["offset"], row["position"], row["sizeInBytes"]) for row in rows]
    assert places == [
        (at, sum(map(len, parts[: at // 5])), len(parts[at // 5])) for at in (7, 17, 37, 47)
    ]


def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has `find.run` search in this process. Rows come in another order than that of the log."""

    def limited(_session: Any, tasks: Any, work: Any, _schema: Any) -> Any:
        def limit(count: int) -> Any:
            rows = [row for task in tasks for row in work(task)][:count]
            found = [SimpleNamespace(asDict=lambda row=row: row) for row in rows]
            return SimpleNamespace(collect=lambda: found[::-1])

        return SimpleNamespace(limit=limit, sparkSession=SESSION)

    monkeypatch.setattr(find, "run_tasks", limited)
    monkeypatch.setattr(find, "watched", lambda *_, **__: nullcontext())


def test_the_first_records_are_shown_and_whether_there_are_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(tmp_path, *(entry(first, 5, V2) for first in range(0, 50, 5)))
    without_spark(monkeypatch)
    for limit, is_all in ((3, False), (4, True), (5, True)):
        rows, found_all = find.run(find.find(SESSION, [str(tmp_path)], [b"k3"]), limit)
        assert ([row["offset"] for row in rows], found_all) == ([3, 23, 33, 43][:limit], is_all)


def test_a_run_searches_the_requested_topics_and_skips_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some topics, and of a damaged log what is left."""
    parts = [entry(first, 5, V2) for first in range(0, 20, 5)]
    log(tmp_path, parts[0], parts[1][:-1] + b"?", *parts[2:])
    log(tmp_path, *parts[:2], name="orders-1")
    log(tmp_path, *parts[:2], name="audit-3")
    without_spark(monkeypatch)

    def run(topics: tuple[str, ...], *, skip: bool = False) -> tuple[list[Json], bool]:
        keys = [b"k3", b"k8"]
        frame = find.find(SESSION, [str(tmp_path)], keys, topics=topics, skip_damaged=skip)
        return find.run(frame, 10)

    for topics, places in (
        ((), [("audit", 3, 3), ("audit", 3, 8)]),
        (("orders",), []),
        (("orders", "audit"), [("audit", 3, 3), ("audit", 3, 8)]),
    ):
        with pytest.raises(CorruptSegmentError):
            run(topics)
        rows, is_all = run(topics, skip=True)
        assert is_all
        assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [
            *places,
            *[("orders", 0, 3), ("orders", 0, 18), ("orders", 1, 3), ("orders", 1, 8)],
        ]
    rows, _ = run(("audit",))
    assert [(row["topic"], row["offset"]) for row in rows] == [("audit", 3), ("audit", 8)]


@pytest.mark.parametrize("time", [1_700_000_000_000_000, -(10**15)])  # in microseconds, by mistake
def test_a_timestamp_that_is_no_datetime_is_unknown(tmp_path: Path, time: int) -> None:
    records = [Record(0, 1000, key=b"k3"), Record(1, time, key=b"k3")]
    log(tmp_path, build(records, magic=V2))
    times = [row["timestamp"] for row in found(tmp_path, b"k3")]
    assert times == [datetime.fromtimestamp(1, UTC), None]


def test_a_record_of_another_copy_has_no_position_in_a_file_that_lacks_it(tmp_path: Path) -> None:
    """The offset of the second batch is wrong in one copy. A checksum does not cover it."""
    parts = [entry(first, 5, V2) for first in range(0, 15, 5)]
    wrong = (100).to_bytes(8, "big") + parts[1][8:]
    for broker, second in (("b1", wrong), ("b2", parts[1])):
        (tmp_path / broker).mkdir()
        log(tmp_path / broker, parts[0], second, parts[2])
    rows = found(tmp_path, b"k2", b"k7", b"k8")
    places = [(row["offset"], row["position"], row["sizeInBytes"]) for row in rows]
    last = len(parts[0]) + len(parts[1])
    assert places == [
        (2, 0, len(parts[0])),
        (7, None, None),
        (8, None, None),
        (12, last, len(parts[2])),
    ]


def test_no_file_is_open_when_a_search_has_ended_or_is_left(tmp_path: Path) -> None:
    log(tmp_path, *(entry(first, 5, V2) for first in range(0, 50, 5)))
    (task,) = plan_of([str(tmp_path)], [b"k3"], topics=(), skip_damaged=False)
    assert len(list(search(task))) == 4
    assert not open_below(tmp_path)
    rows = search(task)
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert not open_below(tmp_path)
