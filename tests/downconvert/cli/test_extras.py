"""The packages of each extra, and the messages if they are missing."""

import ast
import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from typing import Any, Final

import pytest

from downconvert.cli.extras import ALWAYS, EXTRA_OF, words_for
from tests.import_statements import import_statements

from .conftest import batch
from .running import ROOT, Ran, one_line, start

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
    process = start("inspect", "x.log", blocked=missing)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert one_line(err) == f"downconvert: {missing} is missing: pip install lazy-downconvert"


NEEDS: Final = {
    "serve .": "broker",
    "gateway --bootstrap localhost:9": "broker",
    "simulate --preset kip-283": "broker",
    "simulate --brokers 3": "broker",
    "simulate-cluster": "broker",
    "simulate --report {tmp}/report.html": "report",
    "spark audit {tmp}": "spark",
    "spark convert --to-magic 1 {tmp} {tmp}/out": "spark",
    "spark export {tmp} {tmp}/out": "spark",
    "spark sweep {tmp}/out": "spark",
}
NEEDS_NOTHING: Final = (
    "generate {tmp}/made size=64KiB",
    "convert {segment} {tmp}/converted.log --to-magic 1",
    "dump {segment}",
    "inspect {tmp}",
    "upgrade {tmp} {tmp}-upgraded",
    "recover --dry-run {tmp}",
    "simulate {segment} --consumers 1 --rounds 1",
    "--help",
    "--version",
)
RUN_ALL: Final = """
import contextlib, io, json, sys
commands, blocked = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(blocked))
from downconvert.cli.app import run
for command in commands:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(command)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


@pytest.fixture(scope="module")
def without_extras(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """The results of all commands in one process without any extra, each with its own directory."""
    commands = []
    for arguments in (*NEEDS, *NEEDS_NOTHING):
        path = tmp_path_factory.mktemp("logs")
        segment = path / "00000000000000000000.log"
        segment.write_bytes(batch(0) + batch(3))
        commands.append(arguments.format(tmp=path, segment=segment).split())
    ran = subprocess.run(
        [sys.executable, "-c", RUN_ALL, json.dumps([commands, ALL.split()])],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    results = [Ran(*json.loads(line)) for line in ran.stdout.splitlines()]
    return dict(zip((*NEEDS, *NEEDS_NOTHING), results, strict=True))


@pytest.mark.parametrize(("arguments", "extra"), NEEDS.items())
def test_without_its_extra_a_command_says_how_to_install_it(
    without_extras: dict[str, Ran], arguments: str, extra: str
) -> None:
    ran = without_extras[arguments]
    assert (ran.code, ran.out) == (2, "")
    assert f"pip install 'lazy-downconvert[{extra}]'" in one_line(ran.err)


@pytest.mark.parametrize("arguments", NEEDS_NOTHING)
def test_without_any_extra_everything_else_works(
    without_extras: dict[str, Ran], arguments: str
) -> None:
    ran = without_extras[arguments]
    assert ran.code == 0, ran.err


def test_help_names_the_extra_of_a_command_that_cannot_run() -> None:
    process = start("--help", blocked=ALL)
    out, _ = process.communicate(timeout=60)
    assert "Serve a log directory to Kafka clients. (needs the extra 'broker')" in " ".join(
        out.split()
    )
