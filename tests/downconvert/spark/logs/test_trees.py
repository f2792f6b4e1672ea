"""Partitions are found as they lie, were copied or mounted, each of them once."""

import gzip
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.errors import MixedClustersError
from downconvert.spark.jobs.jobs import chosen
from downconvert.spark.logs import checkpoints, trees
from downconvert.spark.logs.trees import find_partitions, read_partition
from downconvert.spark.options.options import Options
from downconvert.spark.plan.planner import partitions
from downconvert.storage import TopicPartition
from downconvert.storage.checkpoints.checkpoint import read_offsets
from downconvert.storage.layout import Layout, read_layout
from tests.downconvert.spark.reading import packed, partition, rows, splits
from tests.downconvert.spark.stream.test_follow import stream
from tests.downconvert.storage.logs import batch


def names(*paths: Path) -> list[str]:
    return [str(log.topic_partition) for log in find_partitions([str(path) for path in paths])]


def test_below_one_directory_several_and_a_tree_of_them(tmp_path: Path) -> None:
    for broker, topic in (("b1", "orders-0"), ("b2/data", "orders-1"), ("b2/data", "a-b-10")):
        partition(tmp_path / broker, batch(0), topic)
    assert names(tmp_path / "b1") == ["orders-0"]
    assert names(tmp_path / "b1", tmp_path / "b2" / "data") == ["a-b-10", "orders-0", "orders-1"]
    assert names(tmp_path) == ["a-b-10", "orders-0", "orders-1"]
    assert names(tmp_path / "b2" / "data" / "a-b-10") == ["a-b-10"]


def test_paths_may_be_patterns(tmp_path: Path) -> None:
    for broker, topic in (("b1", "orders-0"), ("b2", "orders-1"), ("c{1}", "audit-0")):
        partition(tmp_path / broker, batch(0), topic)
    assert names(tmp_path / "b*") == ["orders-0", "orders-1"]
    assert names(tmp_path / "?[^1]") == ["orders-1"]
    assert names(tmp_path / "{b1,b{2,3}}" / "orders-?") == ["orders-0", "orders-1"]
    assert names(tmp_path / "c{1}") == ["audit-0"]  # it is there by that name
    assert names(tmp_path / "b1", tmp_path / "b[12]") == ["orders-0", "orders-1"]
    with pytest.raises(NotADirectoryError, match="no directory matches that"):
        names(tmp_path / "d*")
    with pytest.raises(NotADirectoryError, match="d is not a directory"):
        names(tmp_path / "d")


def test_a_folder_named_like_a_partition_is_searched(tmp_path: Path) -> None:
    partition(tmp_path / "broker-1", batch(0), "orders-0")
    assert names(tmp_path) == ["orders-0"]


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_brokers_log_start_offsets_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_packed: bool
) -> None:
    """A broker may have ten thousand partitions, all of them in this file."""
    for number in range(3):
        partition(tmp_path / "b1", batch(0, 1), f"a-{number}")
    noted = "".join(f"a {number} 1\n" for number in range(3))
    (tmp_path / "b1" / "log-start-offset-checkpoint").write_text(f"0\n3\n{noted}")
    read: list[Path] = []

    def read_and_note(path: Path) -> dict[TopicPartition, int]:
        read.append(path)
        return read_offsets(path)

    monkeypatch.setattr(checkpoints, "read_offsets", read_and_note)
    path = packed(tmp_path / "b1") if is_packed else tmp_path
    assert [log.start_offset for log in find_partitions([str(path)])] == [1, 1, 1]
    assert len(read) == 1


def test_deleted_moved_and_foreign_directories_are_no_logs(tmp_path: Path) -> None:
    for suffix in ("delete", "future", "stray"):
        partition(tmp_path, batch(0), f"orders-0.{'0' * 32}-{suffix}")
    (tmp_path / "empty-0").mkdir()
    assert names(tmp_path) == []


def test_the_copy_that_reaches_furthest_is_read(tmp_path: Path) -> None:
    partition(tmp_path / "b1", batch(0, 1))
    partition(tmp_path / "b2", batch(0, 1) + batch(2))
    partition(tmp_path / "b3", batch(0))
    assert [row["offset"] for row in rows(tmp_path)] == [0, 1, 2]


