"""The command's group. It runs subcommands, and turns every error into one line.

Exit codes: 0 done · 1 a check failed · 2 bad input or a wrong option · 130 Ctrl-C · 141 the
output's reader has gone.

Not here: the subcommands (one file each), the texts of errors (failure.py), the output of
`--version` (versions.py), the search for subcommands (lazy_group.py)."""

import os
import re
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from itertools import pairwise
from typing import Final

import click
from click.shell_completion import shell_complete

from .failure import CommandError, in_words
from .invocation import PROGRAM
from .lazy_group import Entry, lazy_group

# Modules are named, not imported, because experiments are on a higher floor than this package. Only
# extras install the packages kafka and pyspark.
COMMANDS: Final = {
    "doctor": Entry("downconvert.cli.doctor", "Find the clients that Kafka 4 would break."),
    "gateway": Entry("downconvert.cli.gateway", "Let old clients use a Kafka 4 cluster.", "kafka"),
    "serve": Entry("downconvert.cli.serve", "Serve a log directory to Kafka clients.", "kafka"),
    "conformance": Entry(
        "downconvert.cli.conformance", "Test whether a broker serves old clients.", "kafka"
    ),
    "spark": Entry(
        "downconvert.cli.spark",
        "Audit, convert, export and search log directories on Spark.",
        "pyspark",
    ),
    "inspect": Entry("downconvert.cli.inspect", "Show the contents of a log directory."),
    "dump": Entry("downconvert.cli.dump", "Print the contents of segments."),
    "convert": Entry("downconvert.cli.convert", "Write a segment in an older format."),
    "upgrade": Entry("downconvert.cli.upgrade", "Rewrite old segments as v2."),
    "recover": Entry("downconvert.cli.recover", "Recover logs after a crash."),
    "compact": Entry("downconvert.cli.compact", "Keep the last record of each key."),
    "retention": Entry("downconvert.cli.retention", "Remove old segments."),
    "generate": Entry("simulator.cli.generate", "Generate segments."),
    "simulate": Entry("simulator.cli.simulate", "Compare lazy, eager and no conversion."),
    "simulate-cluster": Entry(
        "simulator.cli.simulate_cluster",
        "Test replicated brokers under faults, in simulated time.",
        "kafka",
    ),
}
EMPTY_OPTION: Final = re.compile(r"(-[-a-z]*)=")
NO_NUMBER: Final = re.compile(r"is not a valid (integer|float)(?: range)?")  # click's text
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130  # 128 + SIGINT, like a shell
BROKEN_PIPE: Final = 141  # 128 + SIGPIPE
COMPLETION: Final = "_DOWNCONVERT_COMPLETE"  # set by a shell that requests completion


def _show_version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from .versions import versions

        click.echo("\n".join(versions()))
        context.exit()


@click.group(
    cls=lazy_group(COMMANDS),
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

    Let old clients use Kafka 4, serve log directories, and inspect and convert segments.

    \b
    downconvert doctor kafka-request.log            which clients would Kafka 4 break?
    downconvert gateway --bootstrap kafka-1:9092    let them use a Kafka 4 cluster
    downconvert serve /var/kafka                    serve a log directory to them
    downconvert inspect /var/kafka                  formats and codecs of each topic
    downconvert simulate                            what does conversion cost?
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Runs the command with these arguments and returns its exit code. Prints errors in plain
    words, without a traceback."""
    _open_standard_streams()
    try:
        code = _completed() if COMPLETION in os.environ else _invoked(arguments)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return BAD_INPUT
    except click.UsageError as error:
        return _failed(_usage(error, arguments), BAD_INPUT)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes standard output once more at exit, which would fail without a reader.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        words = in_words(error)
        if words is None:
            raise
        return _failed(words, error.exit_code if isinstance(error, CommandError) else BAD_INPUT)
    return code


def _open_standard_streams() -> None:
    """Opens the null device for each closed standard stream (for example, by `>&-`), and lets
    standard output take any text.

    Python has None for such a stream, and the next opened file would get its descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123 - for the whole process
    if isinstance(sys.stdout, TextIOWrapper):
        # A terminal without UTF-8 cannot show all names of clients.
        sys.stdout.reconfigure(errors="backslashreplace")


def _completed() -> int:
    """Prints a shell's completion script, or the possible next words."""
    return shell_complete(app, {}, PROGRAM, COMPLETION, os.environ[COMPLETION])


def _check_not_empty(arguments: Sequence[str]) -> None:
    """UsageError: an argument or the value of an option is empty, perhaps from an unset variable.
    An empty path would mean the current directory."""
    for before, argument in pairwise(("", *arguments)):
        named = EMPTY_OPTION.fullmatch(argument)
        if named is not None or not argument:
            what = named[1] if named else before if before.startswith("-") else "an argument"
            raise click.UsageError(f"{what} is empty: is a variable not set?")


def _invoked(arguments: Sequence[str]) -> int:
    """Runs the group without `app.main`, because that prints its own texts for Ctrl-C and a broken
    pipe."""
    _check_not_empty(arguments)
    try:
        with app.make_context(PROGRAM, list(arguments), obj=list(arguments)) as context:
            code = app.invoke(context)
    except click.exceptions.Exit as end:  # --help, --version
        return end.exit_code
    return code if isinstance(code, int) else 0


def _usage(error: click.UsageError, arguments: Sequence[str]) -> str:
    command = error.ctx.command_path if error.ctx else _named(arguments)
    words = NO_NUMBER.sub(
        lambda found: "is not a whole number" if found[1] == "integer" else "is not a number",
        error.format_message().rstrip("."),
    )
    return f"{words} (see {command} --help)"


def _named(arguments: Sequence[str]) -> str:
    """The program and the subcommands at the beginning of the arguments."""
    words = [PROGRAM]
    command: click.Group = app
    for argument in arguments:
        found = command.get_command(click.Context(command), argument)
        if found is None:
            break
        words.append(argument)
        if not isinstance(found, click.Group):
            break
        command = found
    return " ".join(words)


def _failed(words: str, code: int) -> int:
    # Only after a failure, because help must not wait for codecs.
    from records.logged import LINE_MAX, shown

    lines = [shown(line, LINE_MAX) for line in f"{PROGRAM}: {words}".splitlines()]
    click.echo("\n".join(lines), err=True)
    return code
