"""A stream waits for missing offsets for so long and no longer, and each partition has its turn."""

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.errors import DataLossError
from downconvert.spark.logs.places import Json
from downconvert.spark.stream import follow
from downconvert.storage.names import Kind, file_name
from tests.downconvert.spark.reading import packed, partition
from tests.downconvert.storage.logs import batch, indexed_segment

from .test_follow import Limit, read, stream

START = 1_700_000_000_000  # milliseconds
TIMEOUT = 60_000
HOUR = 3_600_000


class Clock:
    """A time of day that a test sets."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(follow, "now", clock)
    return clock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Offsets 0-9 and 20-29 in two segments that were copied just now."""
    for base in (0, 20):
        directory = partition(tmp_path, batch(*range(base, base + 10)), "a-0", base)
    for file in directory.iterdir():
        os.utime(file, ns=(START * 1_000_000,) * 2)
    return tmp_path


def reached(found: Json) -> int:
    place: Any = found["a"]["0"]
    return int(place["offset"] if isinstance(place, dict) else place)


def waiting(path: Path) -> tuple[Any, Json]:
    """A stream that waits behind offset 9, and where it is."""
    source = stream(path, topics="a", gapTimeoutMs=TIMEOUT)
    with pytest.warns(RuntimeWarning, match="no records from offset 10 up to 20 yet"):
        at = source.latestOffset({"a": {"0": 0}})
    assert reached(at) == 10
    return source, at


def test_a_wait_ends_after_its_time(path: Path, clock: Clock) -> None:
    source, at = waiting(path)
    clock.now += TIMEOUT - 1
    at = source.latestOffset(at)
    assert reached(at) == 10
    clock.now += 1
    with pytest.warns(RuntimeWarning, match="none came within 60 s, and reading goes on"):
        assert source.latestOffset(at) == {"a": {"0": 30}}  # and waits for nothing any more


def test_a_wait_ends_after_its_time_also_if_the_clock_was_set_back(
    path: Path, clock: Clock
) -> None:
    source, at = waiting(path)
    clock.now -= HOUR
    at = source.latestOffset(at)
    assert reached(at) == 10
    clock.now += TIMEOUT
    with pytest.warns(RuntimeWarning, match="reading goes on"):
        assert reached(source.latestOffset(at)) == 30


