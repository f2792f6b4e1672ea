"""Checkpoints: read as brokers write them, written as brokers read them, and never half."""

from pathlib import Path
from random import Random

import pytest

from downconvert.storage import CorruptFileError, TopicPartition
from downconvert.storage.checkpoints.checkpoint import (
    EpochEntry,
    read_epochs,
    read_offsets,
    write_epochs,
    write_offsets,
)
from downconvert.storage.disk.faulty_disk import FaultyDisk, Killed
from downconvert.storage.disk.files import DISK

OFFSETS = {TopicPartition("a", 0): 5, TopicPartition("b-c", 12): 2**63 - 1}


def test_a_checkpoint_has_kafkas_text(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    write_offsets(DISK, path, OFFSETS)
    assert path.read_text() == "0\n2\na 0 5\nb-c 12 9223372036854775807\n"
    assert read_offsets(path) == OFFSETS
    write_epochs(DISK, tmp_path / "epochs", [EpochEntry(0, 0), EpochEntry(3, 104)])
    assert (tmp_path / "epochs").read_text() == "0\n2\n0 0\n3 104\n"
    assert read_epochs(tmp_path / "epochs") == [EpochEntry(0, 0), EpochEntry(3, 104)]


def test_checkpoints_of_a_broker_are_read(real: Path) -> None:
    log_dir = real / "3.9.1" / "log"
    assert read_offsets(log_dir / "log-start-offset-checkpoint") == {
        TopicPartition("trimmed", 0): 178
    }
    points = read_offsets(log_dir / "recovery-point-offset-checkpoint")
    assert points[TopicPartition("rolled", 0)] == 450
    assert read_epochs(log_dir / "rolled-0" / "leader-epoch-checkpoint") == [EpochEntry(0, 0)]


@pytest.mark.parametrize("text", ["", "0\n0\n", "0\n0"])
def test_an_empty_checkpoint_has_no_entries(tmp_path: Path, text: str) -> None:
    (tmp_path / "c").write_text(text)
    assert read_offsets(tmp_path / "c") == {}


def test_a_missing_checkpoint_has_no_entries(tmp_path: Path) -> None:
    assert read_offsets(tmp_path / "c") == {}
    assert read_epochs(tmp_path / "c") == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1\n0\n", "version '1' is not known"),
        ("x", "version 'x' is not known"),
        ("0\n", "is not a number"),
        ("0\nmany\n", "is not a number"),
        ("0\n2\na 0 5\n", "has 1 entries and claims 2"),
        ("0\n1\na 0 5\nb 0 5\n", "has 2 entries and claims 1"),
        ("0\n1\na 0\n", "malformed line 'a 0'"),
        ("0\n1\na 0 5 6\n", "malformed line"),
        ("0\n1\na 0 5x\n", "is not a number"),
        ("0\n1\na 0 99999999999999999999\n", "is not a number"),
        ("0\n1\na 0 \u0665\n", "is not a number"),
        ("0\n-1\n", "claims -1"),
    ],
)
def test_malformed_files_are_errors(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "c").write_text(text)
    with pytest.raises(CorruptFileError, match=reason):
        read_offsets(tmp_path / "c")


def test_bytes_that_are_not_text_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"0\n1\n\xff 0 5\n")
    with pytest.raises(CorruptFileError, match="is not text"):
        read_offsets(tmp_path / "c")


@pytest.mark.parametrize("dies_at", range(1, 8))
def test_a_crash_leaves_the_old_or_the_new_checkpoint(tmp_path: Path, dies_at: int) -> None:
    for seed in range(20):
        directory = tmp_path / str(seed)
        directory.mkdir()
        write_offsets(DISK, directory / "c", OFFSETS)
        (directory / "c.tmp").write_text("left over from long ago, and longer than it will be" * 9)
        disk = FaultyDisk(directory, dies_at=dies_at, random=Random(seed))
        new = {TopicPartition("a", 0): 6}
        found = [OFFSETS, new]
        try:
            write_offsets(disk, directory / "c", new)
            found = [new]
        except Killed:
            pass
        left = directory / "left"
        left.mkdir()
        disk.survivors(left)
        assert read_offsets(left / "c") in found
