"""Where a log begins, and whether its checkpoint says so.

To remove the oldest records must work on a full disk, where a new start cannot be noted: then it is
noted later. After a crash before that, records of the first segment may be back, as in Kafka, which
writes the start once a minute."""

from contextlib import suppress

from downconvert.storage.errors import DiskFullError

from .checkpoints import PartitionCheckpoints


class LogStart:
    """The first offset of a log that is written."""

    __slots__ = ("_checkpoints", "_is_noted", "offset")

    def __init__(self, checkpoints: PartitionCheckpoints, offset: int) -> None:
        """What the checkpoint says, or the segments."""
        self._checkpoints = checkpoints
        self._is_noted = True
        self.offset = offset

    def move(self, offset: int) -> None:
        """`note` must follow, sooner or later."""
        self.offset = offset
        self._is_noted = False

    def note(self) -> None:
        """Returns when it is safe. DiskFullError: it is not."""
        if not self._is_noted:
            self._checkpoints.set_start_offset(self.offset)
            self._is_noted = True

    def note_if_there_is_room(self) -> None:
        with suppress(DiskFullError):
            self.note()