def test_a_wait_takes_its_whole_time_however_old_the_segments_are_by_then(
    path: Path, clock: Clock
) -> None:
    clock.now = START + TIMEOUT - 1  # the last moment at which the segments are new
    source, at = waiting(packed(path))
    for passed in (2, TIMEOUT - 3):
        clock.now += passed
        at = source.latestOffset(at)
        assert reached(at) == 10
    clock.now += 1
    with pytest.warns(RuntimeWarning, match="reading goes on"):
        assert reached(source.latestOffset(at)) == 30


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("age", [0, TIMEOUT - 1000, TIMEOUT + 1000])
def test_a_stream_that_ends_stops_at_a_new_gap_and_leaves_an_old_one_to_its_tasks(
    path: Path, clock: Clock, is_packed: bool, age: int
) -> None:
    logs = packed(path) if is_packed else path
    clock.now = age + (START if is_packed else time.time_ns() // 1_000_000)
    source = stream(logs, gapTimeoutMs=TIMEOUT, mode="DROPMALFORMED")
    source.prepareForTriggerAvailableNow()
    at = source.latestOffset({"a": {"0": 0}})
    if age > TIMEOUT:
        assert reached(at) == 30
    else:
        assert reached(at) == 10
        with pytest.raises(DataLossError, match="no records from offset 10 up to 20"):
            source.latestOffset(at)


def test_offsets_that_arrive_in_time_are_read(path: Path, clock: Clock) -> None:
    source, at = waiting(path)
    partition(path, batch(*range(10, 20)), "a-0", 10)
    clock.now += 1
    assert reached(source.latestOffset(at)) == 30


@pytest.mark.parametrize("limit", [Limit(max_rows=1), Limit(max_bytes=1)])
def test_under_a_limit_another_partition_comes_first_each_time(tmp_path: Path, limit: Any) -> None:
    for name in ("a-0", "b-0", "c-0"):
        partition(tmp_path, b"".join(batch(offset) for offset in range(10)), name)
    source = stream(tmp_path)
    at = source.initialOffset()
    read: list[str] = []
    for _ in range(6):
        end = source.latestOffset(at, limit)
        read += [topic for topic in "abc" if end[topic] != at[topic]]
        at = end
    assert sorted(read[:3]) == sorted(read[3:]) == ["a", "b", "c"]


def test_a_query_of_what_was_there_reads_the_partitions_that_are_left(tmp_path: Path) -> None:
    for name in ("a-0", "b-1"):
        partition(tmp_path, batch(0, 1, 2), name)
    source = stream(tmp_path, failOnDataLoss=False)
    start = source.initialOffset()
    source.prepareForTriggerAvailableNow()
    shutil.rmtree(tmp_path / "b-1")
    with pytest.warns(RuntimeWarning, match="b-1 is gone"):
        end = source.latestOffset(start)
    assert end["a"] == {"0": 3}
    assert read(source, start, end) == ["a-0:0", "a-0:1", "a-0:2"]


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_share_that_one_partition_does_not_need_goes_to_another(
    tmp_path: Path, is_packed: bool
) -> None:
    (tmp_path / "logs").mkdir()
    large = [batch(at, size=400) for at in range(12)]
    for name, batches in (("a-0", [batch(0)]), ("b-0", large)):
        indexed_segment(tmp_path / "logs" / name, 0, *batches)
    source = stream(packed(tmp_path / "logs") if is_packed else tmp_path / "logs")
    start: Json = {"a": {"0": 0}, "b": {"0": 0}}
    limit: Any = Limit(max_bytes=9 * len(large[0]) + 2 * len(batch(0)))
    end = source.latestOffset(start, limit)
    assert end["a"]["0"] == 1
    assert 8 <= end["b"]["0"] <= 9
    end = source.latestOffset(start, limit)  # the turn of the other one, which gets one half
    assert end["a"]["0"] == 1
    assert 3 <= end["b"]["0"] <= 5


def test_one_wait_is_for_all_gaps_that_are_there_when_it_begins(path: Path, clock: Clock) -> None:
    for base in (40, 60):
        partition(path, batch(*range(base, base + 10)), "a-0", base)
    source, at = waiting(path)
    clock.now += TIMEOUT
    with pytest.warns(RuntimeWarning, match="offset 10 up to 20, nor in 2 gaps after that: none"):
        assert reached(source.latestOffset(at)) == 70


def test_a_gap_behind_the_one_that_was_waited_for_has_its_own_wait(
    path: Path, clock: Clock
) -> None:
    source, at = waiting(path)
    partition(path, batch(*range(40, 50)), "a-0", 40)
    clock.now += TIMEOUT
    with pytest.warns(RuntimeWarning, match="no records from offset 30 up to 40 yet"):
        at = source.latestOffset(at)
    assert reached(at) == 30
    clock.now += TIMEOUT
    with pytest.warns(RuntimeWarning, match="up to 40: none came within 60 s"):
        assert reached(source.latestOffset(at)) == 50


def test_a_truncation_ends_the_wait_for_offsets_after_it(path: Path, clock: Clock) -> None:
    _, place = waiting(path)
    directory = path / "a-0"
    (directory / file_name(20, Kind.LOG)).unlink()
    partition(path, batch(*range(5)), "a-0")
    source = stream(path, topics="a", gapTimeoutMs=TIMEOUT, failOnDataLoss=False)
    with pytest.warns(RuntimeWarning, match="a-0 ends at 5, and was read up to 10"):
        place = source.latestOffset(place)
    assert place == {"a": {"0": 5}}
    partition(path, batch(*range(20, 30)), "a-0", 20)
    clock.now += TIMEOUT
    with pytest.warns(RuntimeWarning, match="no records from offset 5 up to 20 yet"):
        assert reached(source.latestOffset(place)) == 5