def test_two_clusters_are_no_replicas_of_each_other(tmp_path: Path) -> None:
    for broker, cluster, topic in (
        ("b1", "one", "a"),
        ("b2", "two", "a"),
        ("b3", "one", "b"),
    ):
        partition(tmp_path / broker, batch(0), f"{topic}-0")
        (tmp_path / broker / "meta.properties").write_text(f"version=0\ncluster.id={cluster}\n")
    with pytest.raises(MixedClustersError, match=r"b1 is of the cluster one, and .*b2 of two"):
        names(tmp_path)
    with pytest.raises(MixedClustersError):
        rows(tmp_path)
    with pytest.raises(MixedClustersError):
        names(tmp_path / "b3" / "b-0", tmp_path / "b2" / "a-0")
    assert names(tmp_path / "b1", tmp_path / "b3") == ["a-0", "b-0"]
    assert len(rows(tmp_path, clusterId="one")) == 2
    assert len(rows(tmp_path, clusterId="two")) == 1
    partition(tmp_path / "copied", batch(0, 1), "c-0")  # nothing says whose it is
    assert names(tmp_path / "b2", tmp_path / "copied") == ["a-0", "c-0"]
    (tmp_path / "b2" / "meta.properties").write_text("\0what-is-this")
    with pytest.warns(RuntimeWarning, match="the cluster of this directory counts as unknown"):
        assert names(tmp_path / "b1", tmp_path / "b2") == ["a-0"]


@pytest.mark.parametrize("text", [None, "version=1\n", "\0what-is-this"])
@pytest.mark.filterwarnings("ignore:.*counts as unknown")
def test_a_directory_that_cluster_id_leaves_out_because_its_cluster_is_unknown_is_named(
    tmp_path: Path, text: str | None
) -> None:
    for broker, count in (("b1", 1), ("b2", 2)):
        partition(tmp_path / broker, batch(*range(count)), "a-0")
        (tmp_path / broker / "meta.properties").write_text("version=0\ncluster.id=one\n")
    assert len(rows(tmp_path, clusterId="one")) == 2
    meta = tmp_path / "b2" / "meta.properties"
    meta.unlink() if text is None else meta.write_text(text)
    with pytest.warns(
        RuntimeWarning, match="b2 has no file that names its cluster: it is left out"
    ):
        assert len(rows(tmp_path, clusterId="one")) == 1


def test_relative_paths_are_absolute_for_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition(tmp_path / "b1", batch(0), "orders-0")
    for here, path in ((tmp_path, "b1"), (tmp_path / "b1" / "orders-0", ".")):
        monkeypatch.chdir(here)
        (log,) = find_partitions([path])
        assert log.directory == str(tmp_path / "b1" / "orders-0")
        assert {file.directory for file in log.segments} == {log.directory}
        (split,) = splits(path)
        assert split.segment.directory == log.directory


def test_partitions_are_found_down_to_a_certain_depth(tmp_path: Path) -> None:
    """A path may be the system's root directory."""
    for topic, folders in (("a-0", trees.DEPTH_MAX - 1), ("b-0", trees.DEPTH_MAX)):
        partition(tmp_path.joinpath(*["x"] * folders), batch(0), topic)
    assert names(tmp_path) == ["a-0"]
    assert names(tmp_path / "x") == ["a-0", "b-0"]


def test_links_lead_nowhere_twice(tmp_path: Path) -> None:
    partition(tmp_path / "b1", batch(0))
    (tmp_path / "b1" / "around").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(tmp_path / "b1")
    assert names(tmp_path) == ["topic-0"]


def test_directories_of_two_file_systems_may_have_the_same_inode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = {str(tmp_path / name): device for device, name in enumerate(("b1", "b2"), 1)}
    for number, directory in enumerate(devices):
        partition(Path(directory), batch(0), f"a-{number}")
    stat = os.stat

    def of_devices(path: Any, **options: Any) -> os.stat_result:
        found = stat(path, **options)
        if str(path) not in devices:
            return found
        return os.stat_result((found.st_mode, 7, devices[str(path)], *found[3:]))

    monkeypatch.setattr(os, "stat", of_devices)
    assert [str(log.topic_partition) for log in find_partitions([str(tmp_path)])] == ["a-0", "a-1"]


def test_a_log_begins_where_records_were_deleted_up_to(tmp_path: Path) -> None:
    partition(tmp_path, batch(0, 1, 2))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\ntopic 0 2\n")
    assert [row["offset"] for row in rows(tmp_path)] == [2]


def test_a_swap_segment_replaces_its_sources(
    tmp_path: Path,
) -> None:
    directory = partition(tmp_path, batch(0, 1))
    partition(tmp_path, batch(2, 3), base_offset=2)
    partition(tmp_path, batch(4), base_offset=4)
    shutil.copy(directory / f"{0:020}.log", directory / f"{0:020}.log.deleted")
    (directory / f"{0:020}.log.swap").write_bytes(batch(1, 3))
    (log,) = find_partitions([str(tmp_path)])
    assert log.topic_partition == TopicPartition("topic", 0)
    assert [(file.base_offset, file.state) for file in log.segments] == [(0, ".swap"), (4, "")]
    assert [row["offset"] for row in rows(tmp_path)] == [1, 3, 4]


