"""The kernel is loaded where the package is imported from a zip."""

import os
import subprocess
import sys
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

import pytest

import records

from .kernels import REQUIRE_NATIVE

PACKAGE: Final = Path(records.__file__).parent
# An editable installation finds the kernel of its directory for any package of that name.
SHOWN: Final = """
import sys
sys.meta_path[:] = [one for one in sys.meta_path if "Editable" not in getattr(one, "__name__", "")]
from records import backend, __file__
print(backend.NAME, __file__)
"""


def zipped(target: Path, *, kernel: bool) -> Path:
    suffixes = (".py", *(EXTENSION_SUFFIXES if kernel else ()))
    with zipfile.ZipFile(target, "w") as archive:
        for path in PACKAGE.rglob("*"):
            if path.name.endswith(suffixes):
                archive.write(path, Path("records", path.relative_to(PACKAGE)))
    return target


def shown(path: Path, home: Path) -> list[str]:
    """The kernel and the package's location, for a Python that finds it in a path."""
    environment = os.environ | {"PYTHONPATH": str(path), "TMPDIR": str(home)}
    environment.pop("LAZY_DOWNCONVERT_BACKEND", None)
    command = [sys.executable, "-c", SHOWN]
    found = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


def test_a_kernel_in_a_zip_runs_and_leaves_no_file(tmp_path: Path) -> None:
    if not list(PACKAGE.glob("_kernel*")) and not os.environ.get(REQUIRE_NATIVE):
        pytest.skip("the native kernel has not been built")
    (tmp_path / "home").mkdir()
    archive = zipped(tmp_path / "package.zip", kernel=True)
    name, place = shown(archive, tmp_path / "home")
    assert name == "native"
    assert place.startswith(str(archive))
    assert not list((tmp_path / "home").iterdir())


def test_without_a_kernel_in_the_zip_the_reference_runs(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "package.zip", kernel=False)
    name, place = shown(archive, tmp_path)
    assert name == "reference"
    assert place.startswith(str(archive))


def test_the_reference_runs_if_no_temporary_file_can_be_made(tmp_path: Path) -> None:
    """As on a machine whose disk is full or read-only."""
    archive = zipped(tmp_path / "package.zip", kernel=False)
    with zipfile.ZipFile(archive, "a") as one:
        one.writestr(f"records/_kernel{EXTENSION_SUFFIXES[0]}", b"any")
        one.writestr(
            "tempfile.py",
            "def NamedTemporaryFile(suffix): raise OSError(28, 'No space left on device')",
        )
    name, _ = shown(archive, tmp_path)
    assert name == "reference"
