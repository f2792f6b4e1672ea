"""`downconvert convert` writes the library's bytes to a file, and only the good part of a damaged
segment."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from downconvert import ConversionPolicy, eager
from downconvert import convert as converted
from records import Codec, FileRecords, MemoryRecords
from records.batches.reader import read

from .conftest import batch
from .running import Command, one_line, start


def test_the_output_equals_the_librarys(segment: Path, tmp_path: Path, command: Command) -> None:
    target = tmp_path / "old.log"
    ran = command("convert", segment, target, "--to-magic", 1, "--first-offset", 2)
    assert ran.code == 0
    assert f"{target}: 4 records converted" in one_line(ran.err)
    with FileRecords.open(segment) as log:
        assert target.read_bytes() == eager(log, 1, 2)
    assert [record.offset for record in read(MemoryRecords(target.read_bytes()))] == [2, 3, 4, 5]


def test_the_named_policy_is_used(tmp_path: Path, command: Command) -> None:
    source, target = tmp_path / "zstd.log", tmp_path / "old.log"
    source.write_bytes(batch(0, codec=Codec.ZSTD))
    assert command("convert", source, target, "--to-magic=0", "--policy=recode=zstd:none").code == 0
    with FileRecords.open(source) as log:
        assert target.read_bytes() == eager(log, 0, 0, ConversionPolicy(recode={"zstd": "none"}))


def test_a_codec_that_the_policy_refuses_is_named_with_the_way_out(
    tmp_path: Path, command: Command
) -> None:
    source, target = tmp_path / "zstd.log", tmp_path / "old.log"
    source.write_bytes(batch(0, codec=Codec.ZSTD))
    ran = command("convert", source, target, "--to-magic=1", "--policy=kafka")
    assert ran.code == 2
    assert one_line(ran.err) == (
        f"downconvert: {source}: zstd is refused for this client, in the batch at byte 0: "
        "--policy default converts it, or add recode=zstd:gzip"
    )
    assert not target.exists()


def test_the_summary_can_be_json(segment: Path, tmp_path: Path, command: Command) -> None:
    ran = command("convert", segment, tmp_path / "old.log", "--to-magic=1", "--json")
    assert json.loads(ran.out) == {
        "bytes_in": segment.stat().st_size,
        "bytes_out": (tmp_path / "old.log").stat().st_size,
        "records_converted": 6,
        "batches_converted": 2,
        "torn_bytes": 0,
        "damage": None,
    }


def test_good_records_before_a_torn_batch_are_written(
    torn: Path, tmp_path: Path, command: Command
) -> None:
    target = tmp_path / "old.log"
    end = torn.stat().st_size - 80
    ran = command("convert", torn, target, "--to-magic", 1)
    assert ran.code == 2
    output = one_line(ran.err)
    assert f"{torn}: torn: the last 80 bytes, from byte {end} on, are not a whole batch" in output
    assert "6 records converted" in output
    assert len(list(read(MemoryRecords(target.read_bytes())))) == 6


def test_good_records_before_damage_are_written(
    damaged: Path, tmp_path: Path, command: Command
) -> None:
    target = tmp_path / "old.log"
    ran = command("convert", damaged, target, "--to-magic", 1)
    assert ran.code == 2
    output = one_line(ran.err)
    assert f"{damaged}: record runs past its batch, at byte " in output
    assert f"3 records converted, 132 B from before it are in {target}" in output
    assert len(list(read(MemoryRecords(target.read_bytes())))) == 3


def test_a_file_that_is_not_a_segment_makes_no_output(
    no_log: Path, tmp_path: Path, command: Command
) -> None:
    ran = command("convert", no_log, tmp_path / "old.log", "--to-magic", 1)
    assert ran.code == 2
    assert f"{no_log}: " in one_line(ran.err)
    assert "is this a segment" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == [no_log.name]


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("missing.log", "old.log", "missing.log: no such file"),
        (".", "old.log", "is a directory"),
        ("00000000000000000000.log", "00000000000000000000.log", "is the input"),
        ("00000000000000000000.log", "there.log", "exists already: use --force"),
        ("00000000000000000000.log", ".", "is a directory: name a file in it"),
        ("00000000000000000000.log", "no/such/old.log", "there is no directory"),
    ],
)
def test_impossible_paths_are_refused(
    source: str, target: str, words: str, segment: Path, command: Command
) -> None:
    directory = segment.parent
    (directory / "there.log").write_text("mine")
    before = segment.read_bytes()
    ran = command("convert", directory / source, directory / target, "--to-magic", 1)
    assert ran.code == 2
    assert words in one_line(ran.err)
    assert segment.read_bytes() == before
    assert (directory / "there.log").read_text() == "mine"


def test_force_overwrites_a_file(segment: Path, tmp_path: Path, command: Command) -> None:
    target = tmp_path / "there.log"
    target.write_text("old")
    assert command("convert", segment, target, "--to-magic", 1, "--force").code == 0
    assert target.read_bytes() != b"old"


def make_link(path: Path) -> None:
    path.symlink_to(path.with_name("there.log"))


def make_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def make_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("options", [[], ["--force"]])
@pytest.mark.parametrize("make", [make_link, make_dangling_link, make_link_to_itself, os.mkfifo])
def test_only_regular_files_are_replaced(
    segment: Path,
    tmp_path: Path,
    command: Command,
    make: Callable[[Path], None],
    options: list[str],
) -> None:
    (tmp_path / "there.log").write_bytes(b"mine")
    make(tmp_path / "out")
    before = (tmp_path / "out").lstat()
    ran = command("convert", segment, tmp_path / "out", "--to-magic=1", *options)
    assert ran.code == 2
    assert "which is not written over" in one_line(ran.err)
    after = (tmp_path / "out").lstat()
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
    assert (tmp_path / "there.log").read_bytes() == b"mine"


def test_a_file_created_during_the_conversion_is_not_replaced(
    segment: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out"

    def converted_slowly(*arguments: Any) -> Any:
        target.write_bytes(b"somebody was faster")
        return converted(*arguments)

    monkeypatch.setattr("downconvert.cli.convert.converted", converted_slowly)
    ran = command("convert", segment, target, "--to-magic=1")
    assert ran.code == 2
    assert "was created by another program meanwhile" in one_line(ran.err)
    assert target.read_bytes() == b"somebody was faster"


def test_a_dash_is_standard_output(segment: Path) -> None:
    process = start("convert", segment, "-", "--to-magic", "1", text=False)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    with FileRecords.open(segment) as log:
        assert out == eager(log, 1)
