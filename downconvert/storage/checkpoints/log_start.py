"""The start offset of a log, and whether it is in the checkpoint.

Removing the oldest records must work on a full disk, where a new start offset cannot be written. It
is then written later. If the machine crashes before that, removed records of the first segment may
come back. This also happens in Kafka, which writes the start offset once a minute."""

from contextlib import suppress

from downconvert.storage.errors import DiskFullError

from .checkpoints import PartitionCheckpoints


class LogStart:
    """The first offset of a log that is written."""

    __slots__ = ("_checkpoints", "_is_noted", "offset")

    def __init__(self, checkpoints: PartitionCheckpoints, offset: int) -> None:
        """The start offset from the checkpoint, or from the segments."""
        self._checkpoints = checkpoints
        self._is_noted = True
        self.offset = offset

    def move(self, offset: int) -> None:
        """Moves the start in memory. Call `note` later."""
        self.offset = offset
        self._is_noted = False

    def note(self) -> None:
        """Writes the checkpoint. Returns when it is synced. DiskFullError: it is not written."""
        if not self._is_noted:
            self._checkpoints.set_start_offset(self.offset)
            self._is_noted = True

    def note_if_there_is_room(self) -> None:
        with suppress(DiskFullError):
            self.note()
