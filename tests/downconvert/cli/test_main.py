"""The command as a whole: help, usage errors, Ctrl-C, and a closed output."""

import sys
import time
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from pathlib import Path

import click
import pytest

from downconvert.cli import main
from downconvert.cli.app import COMMANDS, app
from tests.downconvert.doctor.test_request_log import text_line

from .running import Command, interrupt, one_line, start, without_notice


def test_without_arguments_it_lists_the_subcommands(command: Command) -> None:
    ran = command()
    assert ran.code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in ran.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_subcommand_has_help_with_an_example(name: str, command: Command) -> None:
    ran = command(name, "--help")
    assert ran.code == 0
    assert f"\n  downconvert {name} " in ran.out


def paths_of(name: str) -> Iterator[list[str]]:
    """The command lines of a subcommand, in which one path or other text is empty."""
    found = lazy_command(name)
    commands: dict[str, click.Command | None] = {name: found}
    if isinstance(found, click.Group):
        context = click.Context(found)
        names = found.list_commands(context)
        commands = {f"{name} {sub}": found.get_command(context, sub) for sub in names}
    for words, one in commands.items():
        assert one is not None
        for parameter in one.params:
            if isinstance(parameter, click.Option) and not parameter.is_flag:
                yield [*words.split(), parameter.opts[0], ""]
                if parameter.opts[0].startswith("--"):
                    yield [*words.split(), f"{parameter.opts[0]}="]
            elif isinstance(parameter, click.Argument):
                yield [*words.split(), ""]


def lazy_command(name: str) -> click.Command:
    found = app.get_command(click.Context(app), name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_an_empty_argument_is_refused_everywhere(
    name: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a variable which is not set: as a path it would be this directory."""
    partition = tmp_path / "t-0"
    partition.mkdir()
    log = partition / "00000000000000000000.log"
    log.write_bytes(b"no batch")
    monkeypatch.chdir(partition)
    lines = list(paths_of(name))
    for line in lines:
        ran = command(*line)
        assert (ran.code, " is empty" in one_line(ran.err)) == (2, True), line
    assert lines
    assert log.read_bytes() == b"no batch"
    assert list(tmp_path.rglob("*")) == [partition, log]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["dump"], "Missing argument 'PATHS...'"),
        (["dump", "x.log", "--colour"], "No such option"),
        (["convert", "in.log", "out.log"], "Missing option '--to-magic'"),
        (["convert", "in.log", "out.log", "--to-magic", "2"], "2 is not in the range 0<=x<=1"),
        (["convert", "in", "out", "--to-magic=1", "--policy=odd"], "'odd' is not a policy"),
        (["simulate", "--max-bytes", "lots"], "'lots' is not a size"),
        (["simulate", "--max-bytes", "0"], "'--max-bytes': '0' is less than 1"),
        (["simulate", "--rate", "1"], "'--rate': '1' is less than 1KiB"),
        (["simulate", "--modes", "lazy,fast"], "'fast' is not one of lazy, eager, zero-copy"),
        (["simulate", "--generate", "codec=lzma"], "codec is one of none, gzip"),
        (["simulate", "--keep", "x", "in.log"], "--keep is for the segments of --generate"),
        (["simulate", "--report", "no/such/place.html"], "there is no directory no/such"),
        (["generate", "x", "size=many"], "'many' is not a size"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(
    arguments: list[str], words: str, command: Command
) -> None:
    ran = command(*arguments)
    assert ran.code == 2
    assert words in one_line(ran.err)
    assert not ran.out


def test_an_unknown_kernel_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZY_DOWNCONVERT_BACKEND", "cobol")
    process = start("dump", "x.log")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert one_line(err).startswith("downconvert: LAZY_DOWNCONVERT_BACKEND is native or reference")


def test_a_closed_output_is_not_an_error(segment: Path) -> None:
    segment.write_bytes(segment.read_bytes() * 2000)
    process = start("dump", segment)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 141
    assert not without_notice(process.stderr.read())
    process.stderr.close()


def test_an_output_without_utf_8_shows_other_letters_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    log = tmp_path / "kafka-request.log"
    log.write_text(text_line("FETCH", 1, "caf\u00e9"))
    process = start("doctor", log)
    out, err = process.communicate(timeout=60)
    assert "caf\\xe9, 10." in out
    assert (process.returncode, without_notice(err)) == (1, "")


def test_an_error_has_no_control_codes_for_the_terminal(command: Command, tmp_path: Path) -> None:
    ran = command("dump", tmp_path / "\x1b[2J\udce9.log")
    assert ran.err == f"downconvert: {tmp_path}/\\x1b[2J\\udce9.log: no such file\n"


def test_ctrl_c_is_quiet(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    process = start("generate", kept, "size=64GiB,segment=64KiB")
    while not (kept.is_dir() and any(kept.iterdir())):
        assert process.poll() is None
        time.sleep(0.01)
    interrupt(process)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, without_notice(err)) == (130, "", "")
    assert not list(kept.iterdir())  # or the next run would find files in its way


def test_ctrl_c_is_quiet_while_the_command_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(MetaPathFinder):
        def find_spec(self, *_: object) -> None:
            raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "downconvert.cli.app")
    monkeypatch.setattr("sys.meta_path", [Interrupted()])
    assert main() == 130


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("simulate --rounds abc", "'--rounds': 'abc' is not a whole number"),
        ("doctor log --port 1.5", "'--port': '1.5' is not a whole number"),
        ("gateway --idle-timeout abc", "'--idle-timeout': 'abc' is not a number"),
        ("convert a b --to-magic 1 --first-offset 9223372036854775808", "is more than 922"),
        ("compact a --delete-retention-ms 9223372036854775808", "is more than 922"),
        ("retention a --retention-bytes 9223372036854775808", "is more than 922"),
        (f"simulate --max-bytes {'9' * 400}", "is larger than any file can be"),
    ],
)
def test_an_invalid_number_is_refused_in_words(line: str, words: str, command: Command) -> None:
    ran = command(*line.split())
    assert ran.code == 2
    assert words in one_line(ran.err)


@pytest.mark.parametrize("line", ["convert", "spark find", "recover"])
def test_a_wrong_option_leads_to_the_help_of_its_subcommand(line: str, command: Command) -> None:
    """The same holds if click's error does not name the subcommand."""
    option = {"convert": "--policy", "spark find": "--key", "recover": "--topic"}[line]
    ran = command(*line.split(), "path", option)
    assert one_line(ran.err).endswith(f"(see downconvert {line} --help)")


def test_a_group_without_a_subcommand_prints_its_help_as_it_is(command: Command) -> None:
    ran = command("spark")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == command("spark", "--help").out
