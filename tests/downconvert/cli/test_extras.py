"""The packages of each extra, and the messages if they are missing."""

import ast
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Final

import pytest

from downconvert.cli.extras import ALWAYS, EXTRA_OF, words_for
from tests.import_statements import import_statements

from .running import ROOT, one_line, start

PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURS: Final = {"records", "downconvert", "simulator"}
OPTIONAL: Final = {"botocore", "fsspec", "isal"}  # taken where they are there
ALL: Final = " ".join([*EXTRA_OF, *OPTIONAL])


def distributions(requirements: list[str]) -> set[str]:
    return {requirement.split(">")[0].split("[")[0] for requirement in requirements}


def brings() -> dict[str, str]:
    """Import names, and the distributions that have them."""
    return {name: found[0].replace("_", "-") for name, found in packages_distributions().items()}


def imported() -> set[str]:
    """The names of all packages that are not ours nor Python's, wherever they are imported."""
    names = set[str]()
    for folder in OURS:
        for path in (ROOT / folder).rglob("*.py"):
            for node in import_statements(path):
                if isinstance(node, ast.Import):
                    names |= {alias.name.split(".")[0] for alias in node.names}
                elif not node.level and node.module:
                    names.add(node.module.split(".")[0])
    return names - OURS - sys.stdlib_module_names


def test_every_package_that_is_imported_has_a_place() -> None:
    assert imported() - OPTIONAL == (
        (ALWAYS | EXTRA_OF.keys()) - {"kafka", "pandas"}
    )  # whose files are read, and which Spark imports


def test_packages_that_are_always_needed_are_requirements() -> None:
    known = brings()
    needed = {known[name] for name in ALWAYS}
    assert needed == distributions(PROJECT["dependencies"])


def test_each_extra_installs_the_listed_packages() -> None:
    known = brings()
    for name in EXTRA_OF.keys() - {"py4j"}:  # which pyspark brings
        brought = distributions(PROJECT["optional-dependencies"][EXTRA_OF[name]])
        assert known[name] in brought, name


def test_a_package_without_an_extra_is_a_defect() -> None:
    assert words_for("records.nothing") is None


@pytest.mark.parametrize("missing", ["click", "rich", "zstandard"])
def test_without_a_requirement_it_says_how_to_install_it(missing: str) -> None:
    process = start("dump", "x.log", blocked=missing)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert one_line(err) == f"downconvert: {missing} is missing: pip install lazy-downconvert"


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        ("serve .", "broker"),
        ("gateway --bootstrap localhost:9", "broker"),
        ("simulate --preset kip-283", "broker"),
        ("simulate --brokers 3", "broker"),
        ("simulate-cluster", "broker"),
        ("simulate --report {tmp}/report.html", "report"),
        ("spark audit {tmp}", "spark"),
        ("spark convert --to-magic 1 {tmp} {tmp}/out", "spark"),
        ("spark export {tmp} {tmp}/out", "spark"),
        ("spark sweep {tmp}/out", "spark"),
    ],
)
def test_without_its_extra_a_command_says_how_to_install_it(
    arguments: str, extra: str, tmp_path: Path
) -> None:
    process = start(*arguments.format(tmp=tmp_path).split(), blocked=ALL)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert f"pip install 'lazy-downconvert[{extra}]'" in one_line(err)


@pytest.mark.parametrize(
    "arguments",
    [
        "generate {tmp}/made size=64KiB",
        "convert {segment} {tmp}/converted.log --to-magic 1",
        "dump {segment}",
        "inspect {tmp}",
        "upgrade {tmp} {tmp}-upgraded",
        "recover --dry-run {tmp}",
        "simulate {segment} --consumers 1 --rounds 1",
        "--help",
        "--version",
    ],
)
def test_without_any_extra_everything_else_works(
    arguments: str, segment: Path, tmp_path: Path
) -> None:
    filled = arguments.format(tmp=tmp_path, segment=segment)
    process = start(*filled.split(), blocked=ALL)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err


def test_help_names_the_extra_of_a_command_that_cannot_run() -> None:
    process = start("--help", blocked=ALL)
    out, _ = process.communicate(timeout=60)
    assert "Be the broker of a log directory. (needs the extra 'broker')" in " ".join(out.split())
