"""A process reads its own figures, and those of its disk."""

import os
import tempfile
from pathlib import Path
from time import process_time

import pytest

from downconvert.serving.process_figures import cpu_seconds, free_bytes, resident_bytes
from tests.descriptors import no_more_files


class Disk:
    """The result of `statvfs`: 7 blocks are free for all, and 9 for root."""

    f_bavail, f_bfree, f_frsize, f_bsize = 7, 9, 1000, 4000


def test_free_bytes_are_those_of_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []

    def statvfs(path: str) -> Disk:
        measured.append(path)
        return Disk()

    monkeypatch.setattr(os, "statvfs", statvfs)
    assert free_bytes(str(tmp_path)) == free_bytes(None) == 7000
    assert measured == [str(tmp_path), tempfile.gettempdir()]


def test_free_bytes_of_a_directory_that_is_gone_are_unknown(tmp_path: Path) -> None:
    assert free_bytes(str(tmp_path / "gone")) is None


def test_the_time_of_all_threads_counts() -> None:
    before = cpu_seconds()
    assert before <= process_time()
    sum(range(200_000))
    assert cpu_seconds() >= before


def test_the_memory_is_reported_while_no_more_file_can_be_opened() -> None:
    """Clients may have taken all. A server that tells its figures must not end for that."""
    before = resident_bytes()
    with no_more_files():
        found = resident_bytes()
    assert before // 2 < found < before * 100
