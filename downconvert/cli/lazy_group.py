"""A group of subcommands. Each has its own file, which is loaded when the subcommand runs.

For help and shell completion, the group has one line for each subcommand, and loads no files. Not
here: the list of subcommands (app.py, spark.py)."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

import click
from click.shell_completion import CompletionItem

from .extras import EXTRA_OF, words_for
from .failure import CommandError


@dataclass(frozen=True, slots=True)
class Entry:
    """A subcommand: its module, its line in the help, and the package from an extra that it needs,
    if any."""

    module: str
    summary: str
    package: str | None = None

    def line(self) -> str:
        """The summary, and the missing extra."""
        if self.package is None or find_spec(self.package) is not None:
            return self.summary
        return f"{self.summary} (needs the extra '{EXTRA_OF[self.package]}')"


class LazyGroup(click.Group):
    """`entries`: subcommands by name. The function in the module has that name, with
    underscores."""

    entries: Mapping[str, Entry] = {}

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        entry = self.entries.get(name)
        if entry is None:
            return None
        try:
            command = getattr(import_module(entry.module), name.replace("-", "_"))
        except ModuleNotFoundError as error:
            words = words_for(error.name or "")
            if words is None:
                raise
            return _unavailable(name, entry.summary, words)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.line()) for name, entry in self.entries.items()])

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self.entries.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, context, incomplete)


def lazy_group(entries_by_name: Mapping[str, Entry]) -> type[LazyGroup]:
    """A class for `click.group(cls=…)`."""

    class Group(LazyGroup):
        entries = entries_by_name

    return Group


def _unavailable(name: str, summary: str, words: str) -> click.Command:
    """Replaces a command whose packages are not installed. It accepts any arguments, and says what
    to install."""

    def refuse() -> None:
        raise CommandError(words)

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    lines = words.replace(": ", ":\n  ", 1)  # \b: unwrapped, so that it can be copied
    return click.Command(name, anything, refuse, help=f"{summary}\n\n\b\n{lines}")
