"""Ids for idempotent producers. No id is given out twice, even after a crash.

Ids come from blocks. The end of a block is written to disk before any of its ids is given out. Each
node has its own range. Ids that an earlier broker has left in logs of this directory are skipped.

Not here: the producers' sequence numbers (sequences.py)."""

from pathlib import Path
from threading import Lock
from typing import Final

from downconvert.broker.partition import Partition
from downconvert.broker.topics import Topics
from downconvert.storage.disk.files import read_file, replace_file
from downconvert.storage.errors import CorruptFileError

FILE_NAME: Final = "producer-ids"
BLOCK_SIZE: Final = 1000  # as Kafka's
NODE_SHIFT: Final = 40  # bits of an id below the node's number


class ProducerIds:
    """The ids that one broker gives out."""

    def __init__(self, topics: Topics, node_id: int) -> None:
        self._topics = topics
        self._path: Path = topics.log_dir.path / FILE_NAME
        self._first = node_id << NODE_SHIFT
        self._lock = Lock()
        self._block = range(0)

    def take(self) -> int:
        """An id. OSError, StorageError: the block cannot be written to disk."""
        with self._lock:
            while True:
                if not self._block:
                    self._begin_block()
                producer_id = self._first + self._block[0]
                self._block = self._block[1:]
                if not self._is_known(producer_id):
                    return producer_id

    def _begin_block(self) -> None:
        start = _read(self._path)
        replace_file(self._topics.log_dir.logs.files, self._path, b"%d\n" % (start + BLOCK_SIZE))
        self._block = range(start, start + BLOCK_SIZE)

    def _is_known(self, producer_id: int) -> bool:
        return any(_has(partition, producer_id) for partition in self._topics.partitions())


def _has(partition: Partition, producer_id: int) -> bool:
    """Whether the log of a partition has batches of a producer."""
    with partition.lock:  # an append changes the states before it writes its batches
        log = partition.log
        return log.is_writable and producer_id in log.writer.producers


def _read(path: Path) -> int:
    """The start of the next block."""
    try:
        text = read_file(path)
    except FileNotFoundError:
        return 0
    if not text.strip().isdigit() or len(text) > 12:
        raise CorruptFileError("holds no producer id", str(path))
    return int(text)
