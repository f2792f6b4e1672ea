"""The tutorials do what they say: programs run, and commands and their options exist."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from downconvert.cli.app import app

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
TUTORIALS = sorted(DOCS.glob("tutorial-*.md"))


def test_there_are_three() -> None:
    assert [page.stem for page in TUTORIALS] == [
        "tutorial-fetch-handler",
        "tutorial-spark",
        "tutorial-upgrade",
    ]


def test_the_fetch_handler_runs_as_it_stands_and_prints_what_is_said(tmp_path: Path) -> None:
    text = (DOCS / "tutorial-fetch-handler.md").read_text()
    found = re.search(r"^```python\n(.*?)^```\n\nIt prints:\n\n```\n(.*?)^```$", text, re.M | re.S)
    assert found is not None
    script = tmp_path / "handler.py"
    script.write_text(found[1])
    ran = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert (ran.stdout, ran.stderr) == (found[2], "")


def invocations() -> list[str]:
    """Each line of `downconvert` in a tutorial, in a block or in the text."""
    found = []
    for page in TUTORIALS:
        text = page.read_text()
        found += re.findall(r"^downconvert .*$", text, re.M)
        found += re.findall(r"`(downconvert [^`\n]* [^`\n]*)`", text)
    return [line for line in found if line.count(" ") > 1]


@pytest.mark.parametrize("line", invocations())
def test_a_command_of_a_tutorial_exists_with_its_options(line: str) -> None:
    """Parsed as the command itself would; nothing is run."""
    words = shlex.split(line)[1:]
    group: click.Command = app
    context = click.Context(app, info_name="downconvert")
    while isinstance(group, click.Group):
        name = words.pop(0)
        command = group.get_command(context, name)
        assert command is not None, name
        context = click.Context(command, info_name=name, parent=context)
        group = command
    if words != ["--report"]:
        group.make_context(name, words, parent=context.parent)
