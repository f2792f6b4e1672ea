"""`downconvert recover`: planned and real cuts."""

import json
from pathlib import Path

import pytest

from downconvert.storage import Log
from downconvert.storage.session import DirectoryLock

from .conftest import batch
from .running import Command, one_line

FIRST, SECOND = "00000000000000000000.log", "00000000000000000006.log"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log of two segments, the first with a byte that is not as it was; and a good one."""
    damaged = tmp_path / "damaged-0"
    damaged.mkdir()
    (damaged / FIRST).write_bytes(batch(0) + batch(3)[:-1] + b"\xff")
    (damaged / SECOND).write_bytes(batch(6))
    (tmp_path / "good-0").mkdir()
    (tmp_path / "good-0" / FIRST).write_bytes(batch(0))
    return tmp_path


def files(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_dry_run_prints_the_changes_and_makes_none(log_dir: Path, command: Command) -> None:
    before = files(log_dir)
    ran = command("recover", "--dry-run", log_dir)
    assert ran.code == 2
    size = len(batch(0))
    assert ran.out.splitlines() == [
        f"damaged-0: 2 segments with 2 batch(es) read, {size} B to cut off",
        f"  {FIRST}: good up to byte {size}; checksum does not match, at byte {size}",
        "  1 segment after that to set aside",
        "good-0: 1 segment with 1 batch(es) read, nothing to cut off",
    ]
    assert files(log_dir) == before


def test_a_directory_is_recovered(log_dir: Path, command: Command) -> None:
    ran = command("recover", log_dir)
    assert ran.code == 0
    assert f"set aside: {SECOND}.aside" in ran.out
    assert (log_dir / "damaged-0" / f"{SECOND}.aside").read_bytes() == batch(6)
    assert (log_dir / "damaged-0" / FIRST).read_bytes() == batch(0)
    assert (log_dir / ".kafka_cleanshutdown").exists()
    again = command("recover", log_dir)
    assert "damaged-0: closed as it should be, nothing read, nothing cut off\n" in again.out
    everything = command("recover", "--everything", log_dir)
    assert "good-0: 1 segment with 1 batch(es) read, nothing cut off\n" in everything.out


@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--json"]])
def test_a_partition_with_a_link_is_unchanged_and_the_others_are_recovered(
    log_dir: Path, command: Command, options: list[str]
) -> None:
    outside = log_dir / "outside.bin"
    outside.write_bytes(b"of somebody else" * 100)
    (log_dir / "a-0").mkdir()
    (log_dir / "a-0" / FIRST).symlink_to(outside)
    ran = command("recover", *options, log_dir)
    assert ran.code == 2
    why = f"{log_dir}/a-0/{FIRST}: is a link, and nothing is written through one"
    assert why in ran.out
    assert ran.out.count("\n") >= 3  # the others are there, too
    assert outside.read_bytes() == b"of somebody else" * 100


@pytest.mark.parametrize("name", ["recover", "compact", "retention", "upgrade"])
def test_a_link_to_a_partition_is_not_written_through_even_if_it_is_named(
    tmp_path: Path, command: Command, name: str
) -> None:
    outside, link = tmp_path / "outside" / "d-0", tmp_path / "logs" / "a-0"
    outside.mkdir(parents=True)
    link.parent.mkdir()
    (outside / FIRST).write_bytes(batch(0) + b"torn")
    link.symlink_to(outside)
    before = files(tmp_path)
    options = {"retention": ["--retention-ms", 1], "upgrade": ["--in-place"]}.get(name, [])
    ran = command(name, *options, link)
    assert ran.code == 2
    assert "is a link: name the directory that it leads to" in one_line(ran.err)
    assert files(tmp_path) == before


def test_a_skipped_partition_is_not_partly_recovered(log_dir: Path, command: Command) -> None:
    (log_dir / "damaged-0" / "partition.metadata").write_bytes(b"no metadata")
    before = files(log_dir / "damaged-0")
    ran = command("recover", log_dir)
    assert ran.code == 2
    assert "damaged-0: left as it is: " in ran.out
    assert files(log_dir / "damaged-0") == before


def test_a_directory_without_a_partitions_name_is_refused(tmp_path: Path, command: Command) -> None:
    (tmp_path / FIRST).write_bytes(batch(0) + b"torn")
    (tmp_path / "no partition").mkdir()
    (tmp_path / FIRST).rename(tmp_path / "no partition" / FIRST)
    ran = command("recover", tmp_path / "no partition")
    assert (ran.code, "not a partition's name" in one_line(ran.err)) == (2, True)


def test_one_partition_alone(log_dir: Path, command: Command) -> None:
    ran = command("recover", "--json", log_dir / "damaged-0")
    found = json.loads(ran.out)
    assert (found["partition"], found["bytesCut"]) == ("damaged-0", len(batch(0)))
    assert found["segments"][0]["damage"].startswith("checksum does not match")
    assert Log.open(log_dir / "damaged-0").end_offset == 3
    assert not (log_dir / ".kafka_cleanshutdown").exists()  # of the others nothing is known


def test_a_directory_in_use_is_not_changed(log_dir: Path, command: Command) -> None:
    lock = DirectoryLock(log_dir)
    before = files(log_dir)
    ran = command("recover", log_dir)
    lock.release()
    assert ran.code == 2
    assert "stop that broker" in one_line(ran.err)
    assert files(log_dir) == before


def test_a_directory_is_needed(tmp_path: Path, command: Command) -> None:
    ran = command("recover", tmp_path / "none")
    assert ran.code == 2
    assert "none: no such directory" in one_line(ran.err)
