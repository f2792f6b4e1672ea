"""deploy/*.service: systemd takes them, and finds them confined."""

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from downconvert.cli.app import app
from tests.programs import needs

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted(path.name for path in DEPLOY.glob("*.service"))
SYSTEMD = Path("/usr/lib/systemd/system")
EXPOSURE_MAX = 20  # tenths; systemd calls up to 2.0 safe ("OK")

needs_systemd = needs("systemd-analyze")


def analyze(root: Path, *arguments: str) -> str:
    """The complaints of systemd-analyze about units in `root`; empty if there are none."""
    command = ["systemd-analyze", *arguments, f"--root={root}"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A file system where the units and what they start are installed."""
    shutil.copytree(SYSTEMD, tmp_path / SYSTEMD.relative_to("/"), symlinks=True)
    units = tmp_path / "etc" / "systemd" / "system"
    units.mkdir(parents=True)
    for name in UNITS:
        shutil.copy(DEPLOY / name, units)
    for program in ("opt/downconvert/bin/downconvert", "bin/kill"):
        path = tmp_path / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o755)
    return tmp_path


def test_there_is_one_for_each_server() -> None:
    assert UNITS == ["downconvert-gateway.service", "downconvert-serve.service"]


@needs_systemd
@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_it(name: str, root: Path) -> None:
    assert not analyze(root, "verify", "--man=no", "--recursive-errors=no", name)


@needs_systemd
@pytest.mark.parametrize("name", UNITS)
def test_it_is_confined(name: str, root: Path) -> None:
    analyze(root, "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", name)


@pytest.mark.parametrize("name", UNITS)
def test_it_starts_a_command_that_there_is_with_options_that_it_has(name: str) -> None:
    text = (DEPLOY / name).read_text()
    started = re.search(
        r"^ExecStart=/opt/downconvert/bin/downconvert (\S+) (.*)$", text, re.MULTILINE
    )
    assert started is not None
    command = app.get_command(click.Context(app), started[1])
    assert command is not None
    known = {option for parameter in command.params for option in parameter.opts}
    options = re.findall(r"--[a-z-]+", started[2] + " ".join(re.findall(r"OPTIONS=(.*)\"", text)))
    assert options
    assert set(options) <= known