def test_a_path_that_is_not_there_or_without_partitions_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="nowhere is not a directory"):
        names(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="no partition below"):
        partitions(Options(paths=(str(tmp_path),)))


def test_a_file_that_is_only_called_like_a_log_makes_no_partition(tmp_path: Path) -> None:
    partition(tmp_path / "broker-1", batch(0), "orders-0")
    for name in ("rsync.log", "00000000000000000000.log.deleted", "1.log"):
        (tmp_path / "broker-1" / name).write_bytes(b"?")
        (tmp_path / "broker-1" / "orders-0" / name).write_bytes(b"?")
    assert names(tmp_path) == ["orders-0"]
    assert [row["offset"] for row in rows(tmp_path)] == [0]


def test_a_topic_that_was_not_asked_for_may_have_two_ids(tmp_path: Path) -> None:
    for name, topic_id in (("b1", "AAAAAAAAAAAAAAAAAAAAAQ"), ("b2", "AAAAAAAAAAAAAAAAAAAAAg")):
        directory = partition(tmp_path / name, batch(0), "anew-0")
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
        partition(tmp_path / name, batch(0), "orders-0")
    assert [row["offset"] for row in rows(tmp_path, topics="orders")] == [0]
    assert len(chosen([str(tmp_path)], ["orders"])) == 1
    with pytest.raises(MixedClustersError):
        rows(tmp_path)


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(("noted", "begins"), [(None, 5), (0, 5), (3, 5), (5, 5), (6, 6)])
def test_a_log_begins_at_what_is_noted_or_at_its_first_segment_if_that_is_later(
    tmp_path: Path, noted: int | None, begins: int, is_packed: bool
) -> None:
    """A broker deletes segments, and notes it later."""
    partition(tmp_path / "logs", batch(5, 6, 7), "a-0", 5)
    if noted is not None:
        checkpoint = tmp_path / "logs" / "log-start-offset-checkpoint"
        checkpoint.write_text(f"0\n1\na 0 {noted}\n")
    path = packed(tmp_path / "logs") if is_packed else tmp_path / "logs"
    (log,) = find_partitions([str(path)])
    assert log.start_offset == begins
    assert stream(path).initialOffset() == {"a": {"0": begins}}
    assert [row["offset"] for row in rows(path)] == list(range(begins, 8))


@pytest.mark.parametrize("gzipped", [(), (0,), (3,), (0, 3)])
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("of_partition", [False, True])
def test_a_brokers_files_count_for_segments_in_any_place(
    tmp_path: Path, gzipped: tuple[int, ...], is_packed: bool, of_partition: bool
) -> None:
    logs = tmp_path / "logs"
    for base, offsets in ((0, (0, 1, 2)), (3, (3, 4, 5))):
        log = partition(logs, batch(*offsets), base_offset=base) / f"{base:020}.log"
        if base in gzipped:
            log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
            log.unlink()
    (logs / "meta.properties").write_text("version=0\ncluster.id=one\n")
    (logs / "log-start-offset-checkpoint").write_text("0\n1\ntopic 0 2\n")
    (logs / "replication-offset-checkpoint").write_text("0\n1\ntopic 0 5\n")
    path = packed(logs) if is_packed else logs / "topic-0" if of_partition else logs
    found = rows(path, clusterId="one", stopAtHighWatermark=True)
    assert [row["offset"] for row in found] == [2, 3, 4]


@pytest.mark.parametrize("deleted", [1, 2])
def test_segments_that_are_deleted_while_a_partition_is_listed_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: int
) -> None:
    """Each time that it is listed, one more is gone."""
    for base in (0, 2, 4):
        directory = partition(tmp_path, batch(base, base + 1), "a-0", base)
    left = [0, 2][:deleted]

    def listed(path: Path) -> Layout:
        found = read_layout(path)
        if left:
            (directory / f"{left.pop(0):020}.log").unlink()
        return found

    monkeypatch.setattr(trees, "read_layout", listed)
    (log,) = find_partitions([str(tmp_path)])
    bases = [2, 4][deleted - 1 :]
    assert [file.base_offset for file in log.segments] == bases
    assert log.start_offset == bases[0]
    shutil.rmtree(directory)
    with pytest.raises(FileNotFoundError):
        read_partition(TopicPartition("a", 0), str(directory))
