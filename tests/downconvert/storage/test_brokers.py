"""Directories that brokers from 0.8 to 3.9 wrote: we read the same records as their consumers."""

import shutil
from pathlib import Path
from typing import Final

import pytest

from downconvert.storage import Log, LogConfig, LogDir, TopicPartition
from downconvert.storage.names import Kind
from downconvert.storage.producers.producer_state import read_snapshot
from records.checksum import verify_checksum

from . import brokers
from .logs import UNSYNCED

# Topics whose indexes may have an entry every 512 bytes; the others have Kafka's 4,096.
DENSE: Final = {"rolled", "rolled-gzip", "rolled-lat", "trimmed", "f010-rolled", "f09-rolled"}
SPARSE_INTERVAL, DENSE_INTERVAL = 4096, 512


@pytest.mark.parametrize("directory", brokers.directories())
def test_records_equal_those_read_by_a_consumer_of_the_same_version(
    real: Path, directory: str
) -> None:
    assert_as_read(real / directory, directory)


@pytest.mark.parametrize("directory", brokers.directories())
def test_reading_changes_nothing_in_a_directory(real: Path, directory: str) -> None:
    before = files(real / directory)
    with LogDir.open(real / directory) as log_dir:
        for log in log_dir.logs.values():
            list(log.records(isolation="read_committed"))
            log.offset_for(0)
            assert log.damage is None
    assert files(real / directory) == before


@pytest.mark.parametrize("directory", brokers.directories())
def test_recovery_of_an_undamaged_log_loses_nothing(
    real: Path, tmp_path: Path, directory: str
) -> None:
    path = copy_unclean(real / directory, tmp_path)
    logs = {name: data for name, data in files(path).items() if name.endswith(".log")}
    with LogDir.open(path, writable=True, files=UNSYNCED) as log_dir:
        for log in log_dir.logs.values():
            assert log.writer.recovery.checked
            assert log.writer.recovery.bytes_cut == 0
    after = files(path)
    assert {name: after[name] for name in after if name.endswith(".log")} == logs
    assert_as_read(path, directory)


@pytest.mark.parametrize("version", ["3.9.1", "3.9.1-zk-ibp2.8"])
def test_recovery_makes_the_files_that_the_broker_wrote(
    real: Path, tmp_path: Path, version: str
) -> None:
    """Byte for byte: since 3.9, who appends decides about index entries as one who recovers."""
    path = copy_unclean(real / version / "log", tmp_path)
    for directory in sorted(path.glob("*-[0-9]")):
        dense = directory.name.rpartition("-")[0] in DENSE
        config = LogConfig(index_interval_bytes=DENSE_INTERVAL if dense else SPARSE_INTERVAL)
        Log.open(directory, writable=True, config=config, files=UNSYNCED).close()
    compared = 0
    for name, data in files(real / version / "log").items():
        kind, topic = Path(name).suffix, Path(name).parts[0].rpartition("-")[0]
        if kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
            assert (path / name).read_bytes() == data, name
        elif kind == Kind.SNAPSHOT:  # of which the order is that of a hash table
            expected = read_snapshot(real / version / "log" / name)
            assert read_snapshot(path / name).producers == expected.producers, name
        elif kind == Kind.TRANSACTION_INDEX and not topic.startswith("compact"):
            assert (path / name).read_bytes() == data, name  # cleaning loses what was aborted
        else:
            continue
        compared += 1
    assert compared > 80


@pytest.mark.parametrize("directory", brokers.directories())
def test_every_offset_is_found_through_the_indexes(real: Path, directory: str) -> None:
    """The meaning of that version's index entries does not matter."""
    with LogDir.open(real / directory) as log_dir:
        for dump, partition, expected in brokers.read_from(directory):
            if dump.committed:
                continue  # some of the same offsets
            log = log_dir.logs[partition]
            for offset in [line["o"] for line in expected[::7]]:
                found = log.read(offset, 1)
                header = next(found.batches())
                assert header.last_offset >= offset, partition
                assert found.size == header.size
                verify_checksum(found, header)
                assert next(log.records(offset)).offset == offset


@pytest.mark.parametrize("directory", brokers.directories())
def test_the_first_record_of_a_time_is_found_in_every_version(real: Path, directory: str) -> None:
    """The contents of that version's time index do not matter, and it may be missing."""
    with LogDir.open(real / directory) as log_dir:
        for dump, partition, expected in brokers.read_from(directory):
            if dump.committed:
                continue
            log = log_dir.logs[partition]
            times = sorted({line["t"] for line in expected})
            for time in [t + d for t in times[:: max(1, len(times) // 20)] for d in (-1, 0, 1)]:
                if time >= 0:
                    first = next((line["o"] for line in expected if line["t"] >= time), None)
                    assert log.offset_for(time) == first, (partition, time)


def test_a_log_starts_after_the_deleted_records(real: Path) -> None:
    with LogDir.open(real / "3.9.1" / "log") as log_dir:
        log = log_dir.logs[TopicPartition("trimmed", 0)]
        assert log.segments[0].base_offset == 170
        assert log.start_offset == 178
        assert next(log.records()).offset == 178


def copy_unclean(source: Path, tmp_path: Path) -> Path:
    """As if everything had been written since the last flush."""
    path = tmp_path / "log"
    shutil.copytree(source, path)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (path / name).unlink(missing_ok=True)
    return path


def assert_as_read(path: Path, directory: str) -> None:
    with LogDir.open(path) as log_dir:
        for dump, partition, expected in brokers.read_from(directory):
            found = log_dir.logs[partition].records(isolation=dump.isolation)
            assert [brokers.line(record) for record in found] == expected, dump


def files(path: Path) -> dict[str, bytes]:
    """The files below a directory."""
    return {str(f.relative_to(path)): f.read_bytes() for f in path.rglob("*") if f.is_file()}
