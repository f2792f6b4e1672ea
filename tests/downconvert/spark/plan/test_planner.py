"""Which offsets are read: as options and indexes say, and no more of the files than that needs."""

import random
import resource
from collections.abc import Callable
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import datasource as ds

from downconvert.spark.errors import MissingOffsetsError
from downconvert.spark.logs.segment_files import SegmentFile
from downconvert.spark.logs.splits import OPEN_COST, Split, pack
from downconvert.spark.options.options import Options
from downconvert.spark.plan.bounds import Bounds
from downconvert.spark.plan.planner import partitions, plan, start_of
from downconvert.storage.names import OFFSET_MAX, State
from tests.downconvert.spark.reading import packed, parsed, partition, reader, rows, splits
from tests.downconvert.storage.logs import batch, indexed_segment


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two segments: offsets 0 to 9, and 10 to 14; timestamps are ten times the offsets."""
    indexed_segment(tmp_path / "t-0", 0, batch(*range(5)), batch(*range(5, 10)))
    indexed_segment(tmp_path / "t-0", 10, batch(*range(10, 15)))
    return tmp_path


def offsets(path: Path, **options: object) -> list[int]:
    return [row["offset"] for row in rows(path, **options)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, range(15)),
        ({"startingOffsets": '{"t":{"0":7}}'}, range(7, 15)),
        ({"endingOffsets": '{"t":{"0":7}}'}, range(7)),
        ({"startingOffsets": '{"t":{"0":99}}'}, range(0)),
        ({"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":5}}'}, range(0)),
        ({"startingTimestamp": 31}, range(4, 15)),
        ({"startingTimestamp": 100, "endingTimestamp": 120}, range(10, 12)),
        ({"endingTimestamp": 9999}, range(15)),
        ({"endingTimestamp": 0}, range(0)),
        ({"startingTimestamp": 0}, range(15)),
        ({"endingOffsetsByTimestamp": '{"t":{"0":0}}'}, range(0)),
        ({"startingOffsetsByTimestamp": '{"t":{"0":41}}'}, range(5, 15)),
        ({"startingTimestamp": 91, "endingOffsets": '{"t":{"0":12}}'}, range(10, 12)),
        ({"endingTimestamp": 91, "startingOffsets": '{"t":{"0":8}}'}, range(8, 10)),
        ({"startingTimestamp": 9999}, range(0)),
        ({"endingTimestamp": 9999, "endingOffsets": '{"t":{"0":3}}'}, range(15)),
        ({"endingTimestamp": 60, "endingOffsets": '{"t":{"0":9}}'}, range(6)),
        ({"startingTimestamp": 9999, "startingOffsets": '{"t":{"0":3}}'}, range(0)),
        ({"startingTimestamp": 31, "startingOffsets": '{"t":{"0":9}}'}, range(4, 15)),
    ],
)
def test_offsets_and_timestamps(
    directory: Path, options: dict[str, object], expected: range
) -> None:
    assert offsets(directory, **options) == list(expected)


@pytest.mark.parametrize(
    "options",
    [{"startingTimestamp": 31}, {"isolation": "read_committed"}],
    ids=["time", "committed"],
)
def test_a_plan_copies_no_log_to_this_machine(tmp_path: Path, options: dict[str, object]) -> None:
    """A log in a store may be larger than the disk. Small files are copied: indexes, snapshots."""
    (tmp_path / "logs").mkdir()
    open_ = {"transactional": True, "producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    for base in (0, 20):
        first, late = range(base, base + 10), range(base + 10, base + 20)
        batches = [batch(*first, size=5000), batch(*late, size=5000, **(open_ if base else {}))]
        indexed_segment(tmp_path / "logs" / "t-0", base, *batches)
    path = packed(tmp_path / "logs")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        found = splits(path, **options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    start, end = min(one.first_offset for one in found), max(one.end_offset for one in found)
    assert (start, end) == ((4, OFFSET_MAX) if "startingTimestamp" in options else (0, 30))


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({"startingOffsets": "earliest"}, 2),
        ({"startingOffsets": '{"t":{"0":1}}'}, 2),
        ({"startingOffsets": '{"t":{"0":7}}'}, 7),
        ({"startingOffsets": '{"t":{"0":-1}}'}, 12),
        ({"startingOffsets": '{"t":{"0":14}}'}, 12),
        ({"startingOffsets": "latest"}, 12),
        ({"startingTimestamp": "0"}, 2),
        ({"startingTimestamp": "31"}, 4),
        ({"startingTimestamp": "140"}, 12),
        ({"startingTimestamp": "141"}, 12),
        ({"startingOffsetsByTimestamp": '{"t":{"0":31}}'}, 4),
    ],
)
def test_a_stream_begins_between_the_ends_of_a_log(
    directory: Path, options: dict[str, str], start: int
) -> None:
    """The log begins at offset 2, and is read up to offset 12, its high watermark."""
    (directory / "log-start-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    given = Options.parse({"path": str(directory)} | options, streaming=True)
    (log,) = partitions(given)
    assert start_of(log, 12, given) == start


def test_a_stream_may_insist_on_a_record_after_its_timestamp(directory: Path) -> None:
    given = {"path": str(directory), "startingOffsetsByTimestampStrategy": "error"}
    for time, is_there in (("140", True), ("141", False)):
        options = Options.parse(given | {"startingTimestamp": time}, streaming=True)
        (log,) = partitions(options)
        with nullcontext() if is_there else pytest.raises(ValueError, match="no record from"):
            assert start_of(log, 99, options) == 14


def test_each_copy_was_cleaned_as_far_as_its_own_broker_says(tmp_path: Path) -> None:
    for broker, cleaned in (("b1", 5), ("b2", 9)):
        partition(tmp_path / broker, batch(*range(12)), "t-0")
        (tmp_path / broker / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {cleaned}\n")
    for options, expected in (({}, (5, 9)), ({"compacted": "t*"}, (OFFSET_MAX, OFFSET_MAX))):
        (log,) = partitions(parsed(tmp_path, **options))
        found = {
            Path(file.directory).parent.name: file.cleaned
            for copy in (log, *log.others)
            for file in copy.segments
        }
        assert found == dict(zip(("b1", "b2"), expected, strict=True))


def test_segments_that_hold_nothing_of_it_are_not_read(directory: Path) -> None:
    (found,) = splits(directory, startingOffsets='{"t":{"0":10}}')
    assert found.segment.base_offset == 10


def test_segments_that_are_older_by_their_time_index_are_left_out(directory: Path) -> None:
    options = Options(paths=(str(directory),))
    for microseconds, bases in ((91_000, [10]), (90_000, [0, 10]), (10**9, [10])):
        tasks = plan(options, Bounds(time_min=microseconds))
        assert [split.segment.base_offset for task in tasks for split in task] == bases


def test_an_empty_segment_is_nothing_to_read(tmp_path: Path) -> None:
    partition(tmp_path, b"")
    assert plan(Options(paths=(str(tmp_path),)), Bounds()) == []


def test_a_query_without_an_existing_partition_is_an_error(directory: Path) -> None:
    assert offsets(directory, partitions="0-9") == list(range(15))
    for numbers, named in (("7", "partitions 7"), ("1-3", "partitions 1 to 3")):
        with pytest.raises(ValueError, match=f"^{named}: no such topic or partition"):
            offsets(directory, partitions=numbers)


def test_an_empty_segment_that_another_one_follows_is_missing(directory: Path) -> None:
    (directory / "t-0" / "00000000000000000000.log").write_bytes(b"")
    with pytest.raises(MissingOffsetsError, match="offsets 0 up to 10 are missing"):
        offsets(directory)
    assert offsets(directory, mode="DROPMALFORMED") == list(range(10, 15))


@pytest.mark.parametrize("value", [0, 4, 5, 9, 10, 11, 19, 20, 25])
@pytest.mark.parametrize(
    ("kind", "takes"),
    [
        (ds.EqualTo, lambda offset, value: offset == value),
        (ds.LessThan, lambda offset, value: offset < value),
        (ds.LessThanOrEqual, lambda offset, value: offset <= value),
        (ds.GreaterThan, lambda offset, value: offset > value),
        (ds.GreaterThanOrEqual, lambda offset, value: offset >= value),
    ],
)
def test_a_filter_of_offsets_leaves_out_no_record_that_it_takes(
    tmp_path: Path, kind: Any, takes: Callable[[int, int], bool], value: int
) -> None:
    """At the ends of batches and segments, too."""
    for base in (0, 10):
        batches = (batch(*range(at, at + 5)) for at in (base, base + 5))
        indexed_segment(tmp_path / "a-0", base, *batches)
    source = reader(tmp_path)
    source.pushFilters([kind(("offset",), value)])
    offsets = [
        offset
        for task in source.partitions()
        for found in source.read(task)
        for offset in found.column("offset").to_pylist()
    ]
    assert offsets == sorted(set(offsets))
    assert [one for one in offsets if takes(one, value)] == [
        one for one in range(20) if takes(one, value)
    ]


def test_one_task_reads_all_of_a_log_and_as_many_more_as_fit() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        size_max = chance.randrange(1, 6) * OPEN_COST
        wholes = [
            Split("t", number, SegmentFile("t", at, State.LIVE, size, OFFSET_MAX), 0, size, 0, 9)
            for number in range(chance.randrange(8))
            for at in range(chance.randrange(1, 4))
            for size in (chance.randrange(2 * OPEN_COST),)
        ]
        logs = [tuple(log) for _, log in groupby(wholes, key=lambda one: one.partition)]
        expected: list[tuple[Split, ...]] = []
        for log in logs:
            if not expected or cost(expected[-1] + log) > size_max:
                expected.append(())
            expected[-1] += log
        assert pack(wholes, size_max, whole_logs=True) == expected, seed


def cost(splits: tuple[Split, ...]) -> int:
    return sum(split.size + OPEN_COST for split in splits)


@pytest.mark.parametrize("level", ["offset", "group", "transaction"])
def test_a_state_table_has_one_task_for_all_of_a_partition(tmp_path: Path, level: str) -> None:
    """The size of tasks does not matter: a later record of a key replaces an earlier one."""
    topic = "__transaction_state" if level == "transaction" else "__consumer_offsets"
    for number in range(3):
        for base in (0, 5, 9):
            indexed_segment(tmp_path / f"{topic}-{number}", base, batch(base), batch(base + 1))
    tasks = plan(parsed(tmp_path, level=level, maxPartitionBytes=1), Bounds())
    found = [[(split.partition, split.segment.base_offset) for split in task] for task in tasks]
    assert found == [[(number, base) for base in (0, 5, 9)] for number in range(3)]
