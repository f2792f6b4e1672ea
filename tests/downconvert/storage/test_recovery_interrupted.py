"""A recovery that dies at any of its steps is completed by the next one.

Not here: deaths of all that works on a log (test_crash.py)."""

from contextlib import suppress
from pathlib import Path

import pytest

from downconvert.storage import LogConfig
from downconvert.storage.disk.files import WritableFile
from downconvert.storage.disk.open_files import OpenFiles
from downconvert.storage.names import Kind, State, file_name
from downconvert.storage.recovery import RecoveredLog

from .logs import UnsyncedDisk, batch, indexed_segment

KINDS = (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX)


class DiedError(Exception):
    """Its disk takes no more operations."""


class DyingDisk(UnsyncedDisk):
    """A disk that fails from its n-th change of a name on."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def _step(self) -> None:
        if not self.left:
            raise DiedError
        self.left -= 1

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

    def open(self, path: Path) -> WritableFile:
        self._step()
        return super().open(path)


def recover(path: Path, disk: UnsyncedDisk) -> RecoveredLog:
    log = RecoveredLog(path, OpenFiles(), LogConfig(), disk)
    log.recover(clean=True, recovery_point=30, start_offset=0)
    return log


@pytest.mark.parametrize("steps", range(20))
def test_swaps_are_completed_with_their_indexes(tmp_path: Path, steps: int) -> None:
    path = tmp_path / "log"
    for base in (0, 10, 20):
        indexed_segment(path, base, *(batch(n, n + 1) for n in range(base, base + 10, 2)))
    contents: dict[str, bytes] = {}
    for base in (5, 15):  # what is left of other segments that the swaps replace
        indexed_segment(path, base, *(batch(n, n + 1) for n in range(base, base + 4, 2)))
    for base in (0, 10):
        numbers = (base + 3, base + 7)
        cleaned = indexed_segment(tmp_path / "cleaned", base, *map(batch, numbers), interval=1)
        for kind in KINDS:
            contents[file_name(base, kind)] = cleaned.path(kind).read_bytes()
            cleaned.path(kind).rename(path / file_name(base, kind, State.SWAP))
    with suppress(DiedError):
        recover(path, DyingDisk(steps))
    log = recover(path, UnsyncedDisk())
    assert [one.base_offset for one in log.segments] == [0, 10, 20]
    assert not log.report.checked  # nothing has to be read again
    assert {name: (path / name).read_bytes() for name in contents} == contents
    assert not list(path.glob("*.swap"))
