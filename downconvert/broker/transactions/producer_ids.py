"""Ids for idempotent producers. No id is given out twice, even after a crash.

Ids come from blocks. The end of a block is written to disk before any of its ids is given out. Each
node has its own range. Ids that an earlier broker has left in this directory are skipped. All logs
are searched for them once for each block, and not for each id, because there may be thousands.

Not here: the producers' sequence numbers (sequences.py)."""

from collections import deque
from collections.abc import Callable, Iterable
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
        self._free: deque[int] = deque()  # of the current block

    def take(self, known: Callable[[], Iterable[int]] = tuple) -> int:
        """An id. `known`: returns taken ids, besides those of the logs. It is called when a block
        begins. OSError, StorageError: the block cannot be written to disk."""
        with self._lock:
            while not self._free:
                block, taken = self._new_block(), set(known())
                for partition in self._topics.partitions():
                    taken.update(_known(partition, block))
                self._free.extend(one for one in block if one not in taken)
            return self._free.popleft()

    def _new_block(self) -> range:
        start = _read(self._path)
        end = start + BLOCK_SIZE
        replace_file(self._topics.log_dir.logs.files, self._path, b"%d\n" % end)
        return range(self._first + start, self._first + end)


def _known(partition: Partition, block: range) -> list[int]:
    """The ids of a block whose producers have batches in the log of a partition."""
    with partition.lock:  # an append changes the states before it writes its batches
        log = partition.log
        if not log.is_writable:
            return []
        producers = log.writer.producers
        if len(producers) < len(block):
            return [one for one in producers if one in block]
        return [one for one in block if one in producers]


def _read(path: Path) -> int:
    """The start of the next block."""
    try:
        text = read_file(path)
    except FileNotFoundError:
        return 0
    if not text.strip().isdigit() or len(text) > 12:
        raise CorruptFileError("holds no producer id", str(path))
    return int(text)
