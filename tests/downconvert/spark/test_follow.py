"""A stream of a growing directory: every record once, whatever happens to the files."""

import gzip
import shutil
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.errors import CorruptSegmentError, DataLossError, NotMountedError
from downconvert.spark.follow import LogFollower, now, shared_out
from downconvert.spark.followed_mounted import MountedLogs
from downconvert.spark.options import Options
from downconvert.spark.places import Json
from downconvert.spark.reader import Task
from downconvert.spark.schemas import schema_of
from downconvert.spark.stream import SegmentStreamReader
from downconvert.storage import TopicPartition
from downconvert.storage.names import Kind, file_name
from tests.downconvert.storage.logs import batch, indexed_segment

from .reading import partition

OPTIONS = {"path": "", "startingOffsets": "earliest"}


class Limit:
    """As Spark's ReadMaxRows and ReadMaxBytes."""

    def __init__(self, **limits: int) -> None:
        self.__dict__ |= limits


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    partition(tmp_path, batch(0, 1, 2), "a-0")
    partition(tmp_path, batch(5, 6), "b-1", 5)
    return tmp_path


def stream(path: Path | str, **options: Any) -> SegmentStreamReader:
    texts = {name: str(value) for name, value in options.items()}
    given = Options.parse(OPTIONS | {"path": str(path)} | texts, streaming=True)
    return SegmentStreamReader(given, schema_of(given))


