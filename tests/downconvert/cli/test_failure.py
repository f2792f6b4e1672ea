"""Errors in one line, and wrong invocations."""

import re
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from urllib.error import HTTPError, URLError

import click
import pytest

from downconvert.cli.app import app
from downconvert.cli.failure import in_words, reason, shortened

from .running import Command, one_line


def test_a_missing_package_is_reported_with_how_to_install_it() -> None:
    words = in_words(ModuleNotFoundError(name="kafka.protocol"))
    assert words == (
        "this needs the extra 'broker': pip install 'lazy-downconvert[broker]', or in a clone "
        "'.[broker]'"
    )


def test_a_missing_module_of_our_own_is_a_defect() -> None:
    assert in_words(ModuleNotFoundError(name="records.nothing")) is None


def test_only_the_first_of_many_problems_are_shown() -> None:
    assert shortened(["a", "b", "c"], shown_max=2) == ["a", "b", "1 more like these"]
    assert shortened(["a"], shown_max=2) == ["a"]


@pytest.mark.parametrize(
    "arguments",
    ["inspect {}", "recover {}", "recover --dry-run {}", "upgrade {} {}-out", "dump {}"],
)
def test_a_directory_without_a_log_is_bad_input(
    arguments: str, command: Command, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    ran = command(*arguments.format(empty, empty).split())
    assert ran.code == 2
    assert one_line(ran.err).startswith(f"downconvert: {empty}")
    assert not ran.out


@pytest.mark.parametrize(
    "arguments",
    [
        "convert {segment} {tmp}/none/out.log --to-magic 1",
        "doctor {segment} --html {tmp}/none/page.html",
        "conformance localhost:1 --html {tmp}/none/page.html",
        "gateway --report localhost:1 --html {tmp}/none/page.html",
        "simulate --report {tmp}/none/page.html",
        "simulate --preset herd --prometheus {tmp}/none/figures.txt",
        "spark audit {tmp} --report {tmp}/none/page.html",
        "spark sweep {tmp}/out --report {tmp}/none/page.html",
    ],
)
def test_a_missing_directory_of_an_output_is_named_before_anything_is_done(
    arguments: str, command: Command, segment: Path, tmp_path: Path
) -> None:
    ran = command(*arguments.format(segment=segment, tmp=tmp_path).split())
    assert ran.code == 2
    output = one_line(ran.err)
    assert f"there is no directory {tmp_path}/none to write it to" in output
    assert ".part" not in output


def test_an_offset_below_zero_is_refused(command: Command, segment: Path, tmp_path: Path) -> None:
    ran = command("convert", segment, tmp_path / "out", "--to-magic", 1, "--first-offset", -5)
    assert (ran.code, "-5 is not in the range x>=0" in one_line(ran.err)) == (2, True)


def test_users_that_are_not_utf_8_are_named_with_file_and_line(
    command: Command, tmp_path: Path
) -> None:
    users = tmp_path / "users.txt"
    users.write_bytes("# Käthe\nkäthe:pass\n".encode() + "käthe:pass\n".encode("latin-1"))
    ran = command("serve", tmp_path, "--listen", "127.0.0.1:0", "--sasl-users", users)
    assert (ran.code, one_line(ran.err)) == (2, f"downconvert: {users}: line 3 is not UTF-8")


def commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of all subcommands, with those of groups."""
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                yield from commands(command, (*words, name))
            else:
                yield (*words, name)


@pytest.mark.parametrize("words", list(commands(app)), ids=" ".join)
def test_help_says_each_default_once(words: tuple[str, ...], command: Command) -> None:
    help_text = command(*words, "--help").out
    for option in re.split(r"\n  (?=-)", help_text):
        assert option.count("[default:") <= 1, option


def test_reasons_have_no_python_names() -> None:
    refused = URLError(ConnectionRefusedError(111, "Connection refused"))
    assert reason(refused) == "Connection refused"
    assert reason(HTTPError("http://x", 404, "Not Found", Message(), None)) == (
        "the server says 404 Not Found"
    )
    assert reason(URLError("unknown url type: x")) == "unknown url type: x"
