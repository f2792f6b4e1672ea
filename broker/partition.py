"""One partition as its broker sees it: the log, and how far whom may read.

Not here: the log itself (storage.Log), who follows (replica.py)."""

from threading import RLock
from typing import Final

from broker import appending
from broker.appending import Appended, Prepared
from broker.sequences import Sequences
from records import FileRecords
from storage import AbortedTransaction, Log, TopicPartition

CONSUMER: Final = -1  # the replica ids of fetches that are no follower's
DEBUG_CONSUMER: Final = -2
FUTURE_REPLICA: Final = -3


class Partition:
    """A partition that this broker has a replica of. Its lock is held for moments only: never
    while records are converted, or sent."""

    def __init__(self, name: TopicPartition, log: Log, node_id: int) -> None:
        self.name = name
        self.log = log
        self.lock = RLock()
        self.leader: int | None = node_id
        self.leader_epoch = 0
        self.replicas: tuple[int, ...] = (node_id,)
        self.isr: frozenset[int] = frozenset({node_id})
        self.sequences = Sequences()

    @property
    def start_offset(self) -> int:
        with self.lock:
            return self.log.start_offset

    @property
    def end_offset(self) -> int:
        with self.lock:
            return self.log.end_offset

    @property
    def high_watermark(self) -> int:
        """What is below is on every replica that counts."""
        return self.end_offset

    @property
    def last_stable_offset(self) -> int:
        """What is below belongs to no open transaction, and is below the high watermark."""
        with self.lock:
            return min(self.high_watermark, self.log.last_stable_offset)

    def bound(self, replica_id: int = CONSUMER, *, committed: bool = False) -> int:
        """The offset below which a fetch may read: a follower all of it, a consumer what is below
        the high watermark, or the last stable offset."""
        if replica_id >= 0 or replica_id == FUTURE_REPLICA:
            return self.end_offset
        return self.last_stable_offset if committed else self.high_watermark

    def read(self, offset: int, max_bytes: int, up_to: int) -> FileRecords:
        """Records from the batch that holds `offset` on, of one segment, below `up_to`.

        OffsetOutOfRangeError; RecordsError and StorageError for a log that is damaged there."""
        with self.lock:
            return self.log.read(offset, max_bytes, up_to=up_to)

    def append(self, prepared: Prepared, now: int) -> Appended:
        """Appends what a producer sent; as `appending.append`."""
        return appending.append(self, prepared, now)

    def aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with records from `start` up to `end`."""
        with self.lock:
            return self.log.aborted(start, end)
