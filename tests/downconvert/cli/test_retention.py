"""`downconvert retention` removes old segments and names them."""

import json
import time
from pathlib import Path

import pytest

from downconvert.storage import LogConfig, LogDir, TopicPartition
from tests.downconvert.storage.logs import UNSYNCED, batch

from .running import Command, one_line

HOUR = 3_600_000


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log of five segments of one batch, one for each of the last hours."""
    now = int(time.time() * 1000)
    config = LogConfig(segment_bytes=len(batch(0)))
    with LogDir.open(tmp_path, writable=True, config=config, files=UNSYNCED) as log_dir:
        log = log_dir.logs.create(TopicPartition("clicks", 0))
        for offset in range(5):
            log.writer.append(batch(offset, timestamp=now - (5 - offset) * HOUR + HOUR // 2))
    return tmp_path


def start(log_dir: Path) -> int:
    with LogDir.open(log_dir) as opened:
        return opened.logs[TopicPartition("clicks", 0)].start_offset


def test_segments_are_removed_by_age_and_by_size(log_dir: Path, command: Command) -> None:
    dry = command("retention", "--dry-run", "--retention-ms", 3 * HOUR, log_dir / "clicks-0")
    size = 2 * len(batch(0))
    assert dry.out == f"clicks-0: 2 segments of {size} B to remove (retention.ms=10800000)\n"
    assert start(log_dir) == 0
    ran = command("retention", "--retention-ms", 3 * HOUR, log_dir / "clicks-0")
    assert "2 segments" in ran.out
    assert ran.out.endswith(" removed (retention.ms=10800000), the log begins at offset 2\n")
    again = command("retention", "--retention-ms", 3 * HOUR, log_dir / "clicks-0")
    assert again.out == "clicks-0: nothing to remove\n"
    by_size = command(
        "retention", "--json", "--topic", "clicks", "--retention-bytes", len(batch(0)), log_dir
    )
    assert json.loads(by_size.out)["startOffset"] == start(log_dir) == 4


def test_a_limit_is_required(log_dir: Path, command: Command) -> None:
    assert "give --retention-ms" in one_line(command("retention", log_dir / "clicks-0").err)
