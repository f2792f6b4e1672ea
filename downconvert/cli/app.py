"""The command's group: finds subcommands when they are asked for, and turns every error into one
line.

Exit codes: 0 done · 1 a check failed · 2 bad input or a wrong option · 130 Ctrl-C ·
141 nobody reads the output any more.

Not here: the subcommands (one file each), what errors are called (failure.py), what `--version`
says (versions.py)."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import click

from .extras import words_for
from .failure import CommandError, in_words

# Each command and the module that has it, under the command's name with underscores. Names, not
# imports: experiments live above this package.
COMMANDS: Final = {
    "simulate": "simulator.cli.simulate",
    "simulate-cluster": "simulator.cli.simulate_cluster",
    "convert": "downconvert.cli.convert",
    "dump": "downconvert.cli.dump",
    "inspect": "downconvert.cli.inspect",
    "recover": "downconvert.cli.recover",
    "compact": "downconvert.cli.compact",
    "retention": "downconvert.cli.retention",
    "upgrade": "downconvert.cli.upgrade",
    "generate": "simulator.cli.generate",
    "serve": "downconvert.cli.serve",
    "spark": "downconvert.cli.spark",
    "gateway": "downconvert.cli.gateway",
    "doctor": "downconvert.cli.doctor",
    "conformance": "downconvert.cli.conformance",
}
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130  # 128 + SIGINT, as a shell says it
BROKEN_PIPE: Final = 141  # 128 + SIGPIPE


class _Commands(click.Group):
    """Loads a subcommand's file when the subcommand runs, or when help names it."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        try:
            command = getattr(import_module(COMMANDS[name]), name.replace("-", "_"))
        except ModuleNotFoundError as error:
            words = words_for(error.name or "")
            if words is None:
                raise
            return _unavailable(name, words)
        assert isinstance(command, click.Command)
        return command


def _unavailable(name: str, words: str) -> click.Command:
    """In the place of a command whose packages are not installed: takes any arguments, and says
    what to install."""

    def refuse() -> None:
        raise CommandError(words)

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    short = f"({words.partition(':')[0]})"
    return click.Command(name, anything, refuse, help=words, short_help=short)


def _show_version(context: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked:
        from .versions import versions

        click.echo("\n".join(versions()))
        context.exit()


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog="Exit codes: 0 done, 1 a check failed, 2 bad input, 130 interrupted.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, which kernel runs, and which codecs, and exit.",
)
@click.pass_context
def app(context: click.Context) -> None:
    """Kafka's lazy message down-conversion, from the command line.

    Look into segments, convert them for old consumers, and measure what that costs.

    \b
    downconvert simulate                        measure, on records made up
    downconvert simulate /var/kafka/topic-0     measure, on yours
    downconvert convert IN.log OUT.log --to-magic 1
    downconvert dump IN.log
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """The command with these arguments; its exit code. Says what went wrong, and never how Python
    sees it."""
    try:
        code = _invoked(arguments)
        sys.stdout.flush()
    except click.UsageError as error:
        return _failed(_usage(error), BAD_INPUT)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes standard output once more when it ends: nobody is there to read it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        words = in_words(error)
        if words is None:
            raise
        return _failed(words, error.exit_code if isinstance(error, CommandError) else BAD_INPUT)
    return code


def _invoked(arguments: Sequence[str]) -> int:
    """Not `app.main`, which has its own words for Ctrl-C and for a broken pipe."""
    try:
        with app.make_context("downconvert", list(arguments)) as context:
            code = app.invoke(context)
    except click.exceptions.Exit as end:  # --help, --version
        return end.exit_code
    return code if isinstance(code, int) else 0


def _usage(error: click.UsageError) -> str:
    command = error.ctx.command_path if error.ctx else "downconvert"
    return f"{error.format_message().rstrip('.')} (see {command} --help)"


def _failed(words: str, code: int) -> int:
    click.echo(f"downconvert: {words}", err=True)
    return code