def test_limits_are_refused_where_spark_would_ignore_them(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stream(directory, maxOffsetsPerTrigger=5)
    monkeypatch.setattr("downconvert.spark.stream.HAS_LIMITS", False)  # Spark 4.0 and 4.1
    assert stream(directory)
    for name in ("maxOffsetsPerTrigger", "maxBytesPerTrigger"):
        with pytest.raises(ValueError, match="leave maxOffsetsPerTrigger and maxBytesPerTrigger"):
            stream(directory, **{name: 5})


def read(source: SegmentStreamReader, start: Json, end: Json) -> list[str]:
    """What a micro-batch gives: `topic-partition:offset`."""
    return [
        f"{row['topic']}-{row['partition']}:{row['offset']}"
        for task in source.partitions(start, end)
        if isinstance(task, Task)
        for found in source.read(task)
        for row in found.to_pylist()
    ]


def append(directory: Path, data: bytes, base_offset: int = 0) -> None:
    with (directory / file_name(base_offset, Kind.LOG)).open("ab") as file:
        file.write(data)


def test_what_is_appended_rolled_and_new_is_read_once(directory: Path) -> None:
    source = stream(directory)
    start = source.initialOffset()
    assert start == {"a": {"0": 0}, "b": {"1": 5}}
    first = source.latestOffset(start)
    assert first == {"a": {"0": 3}, "b": {"1": 7}}
    assert read(source, start, first) == ["a-0:0", "a-0:1", "a-0:2", "b-1:5", "b-1:6"]
    assert source.latestOffset(first) == first
    append(directory / "a-0", batch(3))
    append(directory / "a-0", batch(4), 4)
    partition(directory, batch(0), "c-0")
    second = source.latestOffset(first)
    assert second == {"a": {"0": 5}, "b": {"1": 7}, "c": {"0": 1}}
    assert read(source, first, second) == ["a-0:3", "a-0:4", "c-0:0"]


def test_a_batch_that_is_not_whole_yet_waits(directory: Path) -> None:
    source = stream(directory)
    start = source.latestOffset(source.initialOffset())
    whole = batch(3, 4)
    append(directory / "a-0", whole[:50])
    assert source.latestOffset(start) == start
    append(directory / "a-0", whole[50:])
    end = source.latestOffset(start)
    assert read(source, start, end) == ["a-0:3", "a-0:4"]


def test_a_stream_begins_at_the_end_by_default(directory: Path) -> None:
    assert stream(directory, startingOffsets="latest").initialOffset() == {
        "a": {"0": 3},
        "b": {"1": 7},
    }
    assert stream(directory, startingTimestamp=10).initialOffset() == {"a": {"0": 1}, "b": {"1": 5}}
    given = stream(directory, startingOffsets='{"a":{"0":2},"b":{"1":99}}')
    assert given.initialOffset() == {"a": {"0": 2}, "b": {"1": 7}}


@pytest.mark.parametrize(
    "limit", [Limit(max_rows=1), Limit(max_rows=2), Limit(max_bytes=1), Limit(max_bytes=150)]
)
def test_limits_hold_and_everything_comes(tmp_path: Path, limit: Any) -> None:
    """Also batches that are larger than the limit."""
    for topic in ("a-0", "b-0", "c-0"):
        partition(tmp_path, b"".join(batch(3 * i, 3 * i + 1, 3 * i + 2) for i in range(4)), topic)
        partition(tmp_path, batch(12, 13, size=5000), topic, 12)
    source = stream(tmp_path)
    at = source.initialOffset()
    found: list[str] = []
    for _ in range(60):
        end = source.latestOffset(at, limit)
        rows = read(source, at, end)
        assert len(rows) <= getattr(limit, "max_rows", 14)
        found += rows
        if end == at:
            break
        at = end
    assert sorted(found) == sorted(f"{t}-0:{i}" for t in "abc" for i in range(14))


def test_segments_that_come_out_of_their_order_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out_of_order(tmp_path, str(tmp_path), lambda: None, monkeypatch)


def out_of_order(
    logs: Path, path: str, update: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `aws s3 sync` brings them: small and new ones first."""
    start, minute = now(), 60_000
    clock = [start]
    monkeypatch.setattr("downconvert.spark.follow.now", lambda: clock[0])

    def followed(place: Json, *, is_new: bool = False) -> tuple[Json, list[str]]:
        """After a restart, or in the same process."""
        nonlocal source
        update()
        source = stream(path, topics="c") if is_new else source
        after = source.latestOffset(place)
        assert source.latestOffset(after) == after  # so that an availableNow query ends
        return after, read(source, place, after)

    partition(logs, batch(0, 1, 2), "c-0")
    source = stream(path, topics="c")
    place, rows = followed({"c": {"0": 0}})
    assert (place, rows) == ({"c": {"0": 3}}, ["c-0:0", "c-0:1", "c-0:2"])
    # The broker has written 3 to 9; of three segments two are there.
    partition(logs, b"", "c-0", 9)
    waiting = {"offset": 3, "leaderEpoch": -1, "waitingSince": start, "waitingUpTo": 9}
    assert followed(place) == ({"c": {"0": waiting}}, [])
    partition(logs, batch(9), "c-0", 9)
    partition(logs, batch(5, 6), "c-0", 5)
    clock[0] += 9 * minute
    assert followed({"c": {"0": waiting}}, is_new=True) == ({"c": {"0": waiting}}, [])
    append(logs / "c-0", batch(3, 4))
    place, rows = followed({"c": {"0": waiting}})
    assert place == {"c": {"0": waiting | {"offset": 7}}}
    assert rows == [f"c-0:{offset}" for offset in range(3, 7)]
    # What is missing is not waited for for ever, also where each look is one of a new process.
    clock[0] += minute
    with pytest.warns(RuntimeWarning, match="c-0 has no records from offset 7 up to 9: none came"):
        place, rows = followed(place, is_new=True)
    assert (place, rows) == ({"c": {"0": 10}}, ["c-0:9"])
    # A gap that nothing is new at is how the log is: a cleaner's.
    partition(logs, batch(20), "c-0", 20)
    update()
    clock[0] = now() + 11 * minute
    assert followed(place, is_new=True) == ({"c": {"0": 21}}, ["c-0:20"])


def test_the_beginning_of_a_new_partition_is_waited_for(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [now()]
    monkeypatch.setattr("downconvert.spark.follow.now", lambda: clock[0])
    source = stream(directory)
    start = source.latestOffset(source.initialOffset())
    partition(directory, batch(5, 6), "c-0", 5)
    partition(directory, b"", "d-0", 7)
    for limit in (Limit(), Limit(max_rows=1), Limit(max_bytes=1)):
        waiting = source.latestOffset(start, limit)  # type: ignore[arg-type]
        assert {topic: waiting[topic]["0"]["offset"] for topic in "cd"} == {"c": 0, "d": 0}
        assert read(source, start, waiting) == []
    partition(directory, batch(0, 1, 2, 3, 4), "c-0")
    end = source.latestOffset(waiting)
    assert end == waiting | {"c": {"0": 7}}
    assert read(source, waiting, end) == [f"c-0:{offset}" for offset in range(7)]
    clock[0] += 600_000
    with pytest.warns(RuntimeWarning, match="d-0 has no records from offset 0 up to 7"):
        last = source.latestOffset(end)
    assert last == end | {"d": {"0": 7}}
    append(directory / "d-0", batch(7), 7)
    assert read(source, last, source.latestOffset(last)) == ["d-0:7"]


def test_one_wait_is_for_all_that_was_missing_when_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a compacted log with a cleaner at work all segments may be new, again and again."""
    clock = [now()]
    monkeypatch.setattr("downconvert.spark.follow.now", lambda: clock[0])
    for base in range(0, 100, 10):
        partition(tmp_path, batch(base, base + 1), "a-0", base)
    source = stream(tmp_path)
    waiting = source.latestOffset({"a": {"0": 0}})
    assert waiting["a"]["0"]["offset"] == 2
    clock[0] += 600_000
    monkeypatch.setattr("downconvert.spark.gaps._changed", lambda _: 1_000_000 * clock[0])
    found = read(source, {"a": {"0": 0}}, waiting)
    for _ in range(20):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            end = source.latestOffset(waiting, Limit(max_rows=15))  # type: ignore[arg-type]
        if end == waiting:
            break
        found += read(source, waiting, end)
        waiting = end
    assert found == [f"a-0:{base + at}" for base in range(0, 100, 10) for at in (0, 1)]
    assert waiting == {"a": {"0": 92}}


def test_before_spark_4_2_a_stream_waits_from_where_it_was_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which does not say to where it has read."""
    clock = [now()]
    monkeypatch.setattr("downconvert.spark.follow.now", lambda: clock[0])
    partition(tmp_path, batch(0, 1, 2), "a-0")
    source = stream(tmp_path)
    start = source.initialOffset()
    first = source.latestOffset()
    partition(tmp_path, batch(5, 6), "a-0", 5)
    waiting = source.latestOffset()
    assert (first, waiting["a"]["0"]["offset"]) == ({"a": {"0": 3}}, 3)
    append(tmp_path / "a-0", batch(3, 4))
    end = source.latestOffset()
    assert end == {"a": {"0": 7}}
    assert read(source, start, end) == [f"a-0:{offset}" for offset in range(7)]
    assert stream(tmp_path).latestOffset() == end


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("is_gzipped", [False, True])
def test_damage_does_not_hold_up_a_stream_with_a_limit(
    tmp_path: Path, is_indexed: bool, is_gzipped: bool
) -> None:
    batches = [batch(2 * i, 2 * i + 1, size=300) for i in range(30)]
    (tmp_path / "a-0").mkdir()
    indexed_segment(tmp_path / "a-0", 0, *batches, interval=4096)
    partition(tmp_path, batch(60, 61), "a-0", 60)
    log = tmp_path / "a-0" / file_name(0, Kind.LOG)
    data = bytearray(log.read_bytes())
    damage = 7 * len(batches[0])
    data[damage + 8 : damage + 12] = b"\xff\xff\xff\xf0"
    log.write_bytes(data)
    if not is_indexed:
        for index in (tmp_path / "a-0").glob("*index"):
            index.unlink()
    if is_gzipped:
        log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(data))
        log.unlink()
    with tarfile.open(tmp_path / "logs.tar", "w") as tar:
        tar.add(tmp_path / "a-0", "a-0")
    path = tmp_path / "logs.tar" if is_gzipped else tmp_path / "a-0"
    source = stream(path, mode="DROPMALFORMED", gapTimeoutMs=0)
    place, found = source.initialOffset(), list[str]()
    for _ in range(40):
        after = source.latestOffset(place, Limit(max_bytes=700))  # type: ignore[arg-type]
        if after == place:
            break
        found += read(source, place, after)
        place = after
    assert place == {"a": {"0": 62}}
    assert len(set(found)) == len(found)
    assert {f"a-0:{offset}" for offset in (*range(14), 60, 61)} <= set(found)
    assert ("a-0:59" in found) == (is_indexed and not is_gzipped)
    failing = stream(path)
    with pytest.raises(CorruptSegmentError, match="mode=PERMISSIVE"):
        read(failing, {"a": {"0": 12}}, {"a": {"0": 60}})


def test_everything_that_there_is_ignores_limits(directory: Path) -> None:
    source = stream(directory, maxOffsetsPerTrigger=1)
    limit = source.getDefaultReadLimit()
    assert limit == type(limit)(1)  # type: ignore[call-arg]
    assert source.latestOffset(source.initialOffset(), Limit()) == {"a": {"0": 3}, "b": {"1": 7}}  # type: ignore[arg-type]


def test_a_query_of_what_is_there_now_ends(directory: Path) -> None:
    source = stream(directory)
    start = source.initialOffset()
    source.prepareForTriggerAvailableNow()
    append(directory / "a-0", batch(3))
    partition(directory, batch(0), "c-0")
    end = source.latestOffset(start)
    assert end == {"a": {"0": 3}, "b": {"1": 7}}
    assert source.latestOffset(end) == end


def test_records_that_were_deleted_unread_fail_the_query_or_are_warned_of(directory: Path) -> None:
    append(directory / "a-0", batch(3), 3)
    (directory / "a-0" / file_name(0, Kind.LOG)).unlink()
    start = {"a": {"0": 1}, "b": {"1": 7}}
    with pytest.raises(DataLossError, match="a-0 begins at 3; offsets from 1 on were deleted"):
        stream(directory).latestOffset(start)
    source = stream(directory, failOnDataLoss=False)
    with pytest.warns(RuntimeWarning, match="a-0 begins at 3"):
        end = source.latestOffset(start)
    with pytest.warns(RuntimeWarning, match="a-0 begins at 3"):
        assert read(source, start, end) == ["a-0:3"]


def test_a_partition_that_is_gone_fails_a_micro_batch_that_was_to_read_it(directory: Path) -> None:
    source = stream(directory)
    start = source.initialOffset()
    end = source.latestOffset(start)
    shutil.rmtree(directory / "b-1")
    with pytest.raises(DataLossError, match="b-1 is gone; it was read up to offset 5"):
        source.partitions(start, end)
    with pytest.raises(DataLossError, match="b-1 is gone; it was read up to offset 7"):
        source.latestOffset(end)
    forgiving = stream(directory, failOnDataLoss=False)
    with pytest.warns(RuntimeWarning, match="b-1 is gone"):
        assert read(forgiving, start, end) == ["a-0:0", "a-0:1", "a-0:2"]
    with pytest.warns(RuntimeWarning, match="b-1 is gone"):
        assert forgiving.latestOffset(end) == end
    assert stream(directory, topics="a").latestOffset(end) == end  # not asked for any more


def test_a_segment_that_is_gone_or_cleaned_when_a_task_comes_to_it(directory: Path) -> None:
    source, forgiving = stream(directory), stream(directory, failOnDataLoss=False)
    start = source.initialOffset()
    task = source.partitions(start, source.latestOffset(start))[0]
    log = directory / "a-0" / file_name(0, Kind.LOG)
    for change, words in (
        (lambda: log.write_bytes(batch(2)), "was cleaned or truncated after"),
        (log.unlink, "was deleted after the query was planned"),
    ):
        change()
        with pytest.raises(DataLossError, match=words):
            list(source.read(task))
        with pytest.warns(RuntimeWarning, match=words):
            rows = [b.num_rows for b in forgiving.read(task)]
        assert sum(rows) == 2  # those of the other partition


def test_a_directory_that_is_not_here_is_an_error_whatever_is_said_of_loss(
    directory: Path,
) -> None:
    source = stream(directory, failOnDataLoss=False)
    start = source.initialOffset()
    task = source.partitions(start, source.latestOffset(start))[0]
    (directory / "a-0").rename(directory / "elsewhere")
    with pytest.raises(NotMountedError, match=r"a-0 is not on .*: mount it there"):
        list(source.read(task))


def noted(directory: Path, **offsets: int) -> None:
    lines = "".join(f"{topic} 0 {offset}\n" for topic, offset in offsets.items())
    text = f"0\n{len(offsets)}\n{lines}"
    (directory / "replication-offset-checkpoint").write_text(text)


def test_records_wait_until_they_are_below_the_high_watermark(tmp_path: Path) -> None:
    partition(tmp_path, batch(*range(5), leader_epoch=0), "a-0")
    append(tmp_path / "a-0", batch(*range(5, 10), leader_epoch=0))
    noted(tmp_path, a=5)
    assert stream(tmp_path, startingOffsets="latest").initialOffset() == at(5, 0)
    source = stream(tmp_path)
    start = source.initialOffset()
    first = source.latestOffset(start)
    assert first == at(5, 0)
    assert read(source, start, first) == [f"a-0:{offset}" for offset in range(5)]
    # A leader that comes back truncates what nobody took over, and others are written there.
    log = tmp_path / "a-0" / file_name(0, Kind.LOG)
    log.write_bytes(batch(*range(5), leader_epoch=0) + batch(*range(5, 9), leader_epoch=1))
    assert source.latestOffset(first) == first
    noted(tmp_path, a=99)
    second = source.latestOffset(first)
    assert second == at(9, 1)
    assert read(source, first, second) == [f"a-0:{offset}" for offset in range(5, 9)]
    noted(tmp_path, a=3)  # as a broker may have it that has come back
    assert source.latestOffset(second) == second
    noted(tmp_path, b=3)
    with pytest.warns(RuntimeWarning, match="no high watermark of a-0"):
        assert source.latestOffset(second) == second
    assert stream(tmp_path, stopAtHighWatermark=False).latestOffset(start) == second


def at(offset: int, epoch: int) -> Json:
    return {"a": {"0": {"offset": offset, "leaderEpoch": epoch}}}


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_truncation_of_what_was_read_is_seen_and_said(
    tmp_path: Path, has_checkpoint: bool
) -> None:
    """Where that is wanted, what was written instead comes."""
    log = partition(tmp_path, batch(*range(5), leader_epoch=0), "a-0") / file_name(0, Kind.LOG)
    append(tmp_path / "a-0", batch(*range(5, 10), leader_epoch=0))
    if has_checkpoint:
        (tmp_path / "a-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 5\n")
    source, forgiving = stream(tmp_path), stream(tmp_path, failOnDataLoss=False)
    start = source.initialOffset()
    first = source.latestOffset(start)
    assert first == at(10, 0)
    forgiving.latestOffset(start)
    kept = batch(*range(5), leader_epoch=0)
    log.write_bytes(kept)
    for found in (source, stream(tmp_path)):
        with pytest.raises(DataLossError, match="a-0 ends at 5, and was read up to 10"):
            found.latestOffset(first)
    log.write_bytes(kept + batch(*range(5, 12), leader_epoch=2))
    with pytest.raises(DataLossError, match="a-0 was truncated at 5 after it was read up to 10"):
        source.latestOffset(first)
    with pytest.raises(DataLossError, match="was truncated before offset 10 after"):
        source.partitions(start, first)
    with pytest.warns(RuntimeWarning, match="truncated at 5"):
        second = forgiving.latestOffset(first)
    assert second == at(12, 2)
    with pytest.warns(RuntimeWarning, match="truncated at 5"):
        assert read(forgiving, first, second) == [f"a-0:{offset}" for offset in range(5, 12)]
    assert forgiving.latestOffset(second) == second


def test_a_checkpoint_without_epochs_is_read_on_from(tmp_path: Path) -> None:
    partition(tmp_path, batch(*range(5), leader_epoch=3), "a-0")
    source = stream(tmp_path)
    end = source.latestOffset({"a": {"0": 2}})
    assert end == at(5, 3)
    assert read(source, {"a": {"0": 2}}, end) == ["a-0:2", "a-0:3", "a-0:4"]


def test_a_stream_follows_the_copy_of_the_later_epoch(tmp_path: Path) -> None:
    partition(tmp_path / "b1", batch(0, 1, 2, 3, leader_epoch=0), "a-0")
    partition(tmp_path / "b2", batch(0, 1, leader_epoch=0) + batch(2, leader_epoch=1), "a-0")
    with pytest.warns(RuntimeWarning, match="copies of a-0 differ"):
        assert stream(tmp_path).latestOffset({"a": {"0": 0}}) == at(3, 1)


def test_committed_records_wait_for_the_end_of_their_transaction(directory: Path) -> None:
    options = Options.parse(OPTIONS | {"path": str(directory)}, streaming=True)
    ends = LogFollower(options, MountedLogs(options)).refresh()
    assert ends == {TopicPartition("a", 0): 3, TopicPartition("b", 1): 7}
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    append(directory / "a-0", batch(3, transactional=True, **producer))
    source = stream(directory, isolation="read_committed")
    assert source.latestOffset(source.initialOffset())["a"] == {"0": 3}
    assert stream(directory).reportLatestOffset()["a"] == {"0": 4}


def test_shares_are_in_proportion_and_never_too_much() -> None:
    names = [TopicPartition("t", number) for number in range(3)]
    sizes = dict(zip(names, (1000, 10, 1), strict=True))
    shares = shared_out(100, sizes)
    assert sum(shares.values()) == 100
    assert shares[names[0]] >= 98
    assert shared_out(10**6, sizes) == sizes
    for turn, name in enumerate(names):
        shares = shared_out(1, dict.fromkeys(names, 5), turn)
        assert shares == dict.fromkeys(names, 0) | {name: 1}
