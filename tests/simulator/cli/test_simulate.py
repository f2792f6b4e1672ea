"""`downconvert simulate` at a small size."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from records import Codec
from simulator import MODES
from tests.downconvert.cli.conftest import batch
from tests.downconvert.cli.running import Command, interrupt, one_line, start, without_notice
from tests.waiting import wait_for

SMALL = ("--consumers", 2, "--slow", 1, "--rate", "64KiB", "--max-bytes", "128KiB", "--rounds", 1)
ONE = ("--consumers", 1, "--slow", 0, "--rounds", 1)
LAZY = (*ONE, "--modes", "lazy")  # each mode is three processes


def result(text: str) -> dict[str, Any]:
    """The only result of a JSON document."""
    (only,) = json.loads(text)["results"]
    assert isinstance(only, dict)
    return only


@pytest.mark.parametrize("policy", ["default", "kafka"])
def test_a_mebibyte_goes_through_every_mode(policy: str, command: Command) -> None:
    line = "codec=none,record=100..1000,size=1MiB,seed=1"
    ran = command("simulate", "--generate", line, *SMALL, "--policy", policy, "--json")
    assert (ran.code, ran.err) == (0, "")
    found = result(ran.out)
    assert found["workload"] == line
    assert found["failures"] == []
    assert set(found["modes"]) == set(MODES)
    for mode in found["modes"].values():
        assert mode["records_read_per_scan"] == found["records"]
        assert mode["promised_bytes"] == mode["sent_bytes"] > 2**20
        assert mode["cpu_seconds"] > 0
        assert 0 < mode["first_byte_seconds"]["p50"] <= mode["fetch_seconds"]["p99"]
    lazy, zero_copy = (found["modes"][name] for name in ("lazy", "zero-copy"))
    assert zero_copy["records_converted_per_scan"] == 0
    if policy == "default":
        assert lazy["records_converted_per_scan"] == lazy["records_read_per_scan"]
        assert lazy["filler_bytes_per_scan"] == 0
    else:
        assert lazy["records_converted_per_scan"] > lazy["records_read_per_scan"]  # sent again


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["gzip", "zstd", "mixed"])
def test_compressed_segments_are_delivered_whole(codec: str, command: Command) -> None:
    line = f"codec={codec},record=50..2000,headers=0.2,nulls=0.1,gaps=0.1,size=128KiB,seed=2"
    ran = command("simulate", "--generate", line, *SMALL, "--to-magic", 0, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert result(ran.out)["failures"] == []


def test_the_options_are_printed_before_the_table_and_a_report_is_one_file_that_loads_nothing(
    segment: Path, tmp_path: Path, command: Command
) -> None:
    report = tmp_path / "report.html"
    ran = command("simulate", segment, *ONE, "--report", report)
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert re.match(r"(native|reference) kernel, to v1 by policy default, fetches of 1 M", lines[0])
    header = next(line for line in lines if "zero-copy" in line)
    assert header.split() == ["lazy", "eager", "zero-copy", "lazy", "vs", "eager"]
    assert any(line.startswith("  peak above idle ") for line in lines)
    assert any("bytes as planned, sizes as promised, lazy = eager" in line for line in lines)
    page = report.read_text()
    assert page.count("<svg") == 3
    assert "://" not in page
    assert not re.search(r"<(script|link|img|iframe|object)\b|@import|url\((?!#)", page)
    assert f"downconvert simulate {segment} --consumers 1 --slow 0 --rounds 1" in page


@pytest.mark.slow
def test_generated_segments_can_be_kept(tmp_path: Path, command: Command) -> None:
    workloads = ("--generate", "size=4KiB", "--generate", "codec=lz4,size=4KiB")
    ran = command("simulate", *workloads, "--keep", tmp_path, *LAZY, "--json")
    assert ran.code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1-none", "2-lz4"]


def test_a_damaged_segment_is_measured_up_to_its_damage(damaged: Path, command: Command) -> None:
    ran = command("simulate", damaged, *LAZY, "--json")
    assert ran.code == 2
    assert f"{damaged}: record runs past its batch, at byte " in one_line(ran.err)
    assert result(ran.out)["records"] == 3


def test_a_torn_tail_is_not_an_error(torn: Path, command: Command) -> None:
    ran = command("simulate", torn, *LAZY, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert result(ran.out)["records"] == 6


def test_an_impossible_simulation_is_one_line_and_exit_code_2(
    no_log: Path, tmp_path: Path, command: Command
) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    for path, words in (
        (no_log, "is this a segment (a .log file of a Kafka broker)?"),
        (empty, "holds no batches"),
        (tmp_path / "missing.log", "missing.log: no such file"),
    ):
        ran = command("simulate", path)
        assert ran.code == 2
        assert words in one_line(ran.err)


def test_a_codec_that_the_policy_refuses_is_named_with_the_way_out(
    tmp_path: Path, command: Command
) -> None:
    path = tmp_path / "zstd.log"
    path.write_bytes(batch(0, codec=Codec.ZSTD))
    ran = command("simulate", path, "--policy", "kafka")
    assert ran.code == 2
    assert "zstd is refused for this client" in one_line(ran.err)
    assert "recode=zstd:gzip" in ran.err


def test_ctrl_c_ends_all_processes_and_says_nothing() -> None:
    process = start("simulate", "--generate", "size=8MiB", "--rate", "1KiB", "--consumers", 1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_for(lambda: len(children.read_text().split()) > 1, 60)
    assert process.poll() is None
    interrupt(process)
    _, err = process.communicate(timeout=60)  # to the end: no child holds the pipes any more
    assert (process.returncode, without_notice(err)) == (130, "")
