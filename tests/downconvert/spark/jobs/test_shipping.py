"""The shipped package is the one that runs here, with the same bytes each time."""

import zipfile
from pathlib import Path

import pytest

from downconvert.spark.jobs.shipping import PACKAGES, settings_for, write_archive
from records import native


def test_the_archive_holds_every_module_and_the_kernel(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "package.zip")
    names = set(zipfile.ZipFile(archive).namelist())
    root = Path(native.__file__).parent.parent
    for package in PACKAGES:
        for path in (root / package).rglob("*.py"):
            assert str(path.relative_to(root)) in names
    assert any(name.startswith("records/_kernel") for name in names) or not list(
        (root / "records").glob("_kernel*.so")
    )
    assert not any("__pycache__" in name for name in names)


def test_a_folder_of_another_package_is_not_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    archive = write_archive(tmp_path / "package.zip")
    tops = {name.split("/")[0] for name in zipfile.ZipFile(archive).namelist()}
    assert tops == {"records", "downconvert", "simulator", "pyspark_kafka_segments"}


def test_the_same_package_is_the_same_archive(tmp_path: Path) -> None:
    first, second = (write_archive(tmp_path / name) for name in ("a.zip", "b.zip"))
    assert first.read_bytes() == second.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"a.zip", "b.zip"}


def test_executors_get_the_path_of_the_package(tmp_path: Path) -> None:
    settings = settings_for(tmp_path / "package.zip")
    folder = settings["spark.executorEnv.PYTHONPATH"]
    assert settings["spark.archives"] == f"file://{tmp_path}/package.zip#{folder}"
