"""Programs of others end when they should, or are ended."""

import sys
from pathlib import Path

from judges import limited


def python(program: str, seconds: float, log: Path, **options: object) -> limited.Ended:
    return limited.run((sys.executable, "-c", program), seconds, log, **options)  # type: ignore[arg-type]


def test_the_output_of_both_streams_and_the_exit_code(tmp_path: Path) -> None:
    program = (
        "import os, sys; os.write(1, sys.stdin.buffer.read()); os.write(2, b'b\\n'); sys.exit(3)"
    )
    ended = python(program, 60, tmp_path / "logs" / "log", stdin=b"a\n")
    assert (ended.code, ended.output, ended.last_line) == (3, "a\nb\n", "b")
    assert (tmp_path / "logs" / "log").read_text() == "a\nb\n"


def test_one_that_does_not_end_is_killed_at_its_limit(tmp_path: Path) -> None:
    assert python("import time; time.sleep(600)", 0.1, tmp_path / "log").code is None


def test_a_program_with_enough_output_is_ended(tmp_path: Path) -> None:
    program = "import time; print('all', flush=True); time.sleep(600)"
    ended = python(program, 60, tmp_path / "log", enough=lambda text: "all" in text)
    assert (ended.code, ended.output) == (0, "all\n")
