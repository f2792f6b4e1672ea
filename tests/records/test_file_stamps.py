"""Metadata of files without opening them. Both kernels return what os.stat returns."""

import os
from pathlib import Path
from types import ModuleType

import pytest

from records.kernel_functions import STAMP_SIZE

from .kernels import KERNELS

NOTHING = b"\xff" * STAMP_SIZE


def expected(path: bytes) -> bytes:
    found = Path(os.fsdecode(path)).stat()
    numbers = found.st_mtime_ns, found.st_size, found.st_ino
    return b"".join(number.to_bytes(8, "little") for number in numbers)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_stamp_has_the_systems_status_of_each_path(kernel: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("log")
    strange = os.fsencode(tmp_path) + b"/\xff\xfe"
    Path(os.fsdecode(strange)).write_bytes(b"")
    os.utime(tmp_path / "log", ns=(0, 1_234_567_890_123_456_789))
    paths = [os.fsencode(tmp_path / name) for name in (".", "log", "link")] + [strange]
    stamps = kernel.file_stamps(paths)
    assert stamps == b"".join(map(expected, paths))
    assert stamps[STAMP_SIZE : 2 * STAMP_SIZE] == stamps[2 * STAMP_SIZE : 3 * STAMP_SIZE]
    assert kernel.file_stamps([]) == b""


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", [b"", b"nothing", b"file/below", b"nul\0byte", b"x" * 5000])
def test_an_inaccessible_path_has_a_stamp_of_its_own(
    kernel: ModuleType, tmp_path: Path, name: bytes
) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    there = os.fsencode(tmp_path / "file")
    path = name and os.fsencode(tmp_path) + b"/" + name
    assert kernel.file_stamps([path, there]) == NOTHING + expected(there)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_file_older_than_the_epoch_has_a_stamp(kernel: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"")
    os.utime(tmp_path / "old", ns=(0, -1_500_000_000))
    stamp = kernel.file_stamps([os.fsencode(tmp_path / "old")])
    assert int.from_bytes(stamp[:8], "little", signed=True) == -1_500_000_000


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seconds", [-9_300_000_000, 9_300_000_000])
def test_a_time_beyond_64_bits_becomes_the_nearest_one(
    kernel: ModuleType, tmp_path: Path, seconds: int
) -> None:
    path = tmp_path / "strange"
    path.write_bytes(b"")
    os.utime(path, (0, seconds))
    time = max(-(2**63), min(path.stat().st_mtime_ns, 2**63 - 1))  # as the file system keeps it
    stamp = kernel.file_stamps([os.fsencode(path)])
    assert int.from_bytes(stamp[:8], "little", signed=True) == time


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("paths", [[b"bytes", None], 7])
def test_paths_are_bytes(kernel: ModuleType, paths: object) -> None:
    with pytest.raises(TypeError):
        kernel.file_stamps(paths)
