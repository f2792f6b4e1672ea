"""`downconvert compact`: the last record of each key stays."""

import json
from pathlib import Path

import pytest

from downconvert.storage import LogConfig, LogDir, TopicPartition
from records.batches.builder import build
from records.formats import V2, TimestampType
from records.record import Record
from tests.downconvert.storage.logs import UNSYNCED

from .running import Command, one_line


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two topics of 20 records of two keys, and one of the broker's own."""
    config = LogConfig(segment_bytes=200)
    with LogDir.open(tmp_path, writable=True, config=config, files=UNSYNCED) as log_dir:
        for topic in ("prices", "state", "__consumer_offsets"):
            log = log_dir.logs.create(TopicPartition(topic, 0))
            for offset in range(20):
                key = b"%d" % (offset % 2)
                record = Record(offset, offset, TimestampType.CREATE, key, b"v")
                log.writer.append(build([record], magic=V2))
    return tmp_path


def offsets(directory: Path, topic: str) -> list[int]:
    with LogDir.open(directory) as log_dir:
        return [record.offset for record in log_dir.logs[TopicPartition(topic, 0)].records()]


def test_one_partition_is_compacted(log_dir: Path, command: Command) -> None:
    ran = command("compact", log_dir / "prices-0")
    assert ran.code == 0
    assert ran.out.startswith("prices-0: 18 to 2 records, ")
    assert ran.out.endswith(" up to offset 18\n")
    assert offsets(log_dir, "prices") == [16, 17, 18, 19]
    assert len(offsets(log_dir, "state")) == 20


def test_roll_also_compacts_the_newest_segment(log_dir: Path, command: Command) -> None:
    command("compact", "--roll", log_dir / "prices-0")
    assert offsets(log_dir, "prices") == [18, 19]


def test_more_keys_than_the_buffer_holds_take_several_passes(
    log_dir: Path, command: Command
) -> None:
    command("compact", "--buffer", "50B", "--roll", log_dir / "prices-0")
    assert offsets(log_dir, "prices") == [18, 19]


def test_topics_of_a_log_directory_are_chosen_by_name(log_dir: Path, command: Command) -> None:
    assert "say which topics with --topic" in one_line(command("compact", log_dir).err)
    ran = command("compact", "--json", "--topic", "*", log_dir)
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert [line["partition"] for line in lines] == ["prices-0", "state-0"]
    assert {line["cleanedUpTo"] for line in lines} == {18}
    assert len(offsets(log_dir, "__consumer_offsets")) == 20
    command("compact", "--topic", "__consumer_offsets", log_dir)
    assert len(offsets(log_dir, "__consumer_offsets")) == 4
    assert "has no topic none" in one_line(command("compact", "--topic", "none", log_dir).err)


def test_a_dry_run_changes_nothing(log_dir: Path, command: Command) -> None:
    before = {file: file.read_bytes() for file in log_dir.rglob("*") if file.is_file()}
    ran = command("compact", "--dry-run", log_dir / "prices-0")
    assert ran.out.startswith("prices-0: 9 segments of ")
    assert {file: file.read_bytes() for file in log_dir.rglob("*") if file.is_file()} == before
