"""The start of a log is written once for each move, and later if the disk was full."""

import errno

import pytest

from downconvert.storage import DiskFullError
from downconvert.storage.checkpoints.checkpoints import PartitionCheckpoints
from downconvert.storage.checkpoints.log_start import LogStart


class Checkpoints(PartitionCheckpoints):
    """Those of a partition, on a disk that may be full."""

    def __init__(self) -> None:
        self.noted: list[int] = []
        self.is_full = False

    def set_start_offset(self, offset: int) -> None:
        if self.is_full:
            raise DiskFullError("checkpoint") from OSError(errno.ENOSPC, "full")
        self.noted.append(offset)


def test_a_start_is_noted_once_for_each_move() -> None:
    checkpoints = Checkpoints()
    start = LogStart(checkpoints, 3)
    start.note()  # it is what the checkpoint says
    assert checkpoints.noted == []
    start.move(7)
    start.note()
    start.note()
    start.note_if_there_is_room()
    assert (start.offset, checkpoints.noted) == (7, [7])


def test_a_start_that_found_no_room_is_noted_later() -> None:
    checkpoints = Checkpoints()
    start = LogStart(checkpoints, 3)
    start.move(7)
    checkpoints.is_full = True
    with pytest.raises(DiskFullError):
        start.note()
    start.note_if_there_is_room()
    assert (start.offset, checkpoints.noted) == (7, [])
    checkpoints.is_full = False
    start.note_if_there_is_room()
    assert checkpoints.noted == [7]
