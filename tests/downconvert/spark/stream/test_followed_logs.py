"""A stream of logs wherever they are: every record once, whatever happens to the files.

They are mounted, in a tar that is rewritten, or in an object store (tests/object_store.py)."""

import os
import shutil
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import fsspec
import pytest

from downconvert.spark.errors import DataLossError
from downconvert.spark.logs import stored_trees
from downconvert.spark.logs.places import Json
from downconvert.spark.logs.segment_files import SegmentFile
from downconvert.spark.logs.stored_headers import LastBatch, last_batch
from downconvert.spark.options.options import Options
from downconvert.spark.options.schemas import schema_of
from downconvert.spark.stores import file_systems, stores
from downconvert.spark.stores.store_errors import ThrottledError
from downconvert.spark.stream import followed_logs
from downconvert.spark.stream.stream import SegmentStreamReader
from downconvert.storage.names import HIGH_WATERMARKS, Kind, file_name
from records import BatchHeader
from tests import store_servers
from tests.downconvert.spark.querying import read_on
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch, indexed_segment
from tests.object_store import ObjectStore

from .test_follow import Limit, append, at, noted, read
from .throttle import throttled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORE: Final = pytest.param("s3", marks=pytest.mark.others)


class Place:
    """Logs to write to, and what to call them in a stream."""

    def __init__(self, logs: Path, path: str, update: Callable[[], None]) -> None:
        self.logs = logs
        self.path = path
        self.update = update  # after what was written is to be seen
        logs.mkdir()
        partition(logs, batch(0, 1, 2), "a-0")
        partition(logs, batch(5, 6), "b-1", 5)
        update()

    def stream(self, **options: Any) -> SegmentStreamReader:
        given = {"path": self.path, "startingOffsets": "earliest"}
        texts = {name: str(value) for name, value in options.items()}
        parsed = Options.parse(given | texts, streaming=True)
        return SegmentStreamReader(parsed, schema_of(parsed))


@pytest.fixture(params=["mounted", "tar", STORE])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    if request.param == "s3":
        _, bucket = request.getfixturevalue("store")
        return Place(bucket / tmp_path.name, f"s3a://bucket/{tmp_path.name}", lambda: None)
    logs, packed = tmp_path / "logs", tmp_path / "logs.tar"
    if request.param == "mounted":
        return Place(logs, str(logs), lambda: None)

    def update() -> None:
        with tarfile.open(packed, "w") as tar:
            tar.add(logs, "logs")

    return Place(logs, str(packed), update)


def test_appended_rolled_and_new_records_are_read_once(place: Place) -> None:
    source = place.stream()
    start = source.initialOffset()
    assert start == {"a": {"0": 0}, "b": {"1": 5}}
    first = source.latestOffset(start)
    assert first == {"a": {"0": 3}, "b": {"1": 7}}
    assert read(source, start, first) == ["a-0:0", "a-0:1", "a-0:2", "b-1:5", "b-1:6"]
    assert source.latestOffset(first) == first
    append(place.logs / "a-0", batch(3))
    append(place.logs / "a-0", batch(4), 4)
    append(place.logs / "b-1", batch(7, 8)[:50], 5)  # not whole yet
    partition(place.logs, batch(0), "c-0")
    place.update()
    second = source.latestOffset(first)
    assert second == {"a": {"0": 5}, "b": {"1": 7}, "c": {"0": 1}}
    assert read(source, first, second) == ["a-0:3", "a-0:4", "c-0:0"]
    append(place.logs / "b-1", batch(7, 8)[50:], 5)
    place.update()
    again = place.stream()  # after a restart: what was planned, and what came since
    assert read(again, first, second) == ["a-0:3", "a-0:4", "c-0:0"]
    third = again.latestOffset(second)
    assert read(again, second, third) == ["b-1:7", "b-1:8"]
    assert again.reportLatestOffset() == third


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize(
    "limit", [Limit(max_rows=1), Limit(max_rows=2), Limit(max_bytes=1), Limit(max_bytes=150)]
)
def test_limits_hold_and_everything_comes(place: Place, limit: Any, is_indexed: bool) -> None:
    """This includes batches that are larger than the limit, and segments without an index."""
    shutil.rmtree(place.logs)
    place.logs.mkdir()
    for topic in ("a-0", "b-0", "c-0"):
        batches = [batch(3 * i, 3 * i + 1, 3 * i + 2) for i in range(4)]
        if is_indexed:
            indexed_segment(place.logs / topic, 0, *batches)
        else:
            partition(place.logs, b"".join(batches), topic)
        partition(place.logs, batch(12, 13, size=5000), topic, 12)
    place.update()
    source = place.stream()
    start = source.initialOffset()
    found: list[str] = []
    sizes = []
    for _ in range(60):
        end = source.latestOffset(start, limit)
        rows = read(source, start, end)
        sizes.append(len(rows))
        found += rows
        if end == start:
            break
        start = end
    assert sorted(found) == sorted(f"{t}-0:{i}" for t in "abc" for i in range(14))
    assert max(sizes) <= getattr(limit, "max_rows", 9 if is_indexed else 14)


