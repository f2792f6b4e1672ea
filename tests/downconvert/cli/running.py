"""Runs the command in this process, or as a process of its own."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from downconvert.cli.app import run
from downconvert.cli.terminal import REFERENCE_NOTICE

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Ran:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


class Command:
    """`command("dump", path)` runs `downconvert dump PATH` here."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> Ran:
        self._capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = self._capsys.readouterr()
        return Ran(code, out, without_notice(err))


def start(*arguments: object, blocked: str = "", text: bool = True) -> subprocess.Popen[Any]:
    """`downconvert ARGUMENTS` as a process, without the modules named in `blocked`.

    It hears Ctrl-C also where the tests run in the background, where a shell has it ignored."""
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        f"import sys; sys.argv[0] = 'downconvert'; sys.modules.update(dict.fromkeys({blocked!r}"
        ".split())); from downconvert.cli import main; sys.exit(main())"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=text,
        cwd=ROOT,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def interrupt(process: subprocess.Popen[Any]) -> None:
    """Ctrl-C: a terminal sends it to all processes of the command."""
    os.killpg(process.pid, signal.SIGINT)


def without_notice(err: str) -> str:
    """Standard error without the line that names the kernel."""
    return err.removeprefix(f"{REFERENCE_NOTICE}\n")


def one_line(text: str) -> str:
    """The only line of a text: an error must not be longer."""
    assert text.endswith("\n")
    assert text.count("\n") == 1, text
    return text.rstrip("\n")
