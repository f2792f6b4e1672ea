"""`downconvert dump` of indexes, snapshots and checkpoints, and of their fitting the log."""

import json
from pathlib import Path
from struct import pack

import pytest

from .conftest import batch
from .running import Command, one_line


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    path = tmp_path / "topic-0"
    path.mkdir()
    (path / "00000000000000000000.log").write_bytes(batch(0) + batch(3))
    (path / "00000000000000000000.index").write_bytes(pack(">ii", 5, len(batch(0))))
    (path / "00000000000000000000.timeindex").write_bytes(pack(">qi", 1002, 2))
    (path / "leader-epoch-checkpoint").write_text("0\n1\n4 0\n")
    return path


def test_entries_are_printed_as_kafka_prints_them(partition: Path, command: Command) -> None:
    index = partition / "00000000000000000000.index"
    ran = command("dump", index, partition / "leader-epoch-checkpoint")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        f"Dumping {index}",
        f"offset: 5 position: {len(batch(0))}",
        f"Dumping {partition / 'leader-epoch-checkpoint'}",
        "epoch: 4 startOffset: 0",
    ]


def test_entries_as_json(partition: Path, command: Command) -> None:
    index = partition / "00000000000000000000.timeindex"
    ran = command("dump", "--json", index)
    assert json.loads(ran.out) == {
        "type": "entry",
        "file": str(index),
        "timestamp": 1002,
        "offset": 2,
    }


def test_all_prints_the_small_files_of_a_directory(partition: Path, command: Command) -> None:
    assert "startOffset" not in command("dump", "--batches", partition).out
    ran = command("dump", "--batches", "--all", partition.parent)
    for words in ("startOffset: 0", "timestamp: 1002 offset: 2", "baseOffset: 3"):
        assert words in ran.out


def test_an_index_that_fits_its_log_is_fine(partition: Path, command: Command) -> None:
    assert command("dump", "--batches", "--verify", partition).code == 0
    assert command("dump", "--verify", partition / "00000000000000000000.index").code == 0


def test_a_misleading_index_is_reported(partition: Path, command: Command) -> None:
    index = partition / "00000000000000000000.index"
    index.write_bytes(pack(">ii", 5, 7))
    for path in (partition, index):
        ran = command("dump", "--batches", "--verify", path)
        assert ran.code == 2
        words = f"{index}: entry 0 (offset 5, position 7): no batch begins there"
        assert one_line(ran.err) == f"downconvert: {words}"


def test_a_damaged_file_is_reported_in_one_line(tmp_path: Path, command: Command) -> None:
    snapshot = tmp_path / "00000000000000000000.snapshot"
    snapshot.write_bytes(bytes(10))
    ran = command("dump", snapshot)
    assert ran.code == 2
    assert "version 0 is not known" in one_line(ran.err)