def test_records_that_were_deleted_unread_fail_the_query_or_are_warned_of(place: Place) -> None:
    append(place.logs / "a-0", batch(3), 3)
    place.update()
    start = {"a": {"0": 1}, "b": {"1": 7}}
    source, forgiving = place.stream(), place.stream(failOnDataLoss=False)
    assert source.latestOffset(start) == {"a": {"0": 4}, "b": {"1": 7}}
    (place.logs / "a-0" / file_name(0, Kind.LOG)).unlink()
    place.update()
    with pytest.raises(DataLossError, match="a-0 begins at 3; offsets from 1 on were deleted"):
        source.latestOffset(start)
    with pytest.warns(RuntimeWarning, match="a-0 begins at 3"):
        end = forgiving.latestOffset(start)
    with pytest.warns(RuntimeWarning, match="a-0 begins at 3"):
        assert read(forgiving, start, end) == ["a-0:3"]
    shutil.rmtree(place.logs / "b-1")
    place.update()
    with pytest.raises(DataLossError, match="b-1 is gone; it was read up to offset 7"):
        source.latestOffset(end)
    with pytest.warns(RuntimeWarning, match="b-1 is gone"):
        assert forgiving.latestOffset(end) == end


def test_a_micro_batch_may_end_after_the_latest_listing(place: Place) -> None:
    """Another process has planned it."""
    source, start = place.stream(topics="a"), {"a": {"0": 3}}
    assert source.latestOffset(start) == start
    append(place.logs / "a-0", batch(3))
    place.update()
    assert read(source, start, {"a": {"0": 4}}) == ["a-0:3"]


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_truncation_of_what_was_read_is_seen_and_said(place: Place, has_checkpoint: bool) -> None:
    """With failOnDataLoss=false, the records that were written in their place come."""
    shutil.rmtree(place.logs)
    kept = batch(*range(5), leader_epoch=0)
    log = partition(place.logs, kept, "a-0") / file_name(0, Kind.LOG)
    append(place.logs / "a-0", batch(*range(5, 10), leader_epoch=0))
    if has_checkpoint:
        (place.logs / "a-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 5\n")
    place.update()
    source, forgiving = place.stream(), place.stream(failOnDataLoss=False)
    start = source.initialOffset()
    first = source.latestOffset(start)
    assert first == at(10, 0)
    forgiving.latestOffset(start)
    log.write_bytes(kept)
    place.update()
    for found in (source, place.stream()):
        with pytest.raises(DataLossError, match="a-0 ends at 5, and was read up to 10"):
            found.latestOffset(first)
    log.write_bytes(kept + batch(*range(5, 12), leader_epoch=2))
    place.update()
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


def test_committed_records_and_high_watermarks_are_waited_for(place: Place) -> None:
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    append(place.logs / "a-0", batch(3, transactional=True, **producer))
    place.update()
    source = place.stream(isolation="read_committed")
    assert source.latestOffset(source.initialOffset())["a"] == {"0": 3}
    scratch = Path(stored_trees.broker_of({})).parent  # where checkpoints are copied to
    before = len(list(scratch.iterdir()))
    source = place.stream(topics="a")
    for mark in (1, 2, 3):
        noted(place.logs, a=mark)
        os.utime(place.logs / HIGH_WATERMARKS, (mark, mark))  # stores know seconds
        place.update()
        assert source.latestOffset({"a": {"0": 0}}) == {"a": {"0": mark}}
        assert len(list(scratch.iterdir())) <= before + 1  # what is old is removed


def test_a_segment_that_is_removed_as_it_is_looked_at_is_listed_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = place.stream()
    start = source.initialOffset()
    append(place.logs / "a-0", batch(3), 3)
    place.update()
    removed = []

    def look(file: SegmentFile, known: BatchHeader | None = None) -> LastBatch:
        if file.base_offset == 3 and not removed:
            removed.append(file)
            (place.logs / "a-0" / file_name(3, Kind.LOG)).unlink()
            place.update()
            raise FileNotFoundError(2, "no such object", file.path)
        return last_batch(file, known)

    monkeypatch.setattr(followed_logs, "last_batch", look)
    assert source.latestOffset(start) == {"a": {"0": 3}, "b": {"1": 7}}
    assert removed


