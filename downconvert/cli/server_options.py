"""The options that `downconvert serve` and `downconvert gateway` share.

Not here: parsing a recoding rule (serve_options.py), logging (logs.py)."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from .serve_options import RECODE

Command = TypeVar("Command", bound=Callable[..., Any])

recode_option: Final = click.option(
    "--recode",
    metavar="RULE",
    multiple=True,
    callback=RECODE,
    help="Another codec for old clients: lz4=gzip:magic0, or topic=logs-*,client=sarama*,lz4=none.",
)
SHOWN: Final = (
    click.option("-v", "--verbose", is_flag=True, help="Log each request, too."),
    click.option("-q", "--quiet", is_flag=True, help="Log warnings and errors only."),
    click.option("--json", "as_json", is_flag=True, help="Ready line and log as JSON lines."),
    click.option(
        "--check",
        is_flag=True,
        help="Print what the settings mean, rule by rule, and end. A wrong setting ends with 2.",
    ),
)


def shown_options(command: Command) -> Command:
    """Adds the options about the command's output."""
    for option in reversed(SHOWN):
        command = option(command)
    return command
