"""The command line that runs, for reports and for lines that say how to run the same again."""

import shlex
from typing import Final

import click

PROGRAM: Final = "downconvert"


def command_line() -> str:
    """As it can be pasted into a shell."""
    root = click.get_current_context().find_root()
    arguments: list[str] = root.obj or []
    return shlex.join([PROGRAM, *arguments])
