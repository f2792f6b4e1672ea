"""Partitions in tars, in gzipped segments, and on a broker's several disks."""

import gzip
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyarrow import fs

from downconvert.spark.errors import CorruptSegmentError
from downconvert.spark.logs.segment_files import PartitionLog
from downconvert.spark.logs.staging import staged
from downconvert.spark.logs.stored_trees import broker_of, forget
from downconvert.spark.logs.trees import find_partitions, read_partition
from downconvert.spark.stores import file_systems
from downconvert.spark.stores.blobs import Blob
from downconvert.spark.stores.store_errors import ThrottledError
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.names import Kind, TopicPartition, file_name
from tests.downconvert.spark.reading import packed, partition, rows
from tests.downconvert.storage.logs import batch, indexed_segment


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A broker's directory: 60 records in two segments of a topic, and 5 of another."""
    directory = tmp_path / "kafka"
    directory.mkdir()
    (directory / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=one\n")
    (directory / "log-start-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    batches = [batch(offset, size=500) for offset in range(60)]
    indexed_segment(directory / "orders-0", 0, *batches[:40])
    indexed_segment(directory / "orders-0", 40, *batches[40:])
    indexed_segment(directory / "other-1", 0, batch(*range(5)))
    return directory


def content(path: Path | str, **options: Any) -> list[tuple[str, int, int, bytes]]:
    return [
        (row["topic"], row["partition"], row["offset"], row["value"])
        for row in rows(path, **options)
    ]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"maxPartitionBytes": 4000},
    {"startingOffsets": '{"orders":{"0":17}}', "endingOffsets": '{"orders":{"0":45}}'},
    {"startingTimestamp": 200, "endingTimestamp": 420},
    {"isolation": "read_committed"},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("is_named", [True, False])
def test_a_tar_of_a_log_directory(
    logs: Path, tmp_path: Path, options: dict[str, Any], is_named: bool
) -> None:
    backup = tmp_path / "backup"
    backup.mkdir()
    with tarfile.open(backup / "monday.tar", "w") as tar:
        tar.add(logs, "var/kafka")
    assert content(backup / "monday.tar" if is_named else backup, **options) == content(
        logs, **options
    )


@pytest.mark.parametrize("options", OPTIONS)
def test_gzipped_segments(logs: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    backup = tmp_path / "backup"
    shutil.copytree(logs, backup)
    for path in backup.glob("*/*.log"):
        if path.parent.name == "orders-0":
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    assert content(backup, **options) == content(logs, **options)


def test_gzip_of_several_members_and_one_that_is_cut_off(logs: Path, tmp_path: Path) -> None:
    data = (logs / "orders-0" / file_name(0, Kind.LOG)).read_bytes()
    packed = gzip.compress(data[:1000]) + gzip.compress(data[1000:])
    backup = tmp_path / "backup" / "orders-0"
    backup.mkdir(parents=True)
    path = backup / f"{file_name(0, Kind.LOG)}.gz"
    path.write_bytes(packed)
    assert [offset for _, _, offset, _ in content(backup.parent)] == list(range(40))
    for damaged in (packed[:-20], packed[:50] + os.urandom(8) + packed[58:]):
        path.write_bytes(damaged)
        with pytest.raises(CorruptSegmentError, match="gzip"):
            content(backup.parent)


def test_a_folder_named_as_of_tiered_storage_without_its_files_is_no_partition(
    logs: Path, tmp_path: Path
) -> None:
    for folder in (f"orders-0-{'A' * 22}", f"orders-{'A' * 22}/1"):
        (logs / folder).mkdir(parents=True)
        (logs / folder / "README").write_text("of another program")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(logs, "kafka")
    found = find_partitions([str(tmp_path / "a.tar")])
    assert [str(log.topic_partition) for log in found] == ["orders-0", "other-1"]


def test_an_index_that_a_cleaner_had_still_to_rename_is_left_out(
    logs: Path, tmp_path: Path
) -> None:
    """Its log has its name already, so the copy is whole."""
    index = logs / "orders-0" / file_name(0, Kind.OFFSET_INDEX)
    index.rename(index.with_name(f"{index.name}.swap"))
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(logs, "kafka")
    assert content(tmp_path / "a.tar") == content(logs)
    log = logs / "orders-0" / file_name(0, Kind.LOG)
    log.rename(log.with_name(f"{log.name}.swap"))
    with tarfile.open(tmp_path / "b.tar", "w") as tar:
        tar.add(logs, "kafka")
    with pytest.raises(CorruptFileError, match="was copied while a broker cleaned it"):
        content(tmp_path / "b.tar")


def test_a_tar_that_cannot_be_read_is_named(logs: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    backup.mkdir()
    with tarfile.open(backup / "a.tar", "w") as tar:
        tar.add(logs, "kafka")
    data = (backup / "a.tar").read_bytes()
    (backup / "a.tar").write_bytes(data[: len(data) // 2])
    with pytest.raises(CorruptFileError, match=r"a\.tar"):
        content(backup)
    (backup / "a.tar").write_bytes(b"no tar" * 1000)
    with pytest.raises(CorruptFileError, match="cannot be read as a tar"):
        content(backup)
    compressed = (backup / "a.tar").rename(backup / "a.tar.gz")
    for path in (backup, compressed):
        with pytest.raises(CorruptFileError, match="unpack it"):
            content(path)


def test_a_copy_made_amid_a_cleaning_is_refused(logs: Path, tmp_path: Path) -> None:
    log = logs / "orders-0" / file_name(0, Kind.LOG)
    log.rename(log.with_name(f"{log.name}.swap"))
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(logs, "kafka")
    with pytest.raises(CorruptFileError, match="while a broker cleaned it"):
        content(tmp_path / "a.tar")
    assert len(content(logs)) == 62


def test_a_topic_that_is_not_asked_for_may_be_in_any_state(logs: Path, tmp_path: Path) -> None:
    """The topic may be of the same cluster, or of another one."""
    others = tmp_path / "others" / "orders-0"
    others.mkdir(parents=True)
    for broker, cluster in ((logs, "one"), (others.parent, "two")):
        (broker / "meta.properties").write_text(f"version=1\ncluster.id={cluster}\n")
    for directory in (logs / "copied-0", others):
        directory.mkdir(exist_ok=True)
        (directory / f"{file_name(0, Kind.LOG)}.swap").write_bytes(batch(0))
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(logs, "kafka")
        tar.add(others.parent, "others")
    expected = content(logs, topics="orders", clusterId="one")
    assert expected
    assert content(tmp_path / "a.tar", topics="orders", clusterId="one") == expected
    with pytest.raises(CorruptFileError, match="while a broker cleaned it"):
        content(tmp_path / "a.tar", clusterId="one")


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("options", [{}, {"maxPartitionBytes": 600}, {"level": "batch"}])
@pytest.mark.parametrize("stale", [0, 1, 3])
def test_offsets_in_overlapping_segments_are_read_once(
    tmp_path: Path, options: dict[str, Any], is_packed: bool, stale: int
) -> None:
    """A cleaner has merged a segment into the one before, and what was copied has it still, whole
    or in part."""
    logs = tmp_path / "kafka"
    logs.mkdir()
    batches = [batch(offset, size=500) for offset in range(9)]
    indexed_segment(logs / "a-0", 0, *batches[:6])
    indexed_segment(logs / "a-0", 3, *batches[3 : 3 + stale])
    indexed_segment(logs / "a-0", 6, *batches[6:])
    path = tmp_path / "a.tar" if is_packed else logs
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(logs, "kafka")
    name = "baseOffset" if "level" in options else "offset"
    found = sorted(row[name] for row in rows(path, **options))
    assert found == list(range(9))


def test_checkpoints_are_copied_again_if_one_could_not_be_copied(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not taken for a broker without a high watermark."""
    (logs / "replication-offset-checkpoint").write_text("0\n1\norders 0 20\n")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(logs, "kafka")
    save, refused = Blob.save_current, []

    def refusing(blob: Blob, target: Path) -> None:
        if not refused:
            refused.append(blob)
            raise ThrottledError("throttling")
        save(blob, target)

    monkeypatch.setattr(Blob, "save_current", refusing)
    wanted = {"topics": "orders", "stopAtHighWatermark": "true"}
    with pytest.raises(ThrottledError):
        content(tmp_path / "a.tar", **wanted)
    assert [offset for _, _, offset, _ in content(tmp_path / "a.tar", **wanted)] == list(
        range(3, 20)
    )


@pytest.mark.parametrize("now", [["a 0 100"], ["a 0 1000", "b 0 7"], ["a 0 10000", "b 0 7"]])
def test_a_checkpoint_that_is_replaced_after_it_was_listed_is_read_as_it_is_then(
    tmp_path: Path, now: list[str]
) -> None:
    """The first bytes of a longer one may end within an offset: 10 in place of 10000."""
    path = tmp_path / "replication-offset-checkpoint"
    listed = "0\n2\nb 0 70\na 0 1000\n"
    blob = Blob(str(path), len(listed))
    text = f"0\n{len(now)}\n" + "".join(f"{line}\n" for line in reversed(now))
    path.write_text(text)
    broker = Path(broker_of({path.name: blob}))
    assert (broker / path.name).read_text() == text
    side = ("leader-epoch-checkpoint", blob)
    with staged(PartitionLog(TopicPartition("a", 0), "", 0, (), str(broker), (side,)), ()) as found:
        assert (found / side[0]).read_text() == text
    forget(str(broker))


@pytest.mark.parametrize("is_there", [True, False])
def test_checkpoints_that_another_thread_has_just_copied_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    path, rename = tmp_path / "replication-offset-checkpoint", Path.rename
    path.write_text(f"0\n1\na 0 {7 if is_there else 8}\n")

    def late(part: Path, target: Path) -> Path:
        if not is_there:
            raise OSError("no space left")
        shutil.copytree(part, target)
        return rename(part, target)

    monkeypatch.setattr(Path, "rename", late)
    files = {path.name: Blob(str(path), path.stat().st_size)}
    if is_there:
        broker = Path(broker_of(files))
        assert (broker / path.name).read_text() == path.read_text()
        forget(str(broker))
    else:
        with pytest.raises(OSError, match="no space left"):
            broker_of(files)


def test_a_segment_is_read_itself_where_its_gzipped_copy_is_not_finished(tmp_path: Path) -> None:
    """gzip removes the file last. A tar has both in any order."""
    logs = tmp_path / "logs"
    log = partition(logs, batch(0, 1), "a-0") / file_name(0, Kind.LOG)
    part = log.with_name(f"{log.name}.gz")
    part.write_bytes(gzip.compress(log.read_bytes())[:20])
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for file in (part, log):
            tar.add(file, f"a-0/{file.name}")
    assert [row["offset"] for row in rows(tmp_path / "a.tar")] == [0, 1]


def test_a_file_system_of_fsspec_whose_names_begin_with_a_slash(logs: Path, tmp_path: Path) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.put(f"{logs}/", f"/{tmp_path.name}/", recursive=True)
    assert content(f"memory://{tmp_path.name}") == content(logs)
    memory.rm(f"/{tmp_path.name}", recursive=True)


@pytest.mark.parametrize("name", ["a#b", "a%20b", "a b", "100%", "ä+b"])
def test_a_folder_may_have_any_name(logs: Path, tmp_path: Path, name: str) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.put(f"{logs}/", f"/{tmp_path.name}/{name}/", recursive=True)
    for end in ("", "/orders-*", "/other-1"):
        found = content(f"memory://{tmp_path.name}/{quote(name)}{end}")
        assert sorted(found) == sorted(content(f"{logs}{end}"))
    memory.rm(f"/{tmp_path.name}", recursive=True)


@pytest.mark.parametrize("path", ["orders-0", "orders-*", "{orders-0,other-1}", "orders-0/"])
def test_the_checkpoints_beside_a_folder_that_is_named_itself_count(
    logs: Path, tmp_path: Path, path: str
) -> None:
    """As in a mounted directory."""
    (logs / "replication-offset-checkpoint").write_text("0\n2\norders 0 20\nother 1 2\n")
    (logs / "meta.properties").write_text("version=1\ncluster.id=two\n")
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.put(f"{logs}/", f"/{tmp_path.name}/", recursive=True)
    options = {"topics": "orders", "stopAtHighWatermark": "true", "clusterId": "two"}
    for uri in (f"{logs}/{path}", f"memory://{tmp_path.name}/{path}"):
        assert [offset for _, _, offset, _ in content(uri, **options)] == list(range(3, 20))
    memory.rm(f"/{tmp_path.name}", recursive=True)


def test_the_files_beside_a_folder_may_be_forbidden(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.put(f"{logs}/orders-0", f"/{tmp_path.name}/orders-0", recursive=True)
    info = memory.info

    def refusing(path: str, **options: Any) -> Any:
        if "orders-0" not in path:
            raise PermissionError(path)
        return info(path, **options)

    monkeypatch.setattr(type(memory), "info", lambda _, path, **options: refusing(path, **options))
    assert len(content(f"memory://{tmp_path.name}/orders-0")) == 60
    monkeypatch.undo()
    memory.rm(f"/{tmp_path.name}", recursive=True)


def test_the_default_file_system_of_hadoop_needs_no_host(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory of this machine takes its place."""
    hosts: list[str] = []

    def opened(host: str) -> fs.FileSystem:
        hosts.append(host)
        return fs.LocalFileSystem()

    monkeypatch.setattr(fs, "HadoopFileSystem", opened)
    file_systems.file_system.cache_clear()
    assert content(f"hdfs://{logs}") == content(logs)
    assert content(f"hdfs://{logs}/ot*") == content(logs / "other-1")
    assert set(hosts) == {"default"}
    file_systems.file_system.cache_clear()


def test_a_brokers_disks_side_by_side(logs: Path, tmp_path: Path) -> None:
    wanted = content(logs)
    second = tmp_path / "disk2"
    second.mkdir()
    shutil.copy(logs / "meta.properties", second)
    (logs / "other-1").rename(second / "other-1")
    # A move from disk to disk that has not ended: Kafka goes on with the old one.
    moving = second / "orders-0.0123456789abcdef0123456789abcdef-future"
    shutil.copytree(logs / "orders-0", moving)
    found = find_partitions([str(logs), str(second)])
    assert [log.directory for log in found] == [str(logs / "orders-0"), str(second / "other-1")]
    assert sorted(content(tmp_path)) == sorted(wanted)


def test_a_directory_of_deleted_segments_only_hides_nothing(tmp_path: Path) -> None:
    """As a broker leaves it for a minute: in a tar, and after it was listed."""
    logs = tmp_path / "logs"
    partition(logs, batch(0, 1), "a-0")
    partition(logs, batch(0, 2), "a-1").joinpath(file_name(0, Kind.LOG)).rename(
        logs / "a-1" / f"{file_name(0, Kind.LOG)}.deleted"
    )
    assert [row["offset"] for row in rows(packed(logs))] == [0, 1]
    assert [row["offset"] for row in rows(logs)] == [0, 1]
    assert read_partition(TopicPartition("a", 1), str(logs / "a-1")).segments == ()