def test_a_brokers_file_that_is_removed_during_the_listing_makes_no_log_disappear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any object may go between the listing and its read; the logs are listed again then."""
    memory, root = fsspec.filesystem("memory"), f"/{tmp_path.name}"
    memory.pipe(f"{root}/a-0/{file_name(0, Kind.LOG)}", batch(0, 1))
    options = Options.parse({"path": f"memory:/{root}"}, streaming=True)
    source = SegmentStreamReader(options, schema_of(options))
    assert source.latestOffset({"a": {"0": 0}}) == {"a": {"0": 2}}
    memory.pipe(f"{root}/{HIGH_WATERMARKS}", b"0\n1\na 0 2\n")

    def removed(uri: str) -> list[stores.Stored]:
        found = stores.listed(uri)
        memory.rm(f"{root}/{HIGH_WATERMARKS}")
        monkeypatch.setattr(stored_trees, "listed", stores.listed)
        return found

    monkeypatch.setattr(stored_trees, "listed", removed)
    assert source.latestOffset({"a": {"0": 0}}) == {"a": {"0": 2}}
    memory.rm(root, recursive=True)
    with pytest.raises(DataLossError, match="a-0 is gone"):
        source.latestOffset({"a": {"0": 2}})


@pytest.mark.others
def test_a_micro_batch_lists_once_and_reads_what_has_changed(
    store: tuple[ObjectStore, Path], tmp_path: Path
) -> None:
    place = Place(store[1] / tmp_path.name, f"s3a://bucket/{tmp_path.name}", lambda: None)
    batches = [batch(i, size=1000, leader_epoch=3) for i in range(200)]
    for number in range(2, 5):
        indexed_segment(place.logs / f"a-{number}", 0, *batches, interval=4096)
    source = place.stream(topics="a", partitions="2-4")
    start = source.initialOffset()

    def asked(work: Callable[[], object]) -> Counter[str]:
        before = len(store[0].requests())
        work()
        return Counter(kind for kind, _ in store[0].requests()[before:])

    end = source.latestOffset(start)
    assert asked(lambda: source.partitions(start, end)) == {"GetObject": 3}  # indexes
    assert asked(source.reportLatestOffset) == {}
    assert asked(lambda: source.latestOffset(end)) == {"ListObjectsV2": 1}
    indexed_segment(place.logs / "a-3", 200, batch(200, leader_epoch=3))
    found: list[Json] = []
    counted = asked(lambda: found.append(source.latestOffset(end)))
    assert found[0]["a"]["3"] == {"offset": 201, "leaderEpoch": 3}
    assert counted["ListObjectsV2"] == 1
    assert counted["GetObject"] <= 2  # its index, and its end
    assert counted.total() <= 3


@pytest.mark.others
def test_a_store_that_throttles_amid_a_stream_costs_time_and_no_record(
    store: tuple[ObjectStore, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "3")
    file_systems.file_system.cache_clear()
    place = Place(store[1] / tmp_path.name, f"s3a://bucket/{tmp_path.name}", lambda: None)
    with throttled(store[0].endpoint) as throttle:
        source = place.stream(endpoint=throttle.endpoint)
        start = source.initialOffset()
        first = source.latestOffset(start)
        found = read(source, start, first)
        for offset in range(3, 7):
            append(place.logs / "a-0", batch(offset))
            throttle.refusals = 2
            end = source.latestOffset(first)
            throttle.refusals = 1
            found += read(source, first, end)
            first = end
        assert throttle.refused == 12
        append(place.logs / "a-0", batch(7))
        throttle.refusals = 100
        with pytest.raises(ThrottledError, match="throttling"):
            source.latestOffset(first)
        throttle.refusals = 0
        again = place.stream(endpoint=throttle.endpoint)  # from the checkpoint
        end = again.latestOffset(first)
        found += read(again, first, end)
    file_systems.file_system.cache_clear()
    assert sorted(found) == [*(f"a-0:{offset}" for offset in range(8)), "b-1:5", "b-1:6"]


@pytest.mark.others
@pytest.mark.timeout(900)  # the server is built the first time
def test_a_query_of_spark_s_reads_on_where_it_left_off(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """From Google's store: what processes of streams have of the environment is the JVM's."""
    if store_servers.missing("gs"):
        pytest.skip(f"not here: {', '.join(store_servers.missing('gs'))}")
    seen = list[tuple[int, int]]()

    def put(base_offset: int, *batches: bytes) -> None:
        indexed_segment(tmp_path / "a-0", base_offset, *batches)
        for path in sorted((tmp_path / "a-0").glob(f"{base_offset:020}*"), reverse=True):
            stores.write(stores.below(stores.pinned(place.uri("logs")), "a-0", path.name), path)

    def run() -> None:
        read_on(spark, place.uri("logs"), tmp_path / "checkpoint", seen)

    (tmp_path / "gs").mkdir()
    with store_servers.running("gs", tmp_path / "gs") as place:
        put(0, batch(0, 1), batch(2, 3, 4))
        run()
        put(0, batch(0, 1), batch(2, 3, 4), batch(5))  # a longer one
        put(6, batch(6, 7))
        run()
    file_systems.file_system.cache_clear()
    assert [offset for _, offset in seen] == list(range(8))
    assert len({number for number, _ in seen}) == 3
