"""The command reference matches the command's own help."""

from bench.command_reference import PAGE, reference
from downconvert.cli.app import COMMANDS
from downconvert.cli.spark import JOBS


def test_the_page_equals_the_commands_help() -> None:
    text = PAGE.read_text()
    assert text == reference(), "run: python -m bench.command_reference"


def test_the_page_has_every_command_and_job() -> None:
    text = PAGE.read_text()
    for name in (*COMMANDS, *(f"spark {job}" for job in JOBS)):
        assert f"\n## downconvert {name}\n" in text


def test_every_option_has_a_description() -> None:
    silent = [line for line in PAGE.read_text().splitlines() if line.startswith("| `-")]
    assert [line for line in silent if line.split(" | ")[1].strip() == ""] == []
