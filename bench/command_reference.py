"""Which commands and options are there? docs/commands.md, written from the command itself.

    python -m bench.command_reference

A test compares the file with the output of this."""

import inspect
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from downconvert.cli.app import COMMANDS, app
from downconvert.cli.lazy_group import LazyGroup
from downconvert.cli.option_groups import GroupedCommand

PAGE: Final = Path(__file__).parents[1] / "docs" / "commands.md"
HEAD: Final = """# Commands

This page is written from the command's own help (`python -m bench.command_reference`).
`downconvert COMMAND --help` prints the same.

Exit codes: 0 done, 1 a check failed, 2 bad input, 130 interrupted, 141 closed pipe.

Shells complete commands, options and values. Put the line for yours into its startup file:

```sh
eval "$(_DOWNCONVERT_COMPLETE=bash_source downconvert)"  # ~/.bashrc
eval "$(_DOWNCONVERT_COMPLETE=zsh_source downconvert)"   # ~/.zshrc
_DOWNCONVERT_COMPLETE=fish_source downconvert | source   # ~/.config/fish/config.fish
```
"""


def reference() -> str:
    """The whole page."""
    lines = [HEAD]
    with click.Context(app, info_name="downconvert", **app.context_settings) as context:
        for name in COMMANDS:
            command = app.get_command(context, name)
            assert command is not None
            lines += _described(command, context, name)
    return "\n".join(lines).rstrip() + "\n"


def _described(
    command: click.Command, parent: click.Context, name: str, shown: Collection[str] = ()
) -> Iterator[str]:
    """A command's part of the page. `shown`: rows of options that are on the page already."""
    with click.Context(command, info_name=name, parent=parent) as context:
        yield f"## {context.command_path}"
        yield ""
        yield f"```\n{context.command_path} {' '.join(command.collect_usage_pieces(context))}\n```"
        yield ""
        yield from _prose(command.help or "")
        if context.auto_envvar_prefix is not None:
            yield f"Each option may also be a variable: `{context.auto_envvar_prefix}_IDLE_TIMEOUT`"
            yield "for `--idle-timeout`. Options go before variables, and these before `--config`."
            yield ""
        for heading, options in _sections(command, context):
            yield from _table(heading, [one for one in _rows(options, context) if one not in shown])
        if isinstance(command, LazyGroup):
            commands = {one: command.get_command(context, one) for one in command.entries}
            found = {one: below for one, below in commands.items() if below is not None}
            assert len(found) == len(commands)
            common = _common([_rows(_options(below), context) for below in found.values()])
            yield from _table("options of all jobs", common)
            for one, below in found.items():
                yield from _described(below, context, one, common)


def _common(tables: Sequence[list[str]]) -> list[str]:
    """The rows that all tables have."""
    return [row for row in tables[0] if all(row in table for table in tables)]


def _table(heading: str, rows: Sequence[str]) -> Iterator[str]:
    if rows:
        yield f"| {heading} | what it does |"
        yield "|---|---|"
        yield from rows
        yield ""


def _options(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option)]


def _sections(
    command: click.Command, context: click.Context
) -> Iterator[tuple[str, list[click.Option]]]:
    """The options under the headings of the command's help, without `--help`."""
    own = set(command.params)
    if isinstance(command, GroupedCommand):
        for heading, options in command.sections(context):
            yield heading, [one for one in options if one in own]
    else:
        yield "option", _options(command)


def _prose(text: str) -> Iterator[str]:
    """Paragraphs of a help text. Unwrapped ones are examples or lists."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        is_code = paragraph.startswith("\b\n")
        yield f"```\n{paragraph.removeprefix(chr(8)).strip()}\n```" if is_code else paragraph
        yield ""


def _rows(options: Iterable[click.Option], context: click.Context) -> list[str]:
    return [_row(option, context) for option in options if not option.hidden]


def _row(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if not option.is_flag:
        names += f" `{option.make_metavar(context)}`"
    record = option.get_help_extra(context)
    help_text, _, default = (option.help or "").partition("[default: ")
    default, _, rest = default.partition("]")
    default = default or str(record.get("default", ""))
    text = f"{help_text.strip()}{rest}" + (f" Default: `{default}`." if default else "")
    cells = (names, text)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(reference())
    print(PAGE)
