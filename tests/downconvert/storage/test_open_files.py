"""No more segments have files open than may; those that were not read for longest close theirs."""

import gc
import os
import warnings
from pathlib import Path

import pytest

from downconvert.storage.open_files import OpenFiles, SharedFile
from records import FileRecords


class Holder:
    def __init__(self, open_files: OpenFiles) -> None:
        self.open_files = open_files
        self.is_open = False

    def use(self) -> None:
        self.is_open = True
        self.open_files.used(self)

    def release(self) -> None:
        self.is_open = False
        self.open_files.released(self)


def test_the_one_that_was_used_last_stays_open() -> None:
    open_files = OpenFiles(2)
    a, b, c = holders = [Holder(open_files) for _ in range(3)]
    for holder in (a, b, a, c):
        holder.use()
    assert [holder.is_open for holder in holders] == [True, False, True]
    a.release()
    b.use()
    assert [holder.is_open for holder in holders] == [False, True, True]


def test_a_file_is_closed_when_nobody_holds_a_slice_of_it(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"data")
    file = SharedFile(str(tmp_path / "f"))
    number = file.fileno()
    found = FileRecords(file, 1, 2)
    del file
    gc.collect()
    os.fstat(number)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is closed as it should be, and nobody is warned
        del found
        gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
