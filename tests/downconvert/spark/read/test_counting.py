"""Records are counted without reading them, and as many as are read."""

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import datasource as ds

from downconvert.spark.errors import CorruptSegmentError
from downconvert.spark.read import counting
from downconvert.storage.names import Kind, file_name
from records import Codec, ControlRecordType, build_marker
from tests.damage import damaged
from tests.downconvert.spark.reading import partition, reader, rows
from tests.downconvert.storage.logs import batch, indexed_segment

OPTIONS: list[dict[str, Any]] = [
    {},
    {"startingOffsets": '{"a":{"0":3}}', "endingOffsets": '{"a":{"0":8}}'},
    {"startingTimestamp": 40},
    {"maxPartitionBytes": 200},
    {"mode": "PERMISSIVE"},
    {"isolation": "read_committed"},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_as_many_as_are_read(tmp_path: Path, options: dict[str, Any]) -> None:
    indexed_segment(tmp_path / "a-0", 0, batch(0, 1, 2), batch(3, 4, 5, codec=Codec.ZSTD))
    indexed_segment(tmp_path / "a-0", 6, batch(6, 9), batch(10, magic=1), batch(11))
    counted = sum(row["records"] for row in rows(tmp_path, level="count", **options))
    assert counted == len(rows(tmp_path, **options))


@pytest.mark.parametrize(
    ("isolation", "expected"), [("read_uncommitted", 6), ("read_committed", 3)]
)
def test_markers_are_no_records_and_aborted_ones_count_only_if_they_are_read(
    tmp_path: Path, isolation: str, expected: int
) -> None:
    of_producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    abort, commit = ControlRecordType.ABORT, ControlRecordType.COMMIT
    data = (
        batch(0),
        batch(1, 2, 3, **of_producer),
        build_marker(abort, offset=4, timestamp=0, producer_id=7),
        batch(5, 6, **of_producer),
        build_marker(commit, offset=7, timestamp=0, producer_id=7),
    )
    indexed_segment(tmp_path / "a-0", 0, *data)
    for options in ({}, {"maxPartitionBytes": 200}, {"mode": "PERMISSIVE"}):
        given = {"isolation": isolation, **options}
        assert sum(row["records"] for row in rows(tmp_path, level="count", **given)) == expected
        assert len(rows(tmp_path, **given)) == expected


def test_as_many_as_are_read_if_offsets_do_not_rise(tmp_path: Path) -> None:
    """Headers that lead from batch to batch do not say that one comes again, or too late."""
    chance = random.Random(5)
    were_counted = 0
    for number in range(60):
        at, data = 0, b""
        for _ in range(chance.randrange(1, 6)):
            at = max(0, at + chance.choice((0, 0, 0, 0, 2, -1, -3)))
            count = chance.randrange(1, 4)
            data += batch(*range(at, at + count))
            at += count
        path = tmp_path / str(number)
        partition(path, data, "a-0")
        partition(path, batch(at + chance.choice((0, 1))), "a-0", at)
        for start in (0, 2):
            options = {"startingOffsets": f'{{"a":{{"0":{start}}}}}', "mode": "DROPMALFORMED"}
            counted = sum(row["records"] for row in rows(path, level="count", **options))
            assert counted == len(rows(path, **options))
            were_counted += counted
    assert were_counted > 100


@pytest.mark.parametrize("partition_filter", [[], [ds.EqualTo(("partition",), 0)]])
def test_headers_are_enough_for_v2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition_filter: list[ds.Filter]
) -> None:
    partition(tmp_path, batch(0, 1, 2) + batch(3, 4, codec=Codec.GZIP), "a-0")
    monkeypatch.delattr(counting, "read_records")
    source = reader(tmp_path, level="count")
    source.pushFilters(partition_filter)
    (task,) = source.partitions()
    (found,) = source.read(task)
    assert found.column("records").to_pylist() == [5]


def test_damage_ends_a_count(tmp_path: Path) -> None:
    partition(tmp_path, batch(0, 1)[:-1] + b"?", "a-0")
    with pytest.raises(CorruptSegmentError):
        rows(tmp_path, level="count")


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("wrong", [1 << 30, 2])
def test_a_wrong_offset_that_only_the_next_task_shows_is_not_counted(
    tmp_path: Path, number: int, wrong: int
) -> None:
    batches = [batch(at, at + 1) for at in range(0, 12, 2)]
    indexed_segment(tmp_path / "a-0", 0, *batches)
    log = tmp_path / "a-0" / file_name(0, Kind.LOG)
    base = 2 * number + wrong
    batches[number] = damaged(batches[number], field="base_offset", to=base, crc="stale")
    log.write_bytes(b"".join(batches))
    for size in (100, 1000):
        options: dict[str, Any] = {"mode": "DROPMALFORMED", "maxPartitionBytes": size}
        counted = sum(row["records"] for row in rows(tmp_path, level="count", **options))
        assert counted == len(rows(tmp_path, **options)) == 10
        with pytest.raises(CorruptSegmentError):
            rows(tmp_path, level="count", maxPartitionBytes=size)
