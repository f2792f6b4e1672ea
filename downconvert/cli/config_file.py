"""`--config FILE`: options of a command as TOML, beside the file's other settings.

The name of an option is that of the command line, without the leading dashes and with `_` for `-`.
Options on the command line override environment variables, which override the file.

Not here: the meaning of other settings (access/settings.py, gateway/settings.py), the line of an
error (setting_lines.py)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.types import IntParamType, StringParamType

from .failure import CommandError
from .setting_lines import where

Command = TypeVar("Command", bound=Callable[..., Any] | click.Command)
KEPT: Final = "downconvert.config"  # the key of the file's content in a context
OPTION: Final = "config"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """`options`: values by their parameters' names; `settings`: everything else in the file."""

    path: Path | None = None
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def where(self, message: str, section: int | None = None) -> str:
        """The line with an error. Empty if it is not known. `section`: of [[clusters]]."""
        if self.path is None:
            return ""
        try:
            return where(self.path.read_text("utf-8"), message, section)
        except (OSError, UnicodeDecodeError):
            return ""

    def differing(self, later: "ConfigFile") -> tuple[str, ...]:
        """The names of options with other values in a later version of the file."""
        names = self.options.keys() | later.options.keys()
        return tuple(
            sorted(one for one in names if self.options.get(one) != later.options.get(one))
        )


def config_option(*names: str) -> Callable[[Command], Command]:
    """The option `--config`. `names`: the options that the file may set; without names, it may set
    all options, and rights."""

    def callback(context: click.Context, _: click.Parameter, path: Path | None) -> Path | None:
        found = ConfigFile() if path is None else read(context, path, names)
        context.meta[KEPT] = found
        context.default_map = {**(context.default_map or {}), **found.options}
        return path

    return click.option(
        "--config",
        OPTION,
        metavar="FILE",
        type=click.Path(path_type=Path),
        is_eager=True,
        callback=callback,
        help="Read settings from this TOML file, which options override.",
    )


def config_file() -> ConfigFile:
    """The file of the running command, as it was at the start."""
    found = click.get_current_context().meta[KEPT]
    assert isinstance(found, ConfigFile)
    return found


def read(context: click.Context, path: Path, names: Iterable[str] = ()) -> ConfigFile:
    """Reads the file again. CommandError: the value of an option is invalid."""
    from downconvert.access.rights import ConfigError
    from downconvert.access.settings import FOLLOWERS, TOP, check_known, load

    file, known = ConfigFile(path), _parameters(context.command)
    try:
        settings = load(path)
        if names:
            known = {name: known[name] for name in names}
        else:
            check_known("a setting", settings, TOP | {FOLLOWERS} | known.keys())
    except ConfigError as error:
        raise CommandError(f"{error}{file.where(str(error))}") from None
    for name, value in settings.items():
        parameter = known.get(name)
        if parameter is None:
            file.settings[name] = value
            continue
        assert parameter.name is not None
        try:
            file.options[parameter.name] = _checked(context, parameter, value)
        except (click.BadParameter, ValueError) as error:
            text = error.message if isinstance(error, click.BadParameter) else str(error)
            message = f"{name}: {text}"
            raise CommandError(f"{message}{file.where(message)}") from None
    return file


def _parameters(command: click.Command) -> dict[str, click.Parameter]:
    """A command's parameters by their names in the file."""
    found = {}
    for one in command.params:
        long = next((name for name in one.opts if name.startswith("--")), one.name or "")
        if one.name != OPTION:
            found[long.removeprefix("--").replace("-", "_")] = one
    return found


def _checked(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """A value of the file, converted as on the command line. ValueError, click.BadParameter."""
    is_switch = isinstance(parameter, click.Option) and parameter.is_flag
    if isinstance(value, bool) != is_switch:
        words = f"{value!r} should be true or false" if is_switch else "needs a value, not a switch"
        raise ValueError(words)
    if parameter.multiple:
        value = [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ValueError("must be a list of texts")
    elif isinstance(value, list | dict):
        raise ValueError("must be one value, not a list or a table")
    elif isinstance(parameter.type, IntParamType) and isinstance(value, float):
        raise ValueError(f"{value} should be a whole number")
    elif isinstance(parameter.type, StringParamType) and not isinstance(value, str):
        raise ValueError(f"{value!s} should be a text, in quotation marks")
    parameter.process_value(context, value)
    return value
