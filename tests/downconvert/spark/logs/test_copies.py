"""Planning asks copies of a partition for as few files as tell which is the leader's."""

import os
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.spark.logs.copies import chosen, look
from downconvert.spark.logs.replicas import Copy
from downconvert.spark.logs.segment_files import PartitionLog
from downconvert.spark.logs.trees import find_partitions, read_partition
from downconvert.spark.options.options import Options
from downconvert.spark.plan.bounds import Bounds
from downconvert.spark.plan.planner import plan
from downconvert.spark.stores.object_cache import ObjectCache
from downconvert.storage.names import Kind, TopicPartition, file_name
from records import Codec
from records.formats import V1
from tests.downconvert.spark.reading import packed, rows
from tests.downconvert.storage.logs import batch, indexed_segment, segment
from tests.object_store import ObjectStore

OLD = TopicPartition("old", 0)


def copy(log: PartitionLog, end: int) -> Copy:
    return Copy(log.directory, 0, end)


def test_how_far_a_copy_goes(tmp_path: Path) -> None:
    directory = tmp_path / "old-0"
    segment(directory, 0, batch(0, magic=V1), batch(1, magic=V1) + bytes(100))
    log = read_partition(OLD, str(directory))
    assert look(log) == copy(log, 2)
    (directory / "leader-epoch-checkpoint").write_text("nonsense")
    segment(directory, 3)
    assert look(read_partition(OLD, str(directory))) == copy(log, 3)
    segment(tmp_path / "old-1", 0)
    log = read_partition(TopicPartition("old", 1), str(tmp_path / "old-1"))
    assert look(log) == copy(log, 0)


@pytest.mark.parametrize("noted", [None, 0, 7])
def test_the_epoch_of_a_copy_is_the_latest_that_its_files_show(
    tmp_path: Path, noted: int | None
) -> None:
    """The leader epoch checkpoint, which may be old, and the last batch that can be read. The last
    segment has none."""
    directory = tmp_path / "old-0"
    segment(directory, 0, batch(0, leader_epoch=2), batch(1, leader_epoch=3))
    segment(directory, 2, bytes(100))
    if noted is not None:
        (directory / "leader-epoch-checkpoint").write_text(f"0\n1\n{noted} 0\n")
    found = look(read_partition(OLD, str(directory)))
    assert (found.end_offset, found.epoch) == (2, max(3, noted or 0))


