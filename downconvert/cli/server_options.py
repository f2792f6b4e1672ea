"""The options that `downconvert serve` and `downconvert gateway` share, and parsing them.

This file does not import the broker, which a gateway does not need. Not here: topics' settings
(serve_options.py), logging (logs.py)."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from downconvert import ConversionPolicy
from downconvert.serving.conversions import RecodeRule

from .values import Callback, parsed

Command = TypeVar("Command", bound=Callable[..., Any])

PORT_MAX: Final = 65_535


def parse_address(text: str | None) -> tuple[str, int] | None:
    """Parses `host:port`. An IPv6 address may have brackets. ValueError."""
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > PORT_MAX:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9092")
    return host.removeprefix("[").removesuffix("]"), int(port)


def parse_rule(text: str) -> RecodeRule:
    """Parses `lz4=gzip:magic0`, optionally with `topic=PATTERN` and `client=PATTERN`.
    ValueError."""
    patterns: dict[str, str] = {}
    recode: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or not value:
            raise ValueError(f"{part!r} is not CODEC=CODEC, such as lz4=gzip or lz4=gzip:magic0")
        if name in ("topic", "client"):
            patterns[name] = value
        else:
            instead, colon, magic = value.partition(":")
            recode[f"{name}{colon}{magic}"] = instead
    if not recode:
        raise ValueError(f"{text!r} names no codec: add one, such as lz4=gzip")
    ConversionPolicy(recode=recode)  # ValueError: no such codec
    return RecodeRule(recode, **patterns)


ADDRESS: Final[Callback] = parsed(parse_address)
RECODE: Final[Callback] = parsed(parse_rule)

recode_option: Final = click.option(
    "--recode",
    metavar="RULE",
    multiple=True,
    callback=RECODE,
    help="Use another codec for old clients, such as lz4=gzip:magic0 or "
    "topic=logs-*,client=sarama*,lz4=none.",
)
SHOWN: Final = (
    click.option("-v", "--verbose", is_flag=True, help="Log each request as well."),
    click.option("-q", "--quiet", is_flag=True, help="Log warnings and errors only."),
    click.option(
        "--json", "as_json", is_flag=True, help="Print the ready line and the log as JSON lines."
    ),
    click.option(
        "--check",
        is_flag=True,
        help="Print what the settings mean, rule by rule, and end (exit code 2: one is wrong).",
    ),
)


def shown_options(command: Command) -> Command:
    """Adds the options about the command's output."""
    for option in reversed(SHOWN):
        command = option(command)
    return command
