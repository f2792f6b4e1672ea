"""Options with the same meaning are the same for `serve` and `gateway`."""

import subprocess
import sys

import click
import pytest

from downconvert.cli.gateway import gateway
from downconvert.cli.serve import serve

from .running import Command, one_line


@pytest.mark.parametrize("name", ["recode", "verbose", "quiet", "as_json", "check"])
def test_an_option_of_both_commands_is_one(name: str) -> None:
    found = [one for command in (serve, gateway) for one in command.params if one.name == name]
    lines = [(one.opts, one.help, one.multiple) for one in found if isinstance(one, click.Option)]
    assert len(lines) == 2
    assert lines[0] == lines[1]


@pytest.mark.parametrize("line", [("serve", "."), ("gateway", "--bootstrap", "k:1")])
def test_a_recoding_rule_is_checked_by_both(command: Command, line: tuple[str, ...]) -> None:
    ran = command(*line, "--recode", "lz4=zip", "--check")
    assert ran.code == 2
    assert "zip" in one_line(ran.err)
    assert command(*line, "--recode", "lz4=gzip", "--check").code == 0


def test_a_gateway_starts_without_the_broker_and_libraries_that_it_may_not_need() -> None:
    """They would take as long to load as the rest, in each of its processes."""
    code = "import sys, downconvert.cli.gateway_run, downconvert.cli.gateway; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert "downconvert.gateway.server" in loaded
    assert loaded & {"downconvert.broker", "rich", "scramp"} == set()
