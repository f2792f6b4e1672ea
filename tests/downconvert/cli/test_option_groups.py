"""The help of a command with many options has a heading for each group of them."""

import re

import click
import pytest

from downconvert.cli.gateway import gateway
from downconvert.cli.option_groups import GroupedCommand, grouped_command
from downconvert.cli.serve import serve

from .running import Command


@pytest.mark.parametrize("command", [serve, gateway], ids=["serve", "gateway"])
def test_each_option_has_a_group(command: GroupedCommand) -> None:
    named = [name for names in command.option_groups.values() for name in names]
    options = [one.name for one in command.params if isinstance(one, click.Option)]
    assert sorted(named) == sorted(str(name) for name in options)


def test_an_option_that_no_group_names_is_shown_last() -> None:
    options: list[click.Parameter] = [
        click.Option(["--topic"]),
        click.Option(["--size"]),
        click.Option(["--rate"]),
    ]
    made = grouped_command({"Topics": ("topic",), "Limits": ("rate",)})("made", params=options)
    with click.Context(made) as context:
        sections = [
            (heading, [one.opts[0] for one in shown]) for heading, shown in made.sections(context)
        ]
    assert sections == [("Topics", ["--topic"]), ("Limits", ["--rate", "--size", "--help"])]


@pytest.mark.parametrize(
    ("name", "option", "heading"),
    [
        ("serve", "--follow", "Log directory:"),
        ("serve", "--help", "Process:"),
        ("gateway", "--cluster-ca", "Cluster:"),
        ("gateway", "--html", "Report of clients:"),
    ],
)
def test_help_shows_an_option_under_the_heading_of_its_group(
    name: str, option: str, heading: str, command: Command
) -> None:
    out = command(name, "--help").out
    found = re.search(rf"^  (-., )?{option}\b", out, re.MULTILINE)
    assert found is not None
    before = out[: found.start()]
    assert re.findall(r"^\S.*:$", before, re.MULTILINE)[-1] == heading


@pytest.mark.parametrize("name", ["serve", "gateway", "spark"])
def test_examples_come_before_explanations(name: str, command: Command) -> None:
    examples = command(name, "--help").out.split("\n\n")[2]
    assert examples.lstrip().startswith(f"downconvert {name} ")
