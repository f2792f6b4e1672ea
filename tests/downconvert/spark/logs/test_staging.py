"""The files of a log are copied as far as needed, and look like a directory of a broker."""

from pathlib import Path

import pytest

from downconvert.spark.logs.segment_files import PartitionLog, SegmentFile
from downconvert.spark.logs.staging import staged, trimmed
from downconvert.spark.logs.trees import find_partitions
from downconvert.spark.stores.blobs import Blob
from downconvert.storage import AbortedTransaction, TopicPartition
from downconvert.storage.disk.files import DISK
from downconvert.storage.indexes.transaction_index import TransactionIndex
from downconvert.storage.names import LEADER_EPOCHS, PARTITION_METADATA, Kind, State, file_name
from tests.downconvert.storage.logs import batch, indexed_segment

NAME = TopicPartition("t", 0)
MODIFIED = 1_600_000_000_000_000_000
KINDS = (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX)


def stored(directory: Path, base: int, end: int, *, is_clipped: bool = False) -> SegmentFile:
    """A segment whose files are somewhere else."""
    blobs = []
    for kind in KINDS:
        path = directory / file_name(base, kind)
        if path.exists():
            blobs.append((kind, Blob(str(path), path.stat().st_size, modified=MODIFIED)))
    size = (directory / file_name(base, Kind.LOG)).stat().st_size
    return SegmentFile("elsewhere", base, State.LIVE, size, end, tuple(blobs), is_clipped)


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Segments 0-19, 20-39 and 40-59 of batches of two records; 40 has an aborted transaction."""
    path = tmp_path / "there"
    for base in (0, 20, 40):
        found = (batch(n, n + 1) for n in range(base, base + 20, 2))
        indexed_segment(path, base, *found, interval=200)
    index = TransactionIndex(path / file_name(40, Kind.TRANSACTION_INDEX), 40, DISK)
    index.append(AbortedTransaction(1, 41, 45, 45))
    index.close()
    return path


@pytest.fixture
def log(there: Path) -> PartitionLog:
    files = tuple(stored(there, base, base + 20) for base in (0, 20, 40))
    return PartitionLog(NAME, "elsewhere", 0, files, broker="")


@pytest.mark.parametrize(
    ("wanted", "left"), [([0], [0, 20, 40]), ([20], [20, 40]), ([40], [40]), ([0, 40], [0, 20, 40])]
)
def test_a_task_gets_its_segments_the_next_ones_and_aborted_transactions(
    log: PartitionLog, wanted: list[int], left: list[int]
) -> None:
    found = trimmed(log, wanted)
    assert [file.base_offset for file in found.segments] == left


def test_transactions_before_a_task_do_not_come_along(there: Path) -> None:
    index = TransactionIndex(there / file_name(0, Kind.TRANSACTION_INDEX), 0, DISK)
    index.append(AbortedTransaction(1, 1, 5, 5))
    index.close()
    files = tuple(stored(there, base, base + 20) for base in (0, 20, 40))
    found = trimmed(PartitionLog(NAME, "elsewhere", 0, files, broker=""), [20])
    assert [file.base_offset for file in found.segments] == [20, 40]


def test_only_the_wanted_segments_are_copied_and_the_others_are_empty(
    log: PartitionLog, there: Path
) -> None:
    with staged(log, [20]) as directory:
        assert directory.name == "t-0"
        for kind in (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX):
            name = file_name(20, kind)
            assert (directory / name).read_bytes() == (there / name).read_bytes()
        for base in (0, 40):
            assert (directory / file_name(base, Kind.LOG)).read_bytes() == b""
        name = file_name(40, Kind.TRANSACTION_INDEX)
        assert (directory / name).read_bytes() == (there / name).read_bytes()
    assert not directory.exists()


@pytest.mark.parametrize(("end", "count"), [(20, 10), (12, 6), (11, 6), (1, 1), (0, 0)])
def test_a_clipped_log_ends_where_the_next_one_begins(there: Path, end: int, count: int) -> None:
    """A batch that begins before that is whole."""
    file = stored(there, 0, end, is_clipped=True)
    log = PartitionLog(NAME, "elsewhere", 0, (file,), broker="")
    with staged(log, [0]) as directory:
        path = directory / file_name(0, Kind.LOG)
        one = len(batch(0, 1))
        whole = (there / file_name(0, Kind.LOG)).read_bytes()
        assert path.read_bytes() == whole[: count * one]
        assert path.stat().st_mtime_ns == MODIFIED


def test_mounted_segments_of_a_log_in_several_places_are_linked(there: Path) -> None:
    (there / file_name(20, Kind.SNAPSHOT)).write_bytes(b"snapshot")
    here = SegmentFile(str(there), 20, State.LIVE, 1, 40)
    files = (stored(there, 0, 20), here)
    checkpoints = there.parent / "broker"
    checkpoints.mkdir()
    (checkpoints / "meta.properties").write_bytes(b"meta")
    (there.parent / "side").write_bytes(b"epochs")
    side = Blob(str(there.parent / "side"), 6)
    log = PartitionLog(
        NAME, "elsewhere", 0, files, str(checkpoints), (("leader-epoch-checkpoint", side),)
    )
    with staged(log, []) as directory:
        assert (directory / "leader-epoch-checkpoint").read_bytes() == b"epochs"
        assert (directory.parent / "meta.properties").read_bytes() == b"meta"
        for kind in (Kind.LOG, Kind.SNAPSHOT):
            path = directory / file_name(20, kind)
            assert path.readlink() == there / path.name


def test_a_log_of_two_directories_has_the_small_files_of_its_leader(tmp_path: Path) -> None:
    for name in ("b1", "b2"):
        (tmp_path / name).mkdir()
    indexed_segment(tmp_path / "b1" / "a-0", 2, batch(2, leader_epoch=3))
    indexed_segment(tmp_path / "b2" / "a-0", 0, batch(0), batch(1))
    texts = {
        LEADER_EPOCHS: "0\n2\n0 0\n3 2\n",
        PARTITION_METADATA: f"version: 0\ntopic_id: {'A' * 21}Q",
    }
    for name, text in texts.items():
        (tmp_path / "b1" / "a-0" / name).write_text(text)
    (tmp_path / "b2" / "a-0" / LEADER_EPOCHS).write_text("0\n1\n0 0\n")
    (log,) = find_partitions([str(tmp_path)])
    assert [file.base_offset for file in log.segments] == [0, 2]
    with staged(log, ()) as directory:
        assert {name: (directory / name).read_text() for name in texts} == texts


def test_a_mounted_log_is_used_where_it_is(there: Path) -> None:
    files = (SegmentFile(str(there), 0, State.LIVE, 1, 20),)
    with staged(PartitionLog(NAME, str(there), 0, files), [0]) as directory:
        assert directory == there
    assert there.exists()
