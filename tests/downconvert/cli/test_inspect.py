"""`downconvert inspect`: the contents of a directory, and the features that old clients would
miss."""

import json
import os
from pathlib import Path

import pytest

from records import Codec, TimestampType
from records.batches.builder import build
from records.record import Record

from .conftest import batch
from .running import Command, one_line


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two topics: `a` with partitions 0 and 1, and `b` with zstd and headers."""
    for name, data in (
        ("a-0", batch(0) + batch(3, codec=Codec.GZIP)),
        ("a-1", batch(0)),
        ("b-0", build([_with_header()], magic=2, codec=Codec.ZSTD)),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log").write_bytes(data)
    return tmp_path


def _with_header() -> Record:
    return Record(0, 5, TimestampType.CREATE, None, b"v", (("h", b"x"),))


def test_topics_formats_and_codecs(log_dir: Path, command: Command) -> None:
    ran = command("inspect", log_dir)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert [line.split()[0] for line in lines if line[:1] in "ab"] == ["a", "b", "b:"]
    assert "v2 none" in ran.out
    assert "of zstd, which no client before 2.1 reads" in ran.out


def test_deep_counts_records_with_headers(log_dir: Path, command: Command) -> None:
    assert "headers" not in command("inspect", log_dir).out
    ran = command("inspect", "--deep", log_dir)
    assert "b: 1 record with headers, which no format before v2 has\n" in ran.out


def test_the_cost_of_a_conversion_is_shown(log_dir: Path, command: Command) -> None:
    found = json.loads(command("inspect", "--json", "--cost-to", "1", log_dir).out)["topics"]
    assert found["a"]["cost"]["toMagic"] == 1
    assert found["a"]["cost"]["recordsConverted"] == 9
    assert found["a"]["cost"]["bytesOut"] > 200
    assert (found["a"]["partitions"], found["b"]["partitions"]) == (2, 1)
    assert "to v1: 9 records converted" in command("inspect", "--cost-to", "1", log_dir).out


def test_everything_as_json(log_dir: Path, command: Command) -> None:
    found = json.loads(command("inspect", "--json", "--deep", log_dir).out)["topics"]
    assert found["b"]["recordsWithHeaders"] == 1
    assert found["b"]["shares"] == [
        {"magic": 2, "codec": "zstd", "batches": 1, "bytes": found["b"]["logBytes"], "records": 1}
    ]


def test_one_partition_alone(log_dir: Path, command: Command) -> None:
    found = json.loads(command("inspect", "--json", log_dir / "a-0").out)["topics"]
    assert found["a"]["records"] == 6


def test_damage_is_reported_and_the_rest_is_counted(log_dir: Path, command: Command) -> None:
    log = log_dir / "a-0" / "00000000000000000000.log"
    log.write_bytes(batch(0) + b"x" * 50)
    (log_dir / "a-0" / "00000000000000000009.log").write_bytes(batch(9))
    ran = command("inspect", log_dir)
    assert ran.code == 2
    assert f"{log}: unknown magic, at byte {len(batch(0))}" in ran.err
    assert "a: 50 B after the last good batch" in ran.out


def test_an_unreadable_partition_is_reported_and_the_others_are_counted(
    log_dir: Path, command: Command
) -> None:
    bad = log_dir / "b-0"
    bad.mkdir(exist_ok=True)
    os.mkfifo(bad / "00000000000000000777.log")
    ran = command("inspect", log_dir)
    assert ran.code == 2
    assert f"b: {bad / '00000000000000000777.log'}: is not a regular file" in ran.err
    assert "a " in ran.out


def test_a_directory_is_needed(log_dir: Path, command: Command) -> None:
    ran = command("inspect", log_dir / "none")
    assert (ran.code, ran.err) == (
        2,
        f"downconvert: {log_dir / 'none'}: no such directory; the broker's log.dirs names it\n",
    )
    (log_dir / "file.log").write_text("")
    ran = command("inspect", log_dir / "file.log")
    assert one_line(ran.err).endswith(
        "file.log: is not a directory; name the directory that it is in"
    )


def test_records_of_compressed_old_messages_are_counted_by_a_deep_look(
    tmp_path: Path, command: Command
) -> None:
    partition = tmp_path / "old-0"
    partition.mkdir()
    records = [Record(offset=n, timestamp=n, value=b"v") for n in range(7)]
    (partition / "00000000000000000000.log").write_bytes(build(records, magic=1, codec=Codec.GZIP))
    assert "? (--deep)" in command("inspect", tmp_path).out
    deep = command("inspect", "--deep", tmp_path).out
    assert "?" not in deep
    assert " 7 " in deep
