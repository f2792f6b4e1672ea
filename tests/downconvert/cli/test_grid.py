"""Tables of the command: nothing is cut off, however narrow a terminal is, or in a file."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.downconvert.doctor.test_request_log import json_line, text_line

from .running import ROOT


def on_a_terminal(columns: int, *arguments: object) -> str:
    """The output of a command on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 50, columns, 0, 0))
    command = [sys.executable, "-m", "downconvert", *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment | {"TERM": "xterm"},
    ):
        os.close(theirs)
        shown = bytearray()
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:  # the other end has gone
            pass
    os.close(ours)
    return re.sub(r"\x1b\[[\d;]*m", "", shown.decode().replace("\r\n", "\n"))


def in_a_file(*arguments: object) -> str:
    command = [sys.executable, "-m", "downconvert", *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "kafka-request.log"
    path.write_text(
        json_line("a-client-whose-name-is-longer-than-any-column-of-a-table-should-be") * 3
        + text_line("LIST_OFFSETS", 0, "sarama")
        + text_line("FETCH", 2, "sarama") * 2
        + text_line("FETCH", 12, "sarama") * 4
    )
    return path


def test_doctor_fits_80_columns_and_leaves_nothing_out(log: Path) -> None:
    shown = on_a_terminal(80, "doctor", log)
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    flat = " ".join(shown.split())
    assert "a-client-whose-name-is-longer-than-any-column-of-a-table-should-be" in flat
    assert "refused Fetch v2, ListOffsets v0 requests 3 of 7" in flat
    assert "what to do" in flat


def test_doctor_writes_one_line_for_each_statement_in_a_file(log: Path) -> None:
    lines = in_a_file("doctor", log).splitlines()
    (refused,) = (n for n, line in enumerate(lines) if "Fetch v2, ListOffsets v0" in line)
    assert lines[refused - 1] == "sarama, Sarama, 10.0.0.2"
    assert lines[refused] == "  refused     Fetch v2, ListOffsets v0"
    assert lines[refused + 2].startswith("  what to do  ")


@pytest.fixture
def logs(tmp_path: Path, segment: Path) -> Path:
    partition = tmp_path / "logs" / f"{'a-topic-with-a-long-name-' * 4}-0"
    partition.mkdir(parents=True)
    segment.rename(partition / segment.name)
    return partition.parent


def test_inspect_cuts_nothing_at_60_columns(logs: Path) -> None:
    shown = on_a_terminal(60, "inspect", logs)
    assert "…" not in shown
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 60
    first = next(line for line in lines if "segments" in line).index("segments")
    rows = lines[next(n for n, line in enumerate(lines) if line.startswith("──")) + 1 :]
    assert "".join(line[:first].strip() for line in rows) == "a-topic-with-a-long-name-" * 4
    assert "v2 none 100 %" in shown


def test_a_table_in_a_file_has_a_line_for_each_row(logs: Path) -> None:
    lines = in_a_file("inspect", logs).splitlines()
    assert len(lines) == 3
    assert "a-topic-with-a-long-name-" * 4 in lines[2]
    assert lines[2].endswith("v2 none 100 %")


def test_a_terminal_too_narrow_for_the_columns_shows_a_block_for_each_row(logs: Path) -> None:
    shown = on_a_terminal(40, "inspect", logs)
    assert "…" not in shown
    assert "".join(shown.split()).startswith("topic" + "a-topic-with-a-long-name-" * 4)
    lines = shown.splitlines()
    assert f"{'segments':<18}  1" in lines
    assert f"{'formats and codecs':<18}  v2 none 100 %" in lines
