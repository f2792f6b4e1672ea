"""Checks the files of the logs that a broker writes, once a second.

Somebody may move or replace the file of an active segment. Later appends could then not be read, so
the partition is taken offline. Files without appends are closed, because a broker may have ten
thousand partitions.

Not here: retention by age and size (maintenance.py)."""

import os
from struct import Struct
from typing import Final

from downconvert.broker.partition import Partition
from downconvert.broker.state import BrokerState
from downconvert.storage import StorageError
from records.backend import file_stamps
from records.logged import log_of

LOG: Final = log_of(__name__)
STAMP: Final = Struct("<QQQ")  # of a file: time, size, inode
IDLE_MAX: Final = 30.0  # seconds without an append until files are closed
RELEASED_MAX: Final = 100  # logs that one look closes, because each is flushed first


class LogFiles:
    """The files of a writable broker's logs. Only one thread calls it."""

    def __init__(self, broker: BrokerState) -> None:
        self._broker = broker
        self._open: dict[Partition, tuple[int, float]] = {}  # the log's end, seen since when

    def look(self, now: float) -> None:
        """Takes partitions offline if their files were moved or replaced, and closes idle ones.
        `now` in seconds, of any clock."""
        written = [
            partition
            for partition in self._broker.topics.partitions()
            if partition.log.is_writable and partition.log.offline_reason is None
        ]
        self._check(written)
        self._close_idle(written, now)

    def _check(self, partitions: list[Partition]) -> None:
        """Checks all partitions by one call. Those that seem changed are checked again under their
        locks, because this process may have rolled or truncated the log."""
        files = [partition.log.writer.active for partition in partitions]
        least = [file.position for file in files]  # bytes, at this moment
        stamps = file_stamps([os.fsencode(file.segment.location()) for file in files])
        found = STAMP.iter_unpack(stamps)
        for partition, file, size, stamp in zip(partitions, files, least, found, strict=True):
            if stamp[2] == file.inode and stamp[1] >= size:
                continue
            writer = partition.log.writer
            with partition.lock:
                is_offline = not (writer.is_closed or writer.is_in_place())
            if is_offline:
                self._broker.purgatory.notify(partition.key)

    def _close_idle(self, partitions: list[Partition], now: float) -> None:
        still: dict[Partition, tuple[int, float]] = {}
        released = 0
        for partition in partitions:
            writer = partition.log.writer
            if not writer.active.is_open:
                continue
            end, since = self._open.get(partition, (-1, now))
            if end != writer.end_offset or now < since:  # or the clock was set back
                still[partition] = (writer.end_offset, now)
            elif now - since < IDLE_MAX or released == RELEASED_MAX:
                still[partition] = (end, since)
            else:
                released += 1
                self._release(partition)
        self._open = still

    def _release(self, partition: Partition) -> None:
        writer = partition.log.writer
        try:
            with partition.lock:
                if not writer.is_closed:
                    writer.release()
        except (OSError, StorageError) as error:
            LOG.warning("the files of %s cannot be closed: %s", partition.name, error)