def test_damage_before_an_empty_last_segment_does_not_hide_where_a_copy_ends(
    tmp_path: Path,
) -> None:
    """The copy that goes further is read, though the other one has noted a later epoch."""
    batches = [batch(offset, leader_epoch=0) for offset in range(4)]
    directory = tmp_path / "b1" / "old-0"
    for broker in ("b1", "b2"):
        (tmp_path / broker).mkdir()
    segment(directory, 0, batches[0], bytes(61) + batches[1][61:])
    segment(directory, 2)
    (directory / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 4\n")
    assert not look(read_partition(OLD, str(directory))).is_damaged
    segment(tmp_path / "b2" / "old-0", 0, *batches)
    assert [row["offset"] for row in rows(tmp_path)] == [0, 1, 2, 3]


def brokers(directory: Path, topics: int, partitions: int, lag: int = 0) -> None:
    """Three brokers' directories, each with a copy of each partition. `lag`: batches that the last
    broker does not have."""
    batches = [batch(offset, size=200, leader_epoch=0) for offset in range(20)]
    for number in range(3):
        broker = directory / f"broker-{number}"
        broker.mkdir(parents=True)
        (broker / "meta.properties").write_text("version=1\ncluster.id=one\n")
        model = broker / "model-0"
        indexed_segment(model, 0, *batches[: len(batches) - lag * (number == 2)])
        (model / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        names = [f"t{topic:02}-{number}" for topic in range(topics) for number in range(partitions)]
        for name in names:
            (broker / name).mkdir()
            for path in model.iterdir():
                os.link(path, broker / name / path.name)
            topic_id = f"iUU1jBoKQ8CYVFxNUBAA{int(name[1:3]):02}"
            (broker / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
        for path in model.iterdir():
            path.unlink()
        model.rmdir()
        for noted in ("replication-offset-checkpoint", "log-start-offset-checkpoint"):
            lines = [f"{name.replace('-', ' ')} 0" for name in names]
            (broker / noted).write_text("\n".join(["0", str(len(names)), *lines, ""]))


def asked_for(store: ObjectStore, path: str, **options: str) -> Counter[str]:
    """The requests to the store for a plan, by kind; all of the plan is checked."""
    before = len(store.requests())
    tasks = plan(Options.parse({"path": path, **options}, streaming=False), Bounds())
    found = {(one.topic, one.partition) for task in tasks for one in task}
    assert len(found) == (10 if options else 100)
    assert all(len(one.copies) == 2 for task in tasks for one in task)
    return Counter(kind for kind, _ in store.requests()[before:])


@pytest.mark.others
def test_planning_one_topic_of_300_copies_takes_at_most_60_requests(
    store: tuple[ObjectStore, Path],
) -> None:
    brokers(store[1] / "sync", 10, 10)
    asked = asked_for(store[0], "s3://bucket/sync", topics="t00")
    assert asked["ListObjectsV2"] == 2
    assert asked.total() <= 60
    asked = asked_for(store[0], "s3://bucket/sync")
    assert asked.total() <= 3 * 300 / 2


def test_planning_opens_files_of_wanted_partitions_only(tmp_path: Path) -> None:
    """As in a store, where each file is a request (below), without a server."""
    brokers(tmp_path, 3, 4, lag=1)
    read: list[str] = []
    seen: dict[str, bool] = {"is_counting": True}

    def note(event: str, given: tuple[object, ...]) -> None:
        if seen["is_counting"] and event == "open" and str(given[0]).startswith(str(tmp_path)):
            read.append(os.path.relpath(str(given[0]), tmp_path))

    sys.addaudithook(note)
    try:
        options = Options.parse({"path": str(tmp_path), "topics": "t00"}, streaming=False)
        plan(options, Bounds())
    finally:
        seen["is_counting"] = False  # a hook cannot be removed
    of_partitions = [path for path in read if path.count("/") == 2]
    assert {path.split("/")[1] for path in of_partitions} == {f"t00-{n}" for n in range(4)}
    assert len(of_partitions) <= 5 * 3 * 4  # a log twice, an index, leader epochs and the topic id


@pytest.mark.others
def test_planning_copies_that_differ_takes_at_most_3_requests_a_copy(
    store: tuple[ObjectStore, Path],
) -> None:
    brokers(store[1] / "lag", 10, 10, lag=1)
    assert asked_for(store[0], "s3://bucket/lag").total() <= 3 * 300 + 20
    assert [row["offset"] for row in rows("s3://bucket/lag", assign='{"t03":[7]}')] == list(
        range(20)
    )


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_batches_behind_damage_count_for_how_far_a_copy_goes_and_in_which_epoch(
    tmp_path: Path, codec: Codec
) -> None:
    directory = tmp_path / "old-0"
    data = [batch(at, codec=codec, leader_epoch=epoch) for at, epoch in ((0, 1), (1, 1), (2, 4))]
    segment(directory, 0, data[0], data[1][:-1] + b"?", data[2])
    log = read_partition(OLD, str(directory))
    unconfirmed = Copy(log.directory, 0, 3, 4, is_confirmed=False)
    assert look(log) == unconfirmed
    indexed_segment(directory, 0, *data, batch(3))
    path = directory / file_name(0, Kind.LOG)
    path.write_bytes(data[0] + bytes(len(data[1])) + data[2])
    assert look(read_partition(OLD, str(directory))) == unconfirmed
    path.write_bytes(data[0] + bytes(len(data[1])) + data[2] + bytes(70) + b"\2")
    found = look(read_partition(OLD, str(directory)))
    assert found == replace(unconfirmed, is_damaged=True)
    path.write_bytes(data[0] + bytes(len(data[1])) + b"\2" * 99)
    found = look(read_partition(OLD, str(directory)))
    assert found == Copy(log.directory, 0, 1, 1, is_damaged=True, is_confirmed=False)


@pytest.mark.parametrize("count", [3, 4])
def test_a_copy_that_is_sound_behind_its_damage_hides_nothing(tmp_path: Path, count: int) -> None:
    """In a tar, where a short log is looked at from its beginning."""
    data = [batch(at, leader_epoch=1) for at in range(count)]
    (tmp_path / "logs").mkdir()
    directory = indexed_segment(tmp_path / "logs" / "old-0", 0, *data).path().parent
    path = directory / file_name(0, Kind.LOG)
    path.write_bytes(data[0] + bytes(len(data[1])) + b"".join(data[2:]))
    (log,) = find_partitions([str(packed(tmp_path / "logs"))])
    assert look(log) == Copy(log.directory, 0, count, 1)
    path.write_bytes(path.read_bytes() + bytes(70) + b"\2")
    (log,) = find_partitions([str(packed(tmp_path / "logs"))])
    assert look(log) == Copy(log.directory, 0, count, 1, is_damaged=True)


def test_a_copy_whose_segments_were_replaced_meanwhile_is_listed_again(tmp_path: Path) -> None:
    logs = []
    for name, count in (("b1", 3), ("b2", 5)):
        (tmp_path / name).mkdir()
        segment(tmp_path / name / "old-0", 0, *(batch(at) for at in range(count)))
        logs.append(read_partition(OLD, str(tmp_path / name / "old-0")))
    for log in logs:
        Path(log.segments[0].path).unlink()
        segment(Path(log.directory), 2, batch(2))
    listed: list[str] = []

    def again(log: PartitionLog) -> PartitionLog:
        listed.append(log.directory)
        return read_partition(OLD, log.directory)

    found = chosen({OLD: logs}, ObjectCache(), again)
    assert [one.base_offset for one in found[OLD].segments] == [2]
    assert listed == [log.directory for log in logs]


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("is_padded", [False, True])
def test_copies_of_one_size_whose_ends_differ_are_compared_by_their_epochs(
    tmp_path: Path, is_padded: bool, is_packed: bool
) -> None:
    """The same holds if both end in the zeros of a preallocated file."""
    logs = tmp_path / "logs"
    for name, epoch in (("b1", 0), ("b2", 1)):
        (logs / name).mkdir(parents=True)
        padding = bytes(20_000) if is_padded else b""
        last = batch(1, leader_epoch=epoch) + padding
        segment(logs / name / "a-0", 0, batch(0, size=20_001, leader_epoch=0), last)
    (log,) = find_partitions([str(packed(logs) if is_packed else logs)])
    assert log.directory.endswith("b2/a-0")


def test_partitions_of_a_topic_that_was_created_anew_are_distinguished(
    tmp_path: Path,
) -> None:
    """One broker still has the former topic's partition. All copies end alike."""
    ids = {"0": "AAAAAAAAAAAAAAAAAAAAAQ", "1": "AAAAAAAAAAAAAAAAAAAAAg"}
    for broker, partitions in (("b1", "01"), ("b2", "0"), ("b3", "1")):
        for number in partitions:
            directory = tmp_path / broker / f"a-{number}"
            directory.parent.mkdir(exist_ok=True)
            segment(directory, 0, batch(0))
            metadata = f"version: 0\ntopic_id: {ids[number]}"
            (directory / "partition.metadata").write_text(metadata)
    found = {log.topic_partition.partition: log for log in find_partitions([str(tmp_path)])}
    assert {str(number): log.topic_id for number, log in found.items()} == ids
    assert [len(log.others) for log in found.values()] == [1, 1]


def test_copies_in_sync_lend_each_other_what_is_damaged(tmp_path: Path) -> None:
    brokers(tmp_path, 1, 1)
    for number, place in ((0, 1500), (1, 3000)):
        path = tmp_path / f"broker-{number}" / "t00-0" / file_name(0, Kind.LOG)
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.unlink()  # it is a link
        path.write_bytes(data)
    assert [row["offset"] for row in rows(tmp_path)] == list(range(20))
