"""Option values that are more than text: sizes, policies."""

import os
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any, Final

import click

from downconvert.conversion.policies import parse_policy
from records.batch import OFFSET_MAX
from records.units import parse_size, plain_size

Callback = Callable[[click.Context, click.Parameter, Any], Any]


def parsed(parse: Callable[[str], object], *, keep_text: bool = False) -> Callback:
    """A callback that parses an option's text, or each of its texts. ValueErrors become usage
    errors.

    `keep_text`: the text is only checked, so that it can be printed as it was written."""

    def one(text: str) -> object:
        value = parse(text)
        return text if keep_text else value

    def callback(_context: click.Context, _option: click.Parameter, value: Any) -> Any:
        if value is None:  # the option is absent and has no default
            return None
        try:
            return tuple(map(one, value)) if isinstance(value, tuple) else one(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


class Long(click.IntRange):
    """A whole number of 64 bits, like Kafka's offsets and settings."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = int(super().convert(value, param, ctx))
        if number > OFFSET_MAX:
            self.fail(f"{number} is more than {OFFSET_MAX}, the largest of 64 bits", param, ctx)
        return number


class Seconds(click.FloatRange):
    """A finite number of seconds."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{number} is not a number of seconds", param, ctx)
        return number


class OutputFile(click.Path):
    """A file to write in an existing directory. The directory is checked at the start."""

    def __init__(self, *, allow_dash: bool = False) -> None:
        super().__init__(path_type=Path, allow_dash=allow_dash)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if path.is_dir():
            self.fail(f"{path}: is a directory: name a file in it", param, ctx)
        if not path.absolute().parent.is_dir():
            self.fail(f"{path}: there is no directory {path.parent} to write it to", param, ctx)
        return path


def size_from(least: int) -> Callback:
    """A callback that parses a size of at least `least` bytes."""

    def parse(text: str) -> int:
        size = parse_size(text)
        if size < least:
            raise ValueError(f"{text!r} is less than {plain_size(least)}")
        return size

    return parsed(parse)


SIZE: Final = parsed(parse_size)
POLICY: Final = parsed(parse_policy, keep_text=True)

POLICY_HELP: Final = (
    "default or kafka, and its options: kafka,size=exact or recode=zstd:none,chunk_size=64KiB."
)
