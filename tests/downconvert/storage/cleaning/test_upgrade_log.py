"""Directories of old formats become directories of v2, or stay unchanged."""

from itertools import count
from pathlib import Path
from shutil import copytree

import pytest

from downconvert.storage import Log, LogDir, LogInUseError
from downconvert.storage.cleaning.upgrade_log import (
    UpgradeError,
    survey_upgrade,
    upgrade,
    upgrade_in_place,
)
from downconvert.storage.disk.faulty_disk import FaultyDisk
from downconvert.storage.errors import DiskFullError
from downconvert.storage.session import DirectoryLock
from records import CorruptRecordsError
from records.formats import V2, TimestampType
from records.record import Record
from tests.downconvert.storage import brokers
from tests.downconvert.storage.logs import UNSYNCED, batch, indexed_segment, offsets


@pytest.mark.parametrize("directory", brokers.directories())
def test_directories_of_all_versions_are_upgraded(
    real: Path, tmp_path: Path, directory: str
) -> None:
    source, target = real / directory, tmp_path / "out"
    done = upgrade(source, target, files=UNSYNCED)
    assert survey_upgrade(source) == done
    with LogDir.open(source) as old, LogDir.open(target) as new:
        assert list(old.logs) == list(new.logs)
        for partition, before in old.logs.items():
            after = new.logs[partition]
            assert (after.start_offset, after.end_offset) == (
                before.start_offset,
                before.end_offset,
            )
            assert after.last_stable_offset == before.last_stable_offset
            assert all(header.magic == V2 for _, header in after.batches())
            for isolation in ("read_uncommitted", "read_committed"):
                expected = [_in_v2(r) for r in before.records(isolation=isolation)]  # type: ignore[arg-type]
                assert list(after.records(isolation=isolation)) == expected  # type: ignore[arg-type]
    names = {path.name for path in source.iterdir()} - {".lock"}
    assert {path.name for path in target.iterdir()} == names


def _in_v2(record: Record) -> Record:
    if record.timestamp_type is TimestampType.NONE:
        create = TimestampType.CREATE
        return Record(record.offset, -1, create, record.key, record.value, (), -1)
    return record


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "topic-0"
    path.mkdir()
    for base in (0, 10):
        indexed_segment(path, base, *(batch(n, magic=1) for n in range(base, base + 5)))
    (path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return path


def files(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_a_partitions_directory_may_be_upgraded_alone(source: Path, tmp_path: Path) -> None:
    before = files(source)
    done = upgrade(source, tmp_path / "out-0", files=UNSYNCED)
    assert list(done.partitions) == ["topic-0"]
    assert (done.total.batches_in, done.total.batches_out) == (10, 2)
    assert files(source) == before
    assert set(files(tmp_path / "out-0")) == set(before)
    log = Log.open(tmp_path / "out-0")
    assert [segment.base_offset for segment in log.segments] == [0, 10]
    assert offsets(log.records()) == [*range(5), *range(10, 15)]


def test_a_dry_run_writes_nothing(source: Path) -> None:
    before = files(source)
    assert survey_upgrade(source).total.records_converted == 10
    assert files(source) == before


def test_an_upgrade_in_place_keeps_the_old_directory(source: Path) -> None:
    before = files(source)
    done, kept = upgrade_in_place(source, files=UNSYNCED)
    assert done.total.batches_converted == 10
    assert files(kept) == before
    assert all(header.magic == V2 for _, header in Log.open(source).batches())
    with pytest.raises(UpgradeError, match="from an earlier upgrade"):
        upgrade_in_place(source, files=UNSYNCED)


def test_a_directory_that_is_in_use_is_not_upgraded_in_place(source: Path) -> None:
    lock = DirectoryLock(source.parent)
    with pytest.raises(LogInUseError):
        upgrade_in_place(source, files=UNSYNCED)
    lock.release()


def test_existing_targets_are_never_overwritten(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out-0").mkdir()
    with pytest.raises(UpgradeError, match="already there"):
        upgrade(source, tmp_path / "out-0", files=UNSYNCED)


def test_a_damaged_log_must_be_recovered_first(source: Path) -> None:
    before = files(source)
    log = source / "00000000000000000010.log"
    log.write_bytes(log.read_bytes() + b"x" * 50)
    with pytest.raises(CorruptRecordsError, match="unknown magic"):
        upgrade_in_place(source, files=UNSYNCED)
    assert set(files(source)) == set(before)


def test_a_difference_between_source_and_result_is_noticed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "downconvert.storage.cleaning.upgrade_log.upgraded", lambda record: record.key
    )
    with pytest.raises(UpgradeError, match="the record at offset 0 is not as it was"):
        upgrade(source, tmp_path / "out-0", files=UNSYNCED)


def test_a_full_disk_at_any_step_leaves_the_source_unchanged(source: Path, tmp_path: Path) -> None:
    before = files(source)
    needing_room = []
    for full_from in count(1):
        directory = tmp_path / f"full-from-{full_from}" / source.name
        copytree(source, directory)
        try:
            upgrade_in_place(directory, files=FaultyDisk(directory.parent, full_from=full_from))
        except DiskFullError as error:
            needing_room.append(Path(error.path))
            assert files(directory) == before
        else:
            break  # nothing that was left to do needed room
    assert {path.name.removesuffix(".tmp") for path in needing_room} >= {
        "topic-0.upgraded",
        "leader-epoch-checkpoint",
        *(f"{base:020}.{suffix}" for base in (0, 10) for suffix in ("log", "index", "timeindex")),
    }


def test_files_that_do_not_count_are_not_copied(source: Path, tmp_path: Path) -> None:
    """Leftovers of the source would be leftovers of another log."""
    before = set(files(source))
    for kind in ("log", "index", "timeindex", "txnindex", "snapshot"):
        for state in ("deleted", "cleaned", "tmp"):
            (source / f"{10:020}.{kind}.{state}").touch()
    upgrade(source, tmp_path / "out-0", files=UNSYNCED)
    assert set(files(tmp_path / "out-0")) == before
