"""Commands in the documents exist, with their options; settings in them are known.

Most need a cluster or take minutes, so they are not run here. Examples in Python and in SQL run in
tests/test_docs.py, tests/test_tutorials.py, tests/downconvert/storage/test_documents.py and
tests/downconvert/spark/test_documents.py."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import click
import pytest

from downconvert.access import settings as access
from downconvert.cli import gateway as command
from downconvert.cli.app import app
from downconvert.gateway import settings as gateway
from downconvert.gateway.clusters import CLUSTERS, NAME
from downconvert.gateway.config import Limits

ROOT: Final = Path(__file__).parent.parent
PAGES: Final = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
PAGES.remove(ROOT / "CHANGELOG.md")  # what it names may be gone by now
IDS: Final = [path.name for path in PAGES]
FENCED: Final = re.compile(r"^( *)```[ ]?(\w*).*\n((?:.*\n)*?)\1```$", re.M)
RUN: Final = {"README", "embedding", "tutorial-fetch-handler", "tutorial-spark"}
RUN_ELSEWHERE: Final = {"storage", "spark", "spark-streams", "spark-jobs"}
LANGUAGES: Final = {"", "hex", "python", "sh", "sql", "toml"}


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of each block."""
    return [(language, text) for _, language, text in FENCED.findall(page.read_text())]


def commands(page: Path, program: str) -> Iterator[str]:
    """Each call of a program, in a block or in the text: from its name to the end."""
    text = page.read_text()
    lines = [one.group(1) for one in re.finditer(r"(?<!`)`([^`]+)`(?!`)", FENCED.sub("", text))]
    for _, block in blocks(page):
        lines += block.replace("\\\n", " ").splitlines()
    lines += re.findall(r"^    (\S.*)$", FENCED.sub("", text), re.M)
    for line in lines:
        for part in re.split(r" \| |&& |; ", " ".join(line.split())):
            if found := re.match(rf"(?:\$ |[A-Z_]+=\S+ )*({re.escape(program)} .*)", part):
                yield re.split(r" +#| > ", found[1])[0]


def options(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if word.startswith("--")}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_a_command_exists_with_its_options(page: Path) -> None:
    context = click.Context(app, info_name="downconvert")
    for line in commands(page, "downconvert"):
        words = re.sub(r"\\?\|\S+", "", line).split()[1:]
        command: click.Command = app
        while isinstance(command, click.Group) and words and words[0][0].islower():
            found = command.get_command(context, words.pop(0))
            assert found is not None, line
            command = found
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
        assert options(words) <= known | {"--help", "--version"}, line


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_a_module_that_is_run_exists_and_names_its_options(page: Path) -> None:
    for line in commands(page, "python -m"):
        _, _, module, *words = line.split()
        top, *below = module.rstrip("…").split(".")
        if top not in ("bench", "judges", "simulator", "tests"):
            continue
        folder = ROOT.joinpath(top, *below[:-1])
        if below and below[-1]:
            folder = folder / below[-1] if (folder / below[-1]).is_dir() else folder
            path = ROOT.joinpath(top, *below)
            assert path.is_dir() or path.with_suffix(".py").exists(), line
        sources = "".join(path.read_text() for path in folder.rglob("*.py"))
        assert {name for name in options(words) if f'"{name}' not in sources} == set(), line


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_a_target_of_make_exists(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for line in commands(page, "make"):
        assert line.split()[1] in targets, line


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_settings_of_an_example_are_known(page: Path) -> None:
    top = gateway.TOP | access.TOP | set(command.AT_START)
    rule = access.RULE | access.RIGHTS | access.CLIENT_LIMITS | gateway.TOWARDS_CLUSTER
    tables = {
        "cluster": gateway.CLUSTER,
        "limits": {field.name for field in fields(Limits)},
        "oauth": access.OAUTH,
        "clients": rule | {access.SUPER_USER, access.FOLLOWERS},
    }
    for language, text in blocks(page):
        if language == "toml":
            whole = tomllib.loads(text)
            sections = [
                {name: value for name, value in section.items() if name != NAME}
                for section in whole.pop(CLUSTERS, [])
            ]
            for settings in (whole, *sections):
                assert settings.keys() <= top
                for name, known in tables.items():
                    found: Any = settings.get(name, {})
                    for table in found if isinstance(found, list) else [found]:
                        assert table.keys() <= known, name


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_a_block_is_of_a_kind_that_is_tested(page: Path) -> None:
    for language, text in blocks(page):
        assert language in LANGUAGES, text
        assert language not in ("python", "sql") or page.stem in RUN | RUN_ELSEWHERE, text


def test_the_tests_that_ci_names_exist() -> None:
    named = re.findall(r"(?<![\w/])(tests(?:/[\w.]+)+)(?:::(\w+))?", (ROOT / ".ci/run").read_text())
    assert any(test for _, test in named)
    for path, test in named:
        assert (ROOT / path).exists(), path
        assert not test or f"def {test}(" in (ROOT / path).read_text(), test
