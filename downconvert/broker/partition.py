"""One partition of a broker: its log, its leader, and the offset up to which each client may read.

Not here: the log itself (storage.Log), the followers (replication/replica.py)."""

import os
from collections.abc import Callable, Sequence
from math import inf
from threading import RLock
from typing import Final

from downconvert.access.replica_ids import CONSUMER, FUTURE_REPLICA
from downconvert.broker.replication.leader_epochs import NO_EPOCH, EpochEnd
from downconvert.broker.replication.replica import IsrChange, Leadership, Replicas
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.serving.appending import Appended, Prepared
from downconvert.storage import AbortedTransaction, Log, TopicPartition
from downconvert.storage.checkpoints.checkpoint import EpochEntry
from downconvert.storage.names import OFFSET_MAX
from downconvert.storage.producers.producer_state import ProducerState
from records import BatchHeader, ControlRecordType, FileRecords, MemoryRecords, build_marker

from .replication import leader_epochs
from .sequences import CheckBatch as CheckBatch
from .sequences import Sequences, is_in_open_transaction

LOOK_AGE_MAX: Final = 0.005  # seconds for which the offsets of another process's log are reused


class Partition:
    """A partition with a replica on this broker. The lock is held briefly, and never while
    records are converted or sent.

    Without a controller, this broker leads the partition and has the only replica."""

    def __init__(self, name: TopicPartition, log: Log, node_id: int) -> None:
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

    # --- leading

    def verify(self, batch: BatchHeader, check_batch: CheckBatch) -> None:
        """Checks a transaction's first batch here. ApiError: it may not be appended."""
        with self.lock:
            if not is_in_open_transaction(batch, self.log.writer.producers):
                check_batch(batch)

    def append(
        self, prepared: Prepared, now: int, check_batch: CheckBatch | None = None
    ) -> Appended:
        """Appends a producer's batches to the log, unless they are duplicates. `now` in
        milliseconds. check_batch: called for transactional batches while the lock is held, so that
        none is appended after its transaction's marker.

        ApiError: this broker does not lead, the producer's sequence number is not the next, or the
        log cannot hold this much. OSError, StorageError: the disk failed; nothing is appended."""
        batch = prepared.batches[0]
        with self.lock:
            self.check(-1, leader=True)
            known = None
            if batch.producer_id >= 0:
                known = self.sequences.checked(batch, self.log.writer.producers, check_batch)
            if known is not None:
                appended = Appended(known.base_offset, known.last_offset, known.timestamp)
            else:
                appended = self._append(prepared, now)
            self._advance(now / 1000)
            return appended

    def append_marker(
        self, kind: ControlRecordType, producer: tuple[int, int], coordinator_epoch: int, now: int
    ) -> None:
        """Appends a COMMIT or ABORT marker for a producer's id and epoch, if its transaction has
        written here. `now` in milliseconds. Errors as those of `append`."""
        producer_id, epoch = producer
        with self.lock:
            self.check(-1, leader=True)
            writer = self.log.writer
            marker = build_marker(
                kind,
                offset=writer.end_offset,
                timestamp=now,
                producer_id=producer_id,
                producer_epoch=epoch,
                coordinator_epoch=coordinator_epoch,
                leader_epoch=self.leader_epoch,
            )
            try:
                writer.append(marker, now)
            except ValueError as error:  # larger than a segment
                raise ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, str(error)) from error
            self._advance(now / 1000)

    def producers(self) -> list[ProducerState]:
        """The state of the log's producers."""
        with self.lock:
            return self.log.producers()

    def _append(self, prepared: Prepared, now: int) -> Appended:
        writer, batch = self._writer or self.log.writer, prepared.batches[0]
        base_offset = writer.end_offset
        if base_offset > OFFSET_MAX - prepared.records_count:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the log has no offsets left")
        data, headers = prepared.place(base_offset, self.leader_epoch)
        try:
            end_offset = writer.append(data, now, headers)
        except ValueError as error:  # larger than a segment
            raise ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, str(error)) from error
        if batch.producer_id >= 0 and batch.base_sequence >= 0:
            self.sequences.add_batch(batch, base_offset)
        return Appended(base_offset, end_offset - 1, prepared.log_append_time)

    def follower_fetched(
        self, replica_id: int, offset: int, now: float, broker_epoch: int = -1
    ) -> bool:
        """A follower fetches from `offset`, so it has everything below. Returns whether the high
        watermark has moved. Call this after the read, when `offset` is known to be in the log.

        ApiError: this broker does not lead, or does not know that replica."""
        with self.lock:
            self.check(-1, leader=True)
            view = self._view
            if view is None:
                return False
            if replica_id not in view:
                message = f"broker {replica_id} has no replica"
                raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH, message)
            view.fetches(replica_id, offset, self.end_offset, now, broker_epoch)
            return self._advance(now)

    def isr_change(self, now: float) -> IsrChange | None:
        """The ISR to propose to the controller; None: no change."""
        with self.lock:
            if self._view is None:
                return None
            return self._view.change(self.end_offset, self._high_watermark, now)

    def refuse(self, change: IsrChange) -> None:
        """As `Replicas.refuse`."""
        with self.lock:
            if self._view is not None:
                self._view.refuse(change)

    def _advance(self, now: float) -> bool:
        """Moves the high watermark if this broker leads. Returns whether it has changed."""
        if self._view is None:
            return False
        before = self._high_watermark
        self._high_watermark = self._view.high_watermark(
            before, self.end_offset, now, self._isr_min
        )
        return self._high_watermark != before

    # --- decisions of the controller

    def assign(
        self, leadership: Leadership, now: float, *, isr_min: int = 1, lag_max: float = 30.0
    ) -> None:
        """Becomes leader or follower. Does nothing for a version that is not newer. `isr_min`:
        min.insync.replicas; `lag_max`: replica.lag.time.max.ms, in seconds.

        OSError: the new epoch could not be written; nothing has changed."""
        with self.lock:
            if leadership.version <= self.version:
                return
            leads = leadership.leader == self.node_id
            is_new = leadership.leader_epoch > self.leader_epoch or self.version < 0
            view = self._view
            if leads and (view is None or is_new):
                self.log.writer.begin_epoch(leadership.leader_epoch)
                view = Replicas(self.node_id, leadership, self.end_offset, now, lag_max)
            elif leads and view is not None:
                view.settle(leadership)
            self._view = view if leads else None
            self.leader, self.leader_epoch = leadership.leader, leadership.leader_epoch
            self.replicas, self.isr = leadership.replicas, leadership.isr
            self.version = leadership.version
            self._isr_min = min(isr_min, len(leadership.replicas))
            self._advance(now)

    def await_controller(self, high_watermark: int) -> None:
        """Neither leads nor follows until the controller decides, because another broker may lead
        meanwhile, with another ISR. `high_watermark`: from the checkpoint of the last run."""
        with self.lock:
            self.leader, self.replicas, self.isr = None, (), frozenset()
            self._high_watermark = max(self.start_offset, min(high_watermark, self.end_offset))

    # --- following

    def append_from_leader(self, data: memoryview, high_watermark: int) -> int:
        """Appends the whole batches that the leader of the current epoch has sent, and takes its
        high watermark, up to the end of this log. Returns the log's end.

        Batches of a later epoch wait until this broker knows that epoch, because they may be
        truncated again by then. CorruptRecordsError; OSError and StorageError of the disk."""
        with self.lock:
            size = 0
            for header in MemoryRecords(data).batches():
                if header.leader_epoch > self.leader_epoch:
                    break
                size = header.position + header.size
            if size:
                self.log.writer.append(data[:size])
            self.follow_high_watermark(high_watermark)
            return self.end_offset

    def follow_high_watermark(self, leaders: int) -> None:
        """Takes the leader's high watermark, up to the end of this log. It never decreases."""
        with self.lock:
            own = max(self._high_watermark, min(leaders, self.end_offset))
            self._high_watermark = max(own, self.start_offset)

    def follow_start(self, leaders: int) -> None:
        """Deletes the records that the leader has deleted, up to the high watermark."""
        with self.lock:
            if leaders > self.start_offset:
                self.log.writer.delete_records(min(leaders, self._high_watermark))

    def truncate(self, diverging: EpochEnd) -> int:
        """Truncates the records that the leader does not have. Returns the log's end."""
        with self.lock:
            epochs = leader_epochs.epochs_of(self.log)
            offset = leader_epochs.truncation(
                epochs, self.end_offset, self._high_watermark, diverging
            )
            self._cut(self.log.writer.truncate_to, max(offset, self.start_offset))
            return self.end_offset

    def restart_at(self, offset: int) -> None:
        """Empties the log and starts it again at `offset`, the start of the leader's log."""
        with self.lock:
            self._cut(self.log.writer.truncate_fully_and_start_at, offset)

    def _cut(self, cut: Callable[[int], None], offset: int) -> None:
        """Cuts the log. The high watermark stays within it, even if only a part is cut."""
        self.sequences = Sequences()  # the offsets of known batches may be reused
        try:
            cut(offset)
        finally:
            below_end = min(self._high_watermark, self.end_offset)
            self._high_watermark = max(self.start_offset, below_end)
