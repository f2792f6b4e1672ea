"""The state of one partition of a broker: its log, its leader, and how far each client may read.

Not here: changes of the log and of the leader (partition.py), the log itself (storage.Log)."""

import os
from collections.abc import Sequence
from math import inf
from threading import RLock
from typing import Final

from downconvert.access.replica_ids import CONSUMER, FUTURE_REPLICA
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.storage import AbortedTransaction, Log, TopicPartition
from downconvert.storage.checkpoints.checkpoint import EpochEntry
from records import FileRecords

from .replication import leader_epochs
from .replication.leader_epochs import NO_EPOCH, EpochEnd
from .replication.replica import Replicas
from .sequences import Sequences

LOOK_AGE_MAX: Final = 0.005  # seconds for which the offsets of another process's log are reused


class PartitionState:
    """A partition with a replica on this broker. The lock is held briefly, and never while
    records are converted or sent."""

    def __init__(
        self, name: TopicPartition, log: Log, node_id: int, with_others: set["PartitionState"]
    ) -> None:
        """`with_others`: see `Topics.with_others`."""
        self.name = name
        self.key: Final = ("partition", name.topic, name.partition)  # in the purgatory
        self.log = log
        self._writer = log.writer if log.is_writable else None
        self.directory = os.fsencode(log.path)
        self.tail = self.directory  # the last segment's file, at the last look
        self.lock = RLock()
        self.node_id = node_id
        self.leader: int | None = node_id
        self.leader_epoch = max(0, leader_epochs.latest(leader_epochs.epochs_of(log)))
        self.replicas: tuple[int, ...] = (node_id,)
        self.isr: frozenset[int] = frozenset({node_id})
        self._with_others = with_others
        self.version = -1  # of the controller's last decision
        self.sequences = Sequences()
        self._isr_min = 1
        self.committed_end: int | None = None  # the high watermark of the broker that owns the log
        self._high_watermark = 0
        self._looked = -inf  # time and log end of the last look at the log
        self._end_seen = 0
        self._view: Replicas | None = None  # the leader's view of the followers

    @property
    def is_followed(self) -> bool:
        """Whether another process writes its log."""
        return self._writer is None

    # --- offsets

    @property
    def start_offset(self) -> int:
        with self.lock:
            return (self._writer or self.log).start_offset

    @property
    def end_offset(self) -> int:
        with self.lock:
            return (self._writer or self.log).end_offset

    @property
    def high_watermark(self) -> int:
        """Records below it are committed: every in-sync replica has them."""
        return self._committed(self.end_offset) if len(self.replicas) == 1 else self._high_watermark

    def _committed(self, end: int) -> int:
        """The high watermark of a log that ends at `end`."""
        if len(self.replicas) != 1:
            return self._high_watermark
        return end if self.committed_end is None else min(end, self.committed_end)

    def offsets(self, offset: int, now: float, *, stable: bool) -> tuple[int, int, int]:
        """Start offset, high watermark, and last stable offset (if not `stable`: the high watermark
        again). All are from the same moment. `now` in seconds.

        If another process writes the log, reading these costs a dozen system calls. So a fetch
        below the known end reuses values that are not older than LOOK_AGE_MAX."""
        with self.lock:
            age, end = now - self._looked, self._end_seen
            again = self._writer is not None or offset >= end or not 0 <= age < LOOK_AGE_MAX
            start, end, last_stable = self.log.look(stable=stable, again=again)
            if again:
                self._looked, self._end_seen = now, end
            high_watermark = self._committed(end)
            return start, high_watermark, min(high_watermark, last_stable)

    def may_hold(self, offset: int) -> bool:
        """Whether the log ends after this offset. If another process writes it: whether it did when
        it was last looked at."""
        return offset < (self._end_seen if self._writer is None else self._writer.end_offset)

    @property
    def is_high_watermark_certain(self) -> bool:
        """Whether the high watermark covers everything that earlier leaders had committed. Before,
        it may seem to decrease, so a client that asks for the log's end must retry [KIP-207]."""
        view = self._view
        return view is None or self._high_watermark >= view.epoch_start

    @property
    def last_stable_offset(self) -> int:
        """Records below it are below the high watermark and not in an open transaction."""
        with self.lock:
            return min(self.high_watermark, self.log.last_stable_offset)

    def bound(self, replica_id: int = CONSUMER, *, committed: bool = False) -> int:
        """The offset below which a fetch may read: the log's end for a follower, the high watermark
        or the last stable offset for a consumer."""
        if replica_id >= 0 or replica_id == FUTURE_REPLICA:
            return self.end_offset
        return self.last_stable_offset if committed else self.high_watermark

    def state(self) -> tuple[object, ...] | None:
        """A value that changes whenever a read may give another result; None: another process
        writes the log. Cheap, and without a lock: it also changes during a change of the log.

        The last stable offset changes only with the log's end or the epoch, so it is left out."""
        writer = self._writer
        if writer is None:
            return None
        return (
            writer.end_offset,
            writer.start_offset,
            self._high_watermark,
            self.committed_end,
            self.replicas,
            self.leader_epoch,
            self.leader,
            writer.reason,
        )

    def is_under_min_isr(self, isr_min: int) -> bool:
        """Whether fewer replicas are in sync than min.insync.replicas and the partition's number of
        replicas."""
        return len(self.isr) < min(isr_min, len(self.replicas))

    # --- reading

    def check(self, leader_epoch: int, *, leader: bool) -> None:
        """Checks that a client with this `leader_epoch` (-1: none) may be served here. `leader`:
        whether only the leader may serve it.

        ApiError: KAFKA_STORAGE_ERROR while the partition is offline; FENCED_LEADER_EPOCH,
        UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER."""
        reason = self.log.offline_reason if self._writer is None else self._writer.reason
        if reason is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name} is offline: {reason}")
        if leader_epoch not in (NO_EPOCH, self.leader_epoch):
            is_old = leader_epoch < self.leader_epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise ApiError(code, f"the leader epoch is {self.leader_epoch}, not {leader_epoch}")
        if leader and self.leader != self.node_id:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def read(self, offset: int, max_bytes: int, up_to: int) -> FileRecords:
        """Records of one segment, from the batch that holds `offset` on, below `up_to`.

        OffsetOutOfRangeError; RecordsError and StorageError: the log is damaged there."""
        with self.lock:
            return self.log.read(offset, max_bytes, up_to=up_to)

    def upper_bound(self, records: FileRecords) -> int:
        """An offset after all records of a range that `read` returned, but close to the last."""
        with self.lock:
            return self.log.upper_bound(records)

    def aborted(self, start: int, records: FileRecords) -> list[AbortedTransaction]:
        """The aborted transactions with records from `start` on in a range that `read` returned."""
        with self.lock:
            return self.log.aborted(start, self.log.upper_bound(records))

    def epochs(self) -> Sequence[EpochEntry]:
        """The leader epochs of the log, in order. If there is no controller, and the log has no
        epochs, the leader begins its epoch at the log's end."""
        with self.lock:
            found = leader_epochs.epochs_of(self.log)
            if found or self._writer is None or self.leader != self.node_id:
                return found
            return (EpochEntry(self.leader_epoch, self.end_offset),)

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """As `leader_epochs.end_of`."""
        with self.lock:
            return leader_epochs.end_of(self.epochs(), epoch, self.end_offset)

    def divergence(self, offset: int, last_epoch: int) -> EpochEnd | None:
        """Where a log with this end and last epoch diverges from this one; None: nowhere.

        ApiError: the epoch is not known here."""
        with self.lock:
            epochs, end = self.epochs(), self.end_offset
        found = leader_epochs.divergence(epochs, end, offset, last_epoch)
        if found == leader_epochs.UNKNOWN:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"epoch {last_epoch} is not known here")
        return found
