"""`downconvert upgrade`: into another directory, in place, or dry."""

import json
import shutil
from pathlib import Path

import pytest

from downconvert.storage import Log
from records import TimestampType
from records.batches.builder import build
from records.formats import V2
from records.record import Record

from .running import Command, one_line

NAME = "00000000000000000000.log"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    (path / "old-0").mkdir(parents=True)
    messages = [build([Record(n, n, TimestampType.CREATE, b"k", b"v")], magic=1) for n in range(5)]
    (path / "old-0" / NAME).write_bytes(b"".join(messages))
    return path


def magics(path: Path) -> list[int]:
    return [header.magic for _, header in Log.open(path).batches()]


def test_into_another_directory(log_dir: Path, tmp_path: Path, command: Command) -> None:
    ran = command("upgrade", log_dir, tmp_path / "out")
    assert (ran.code, ran.err) == (0, "")
    assert "5 batches of v0 and v1 with 5 records" in ran.out
    assert ran.out.endswith(f"the result is in {tmp_path / 'out'}\n")
    assert magics(log_dir / "old-0") == [1] * 5
    assert magics(tmp_path / "out" / "old-0") == [V2]
    again = command("upgrade", log_dir, tmp_path / "out")
    assert (again.code, one_line(again.err)[-16:]) == (2, "is already there")


def test_an_upgrade_in_place_keeps_the_old_directory(log_dir: Path, command: Command) -> None:
    ran = command("upgrade", "--in-place", log_dir / "old-0")
    assert ran.code == 0
    assert f"what was there is in {log_dir / 'old-0.before-upgrade'}" in ran.out
    assert magics(log_dir / "old-0") == [V2]
    assert magics(log_dir / "old-0.before-upgrade") == [1] * 5


def test_a_dry_run_writes_nothing(log_dir: Path, command: Command) -> None:
    ran = command("upgrade", "--dry-run", "--json", log_dir)
    found = json.loads(ran.out)
    assert found["partitions"]["old-0"] == found["total"]
    assert (found["total"]["batches_in"], found["total"]["batches_out"]) == (5, 1)
    assert [path.name for path in log_dir.rglob("*")] == ["old-0", NAME]


@pytest.mark.parametrize("options", [[], ["OUT", "--dry-run"], ["--in-place", "--dry-run"]])
def test_a_target_is_required(log_dir: Path, command: Command, options: list[str]) -> None:
    ran = command("upgrade", log_dir, *options)
    assert ran.code == 2
    assert "give one of OUT, --in-place and --dry-run" in one_line(ran.err)


def test_a_missing_directory_of_the_target_is_named(
    log_dir: Path, tmp_path: Path, command: Command
) -> None:
    missing = tmp_path / "missing"
    ran = command("upgrade", log_dir, missing / "out")
    assert ran.code == 2
    assert one_line(ran.err).endswith(f"there is no directory {missing} to write it to")


def test_damage_is_one_line(log_dir: Path, tmp_path: Path, command: Command) -> None:
    log = log_dir / "old-0" / NAME
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    ran = command("upgrade", log_dir, tmp_path / "out")
    assert ran.code == 2
    assert "checksum does not match" in one_line(ran.err)


@pytest.mark.parametrize("in_place", [False, True])
def test_an_incomplete_upgrade_is_named(
    log_dir: Path, tmp_path: Path, command: Command, *, in_place: bool
) -> None:
    """It stops the next upgrade, and looks like a result."""
    log = log_dir / "old-0" / NAME
    good = log.read_bytes()
    log.write_bytes(good[:-1] + b"\xff")
    left = tmp_path / ("logs.upgraded" if in_place else "out")
    arguments = ("upgrade", log_dir, "--in-place" if in_place else left)
    ran = command(*arguments)
    assert one_line(ran.err).endswith(f"; {left} is incomplete: remove it before you try again")
    log.write_bytes(good)
    again = command(*arguments)
    assert one_line(again.err) == f"downconvert: {left} is already there"
    shutil.rmtree(left)
    assert command(*arguments).code == 0
