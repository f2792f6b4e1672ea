"""Programs of others that tests start.

A test without its program is skipped. Where REQUIRE_PROGRAMS is set, as in CI, it fails instead."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pytest

from .waiting import wait_for

REQUIRED: Final = os.environ.get("REQUIRE_PROGRAMS", "") not in ("", "0")
# A user's PATH may lack the folders of servers.
PATH: Final = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin"


def found(program: str) -> str:
    """The path of a program, or its name if it is not here."""
    return shutil.which(program, path=PATH) or program


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skips a test where one of the programs is missing."""
    absent = [program for program in programs if shutil.which(program, path=PATH) is None]
    return pytest.mark.skipif(
        bool(absent) and not REQUIRED, reason=f"not here: {', '.join(absent)}"
    )


@contextmanager
def running(command: Sequence[str], is_ready: Callable[[], bool]) -> Iterator[None]:
    """A server, from when it is ready until the end of the block."""
    program, *arguments = command
    with subprocess.Popen([found(program), *arguments], stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(is_ready)
            yield
        finally:
            process.terminate()
