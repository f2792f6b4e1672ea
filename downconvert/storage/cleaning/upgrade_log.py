"""Rewrites logs so that all of their batches are v2, as brokers since 4.0 require.

Segments keep their base offsets, and get new indexes. All other files of a directory are copied.
The result is then read again, and compared with its source record for record. Only after that, and
only if requested, does it replace the old directory.

Not here: one batch (upgrade.py)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Final

from downconvert.storage.config import LogConfig
from downconvert.storage.disk.files import DISK, Files, replace_file
from downconvert.storage.disk.open_files import OpenFiles
from downconvert.storage.errors import StorageError
from downconvert.storage.log import Log
from downconvert.storage.names import (
    CLEAN_SHUTDOWN,
    LOCK,
    Kind,
    State,
    parse_file_name,
    parse_partition,
)
from downconvert.storage.segments.segment import Segment
from downconvert.storage.segments.segment_writer import SegmentWriter
from downconvert.storage.session import DirectoryLock
from records import MemoryRecords
from records.batches.reader import Record, read

from .upgrade import UpgradeCount, upgrade_batches, upgraded

IN_WORK_SUFFIX: Final = ".upgraded"
BEFORE_SUFFIX: Final = ".before-upgrade"
REMADE: Final = {Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX}
NOT_COPIED: Final = {LOCK, CLEAN_SHUTDOWN}
Note = Callable[[str], None]


class UpgradeError(StorageError):
    """The result differs from its source, or cannot be made. The source is unchanged."""


@dataclass(slots=True)
class Upgrade:
    """The results of an upgrade, by the names of the partitions' directories."""

    partitions: dict[str, UpgradeCount] = field(default_factory=dict)

    @property
    def total(self) -> UpgradeCount:
        total = UpgradeCount()
        for count in self.partitions.values():
            total.add(count)
        return total


def survey_upgrade(source: Path, note: Note = lambda _: None) -> Upgrade:
    """The results of an upgrade. Converts everything and writes nothing.

    `source` is a broker's directory, or one partition's. `note` is called with each partition."""
    done = Upgrade()
    for directory in _partitions(source):
        note(directory.name)
        count = done.partitions[directory.name] = UpgradeCount()
        with _open(directory) as log:
            for segment in log.segments:
                for _ in upgrade_batches(segment.slice(0, log.end_of(segment)), count):
                    pass
    return done


def upgrade(
    source: Path,
    target: Path,
    *,
    config: LogConfig | None = None,
    files: Files = DISK,
    note: Note = lambda _: None,
) -> Upgrade:
    """Writes the upgraded `source` to `target`, which must not exist, and compares the two.

    CorruptRecordsError: the source is damaged, and must be recovered first."""
    if target.exists():
        raise UpgradeError(f"{target} is already there")
    done = Upgrade()
    partitions = _partitions(source)
    files.make_directory(target)
    if partitions != [source]:
        _copy_others(source, target, files)
    for directory in partitions:
        note(directory.name)
        into = target if directory == source else target / directory.name
        files.make_directory(into)
        done.partitions[directory.name] = _rewrite(directory, into, config or LogConfig(), files)
        _compare(directory, into)
    if (source / CLEAN_SHUTDOWN).exists():
        replace_file(files, target / CLEAN_SHUTDOWN, (source / CLEAN_SHUTDOWN).read_bytes())
    files.sync_directory(target.parent)
    return done


def upgrade_in_place(
    source: Path,
    *,
    config: LogConfig | None = None,
    files: Files = DISK,
    note: Note = lambda _: None,
) -> tuple[Upgrade, Path]:
    """Upgrades into a new directory, and renames both. The old directory is kept. Returns its path.

    LogInUseError: a broker has the directory open."""
    if source.is_symlink() and _is_partition(source):
        raise UpgradeError(f"{source} is a link: name the directory that it leads to")
    source = source.resolve()
    lock = DirectoryLock(source.parent if _is_partition(source) else source)
    try:
        target = source.with_name(source.name + IN_WORK_SUFFIX)
        before = source.with_name(source.name + BEFORE_SUFFIX)
        if before.exists():
            raise UpgradeError(f"{before} is already there, from an earlier upgrade")
        done = upgrade(source, target, config=config, files=files, note=note)
        files.rename(source, before)
        files.rename(target, source)
        files.sync_directory(source.parent)
    finally:
        lock.release()
    return done, before


def _rewrite(source: Path, target: Path, config: LogConfig, files: Files) -> UpgradeCount:
    count, open_files = UpgradeCount(), OpenFiles()
    with _open(source) as log:
        _copy_others(source, target, files)
        for segment in log.segments:
            base_offset = segment.base_offset
            made = Segment(target, base_offset, open_files)
            writer = SegmentWriter(made, 0, base_offset, config, files)
            for data in upgrade_batches(segment.slice(0, log.end_of(segment)), count):
                headers = list(MemoryRecords(data).batches())
                writer.append(data, headers, headers[-1].last_offset + 1, [])
            writer.close()
            made.release()
    files.sync_directory(target)
    return count


def _compare(source: Path, target: Path) -> None:
    with _open(source) as old, _open(target) as new:
        for before, after in zip_longest(_records(old), _records(new)):
            if before is None or after is None:
                raise UpgradeError(f"{target} has more or fewer records than {source}")
            if upgraded(before) != after:
                where = f"the record at offset {before.offset}"
                raise UpgradeError(f"{target}: {where} is not as it was")
        if old.end_offset != new.end_offset:
            raise UpgradeError(f"{target} ends at {new.end_offset} and not at {old.end_offset}")


def _records(log: Log) -> Iterator[Record]:
    """All records on the disk, including those before the log's start."""
    for segment in log.segments:
        yield from read(segment.slice(0, log.end_of(segment)))


def _open(directory: Path) -> Log:
    log = Log.open(directory)
    if log.damage is not None:
        log.close()
        raise log.damage
    return log


def _partitions(source: Path) -> list[Path]:
    if _is_partition(source):
        return [source]
    return sorted(p for p in source.iterdir() if parse_partition(p.name) and p.is_dir())


def _is_partition(path: Path) -> bool:
    return any(path.glob("*.log"))


def _copy_others(source: Path, target: Path, files: Files) -> None:
    for path in sorted(source.iterdir()):
        name = parse_file_name(path.name)
        remade = name is not None and (name.kind in REMADE or name.state is not State.LIVE)
        if path.is_file() and not remade and path.name not in NOT_COPIED:
            replace_file(files, target / path.name, path.read_bytes())
