"""A stream of a growing directory: every record once, whatever happens to the files."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.errors import DataLossError, MissingOffsetsError, NotMountedError
from downconvert.spark.logs.places import Json
from downconvert.spark.logs.segment_files import SegmentFile
from downconvert.spark.logs.stored_headers import header_of
from downconvert.spark.options.options import Options
from downconvert.spark.options.schemas import schema_of
from downconvert.spark.read.reader import Task
from downconvert.spark.stream import followed_logs
from downconvert.spark.stream.follow import LogFollower, shared_out
from downconvert.spark.stream.followed_logs import FollowedLogs
from downconvert.spark.stream.stream import SegmentStreamReader
from downconvert.storage import TopicPartition
from downconvert.storage.names import Kind, file_name
from tests.downconvert.spark.reading import packed, partition
from tests.downconvert.storage.logs import batch

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
    monkeypatch.setattr("downconvert.spark.stream.stream.HAS_LIMITS", False)  # Spark 4.0 and 4.1
    assert stream(directory)
    for name in ("maxOffsetsPerTrigger", "maxBytesPerTrigger"):
        with pytest.raises(ValueError, match="leave maxOffsetsPerTrigger and maxBytesPerTrigger"):
            stream(directory, **{name: 5})


def read(source: SegmentStreamReader, start: Json, end: Json) -> list[str]:
    """The records of a micro-batch: `topic-partition:offset`."""
    return [
        f"{row['topic']}-{row['partition']}:{row['offset']}"
        for task in source.partitions(start, end)
        if isinstance(task, Task)
        for found in source.read(task)
        for row in found.select(["topic", "partition", "offset"]).to_pylist()
    ]


def append(directory: Path, data: bytes, base_offset: int = 0) -> None:
    with (directory / file_name(base_offset, Kind.LOG)).open("ab") as file:
        file.write(data)


def test_a_stream_begins_at_the_end_by_default(directory: Path) -> None:
    assert stream(directory, startingOffsets="latest").initialOffset() == {
        "a": {"0": 3},
        "b": {"1": 7},
    }
    assert stream(directory, startingTimestamp=10).initialOffset() == {"a": {"0": 1}, "b": {"1": 5}}
    given = stream(directory, startingOffsets='{"a":{"0":2},"b":{"1":99}}')
    assert given.initialOffset() == {"a": {"0": 2}, "b": {"1": 7}}


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
@pytest.mark.parametrize("is_shorter", [False, True])
def test_deleted_records_are_not_read_after_a_truncation(
    tmp_path: Path, has_checkpoint: bool, is_shorter: bool
) -> None:
    """The log was truncated at 5, and its records below 8 were deleted since."""
    log = partition(tmp_path, batch(*range(5), leader_epoch=0), "a-0") / file_name(0, Kind.LOG)
    append(tmp_path / "a-0", batch(*range(5, 20), leader_epoch=0))
    source = stream(tmp_path, failOnDataLoss=False)
    first = source.latestOffset(source.initialOffset())
    if has_checkpoint:
        (tmp_path / "a-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 5\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\na 0 8\n")
    end = 12 if is_shorter else 25
    log.write_bytes(batch(*range(5), leader_epoch=0) + batch(*range(5, end), leader_epoch=2))
    with pytest.warns(RuntimeWarning, match="truncated"):
        second = source.latestOffset(first)
    assert second == at(end, 2)
    with pytest.warns(RuntimeWarning, match="truncated"):
        found = read(source, first, second)
    assert found == [f"a-0:{offset}" for offset in range(8, end)]


def test_a_checkpoint_without_epochs_is_read_on_from(tmp_path: Path) -> None:
    partition(tmp_path, batch(*range(5), leader_epoch=3), "a-0")
    source = stream(tmp_path)
    end = source.latestOffset({"a": {"0": 2}})
    assert end == at(5, 3)
    assert read(source, {"a": {"0": 2}}, end) == ["a-0:2", "a-0:3", "a-0:4"]


def test_a_stream_follows_the_copy_of_the_later_epoch(tmp_path: Path) -> None:
    partition(tmp_path / "b1", batch(0, 1, 2, 3, leader_epoch=0), "a-0")
    data = batch(0, 1, leader_epoch=0) + batch(2, leader_epoch=1)
    leader = partition(tmp_path / "b2", data, "a-0")
    (leader / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 2\n")
    with pytest.warns(RuntimeWarning, match="copies of a-0 differ"):
        assert stream(tmp_path).latestOffset({"a": {"0": 0}}) == at(3, 1)


@pytest.mark.filterwarnings("ignore:copies of a-0 differ")
def test_a_stream_fails_if_it_is_not_known_which_copy_is_the_leaders(tmp_path: Path) -> None:
    partition(tmp_path / "b1", batch(0, 1, 2, 3, leader_epoch=0), "a-0")
    partition(tmp_path / "b2", batch(0, 1, leader_epoch=0) + batch(2, leader_epoch=1), "a-0")
    source = stream(tmp_path, failOnDataLoss=True)
    start = {"a": {"0": 0}}
    with pytest.raises(MissingOffsetsError, match="offsets 3 up to 4 are missing"):
        read(source, start, source.latestOffset(start))


def test_committed_records_wait_for_the_end_of_their_transaction(directory: Path) -> None:
    options = Options.parse(OPTIONS | {"path": str(directory)}, streaming=True)
    ends = LogFollower(options, FollowedLogs(options)).refresh()
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
        sizes = dict.fromkeys(names, 3) | {name: 0}
        shares = shared_out(3, sizes, turn)
        assert sum(shares.values()) == 3
        assert shares[name] == 0  # it has nothing


def test_a_segment_that_is_removed_after_the_listing_is_a_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is found in the new state of the log, and handled by failOnDataLoss."""
    logs = tmp_path / "logs"
    partition(logs, batch(*range(20), leader_epoch=1), "c-0")
    partition(logs, batch(20, 21, leader_epoch=1), "c-0", 20)
    path = packed(logs)
    first = logs / "c-0" / file_name(0, Kind.LOG)
    content = first.read_bytes()

    def look(file: SegmentFile, offset: int) -> Any:
        if first.exists() and file.base_offset == 0:
            first.unlink()
            packed(logs)
            raise FileNotFoundError(2, "no such object", file.path)
        return header_of(file, offset)

    monkeypatch.setattr(followed_logs, "header_of", look)
    start, lost = {"c": {"0": 5}}, "c-0 begins at 20; offsets from 5 on were deleted unread"
    limit: Any = Limit(max_rows=5)
    with pytest.raises(DataLossError, match=lost):
        stream(path).latestOffset(start, limit)
    first.write_bytes(content)
    packed(logs)
    forgiving = stream(path, failOnDataLoss=False)
    with pytest.warns(RuntimeWarning, match=lost):
        end = forgiving.latestOffset(start, limit)
    assert end == {"c": {"0": {"offset": 22, "leaderEpoch": 1}}}
    first.write_bytes(content)
    packed(logs)
    source = stream(path, failOnDataLoss=False)
    source.latestOffset(end)
    with pytest.warns(RuntimeWarning, match=lost):
        rows = read(source, start, {"c": {"0": {"offset": 8, "leaderEpoch": 1}}})
    assert rows == []

    def gone(file: SegmentFile, _: int) -> None:
        raise FileNotFoundError(2, "no such object", file.path)

    monkeypatch.setattr(followed_logs, "header_of", gone)
    start = {"c": {"0": 20}}
    with pytest.raises(DataLossError, match=r"0\.log|tar was deleted after it was listed"):
        stream(path).latestOffset(start, Limit(max_rows=1))  # type: ignore[arg-type]
    with pytest.warns(RuntimeWarning, match="was deleted after it was listed"):
        assert forgiving.latestOffset(start, Limit(max_rows=1)) == start  # type: ignore[arg-type]
