"""The current command line, for reports and for lines that show how to repeat a run."""

import shlex
from typing import Final

import click

PROGRAM: Final = "downconvert"


def command_line() -> str:
    """The command line, quoted for a shell."""
    root = click.get_current_context().find_root()
    arguments: list[str] = root.obj or []
    return shlex.join([PROGRAM, *arguments])
