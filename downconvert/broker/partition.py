"""One partition of a broker: appends to its log, follows a leader, and takes the controller's
decisions.

Not here: offsets and reading (partition_state.py), the log itself (storage.Log), the followers
(replication/replica.py)."""

from collections.abc import Callable

from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.serving.appending import Appended, Prepared
from downconvert.storage.names import OFFSET_MAX
from downconvert.storage.producers.producer_state import ProducerState
from records import BatchHeader, ControlRecordType, MemoryRecords, build_marker

from .partition_state import PartitionState
from .replication import leader_epochs
from .replication.leader_epochs import EpochEnd
from .replication.replica import IsrChange, Leadership, Replicas
from .sequences import CheckBatch as CheckBatch
from .sequences import Sequences, is_in_open_transaction


class Partition(PartitionState):
    """A partition that changes.

    Without a controller, this broker leads the partition and has the only replica."""

    # --- leading

    def verify(self, batch: BatchHeader, check_batch: CheckBatch) -> None:
        """Checks a transaction's first batch here. ApiError: it may not be appended."""
        with self.lock:
            if not is_in_open_transaction(batch, self.log.writer.producers):
                check_batch(batch)

    def append(
        self, prepared: Prepared, now: float, time: int, check_batch: CheckBatch | None = None
    ) -> Appended:
        """Appends a producer's batches to the log, unless they are duplicates. `now`: seconds of
        the broker's clock. `time`: milliseconds since the epoch. check_batch: called for
        transactional batches while the lock is held, so that none is appended after its
        transaction's marker.

        ApiError: this broker does not lead, the producer's sequence number is not the next, or the
        log cannot hold this much. OSError, StorageError: the disk failed; nothing is appended."""
        batch = prepared.batches[0]
        with self.lock:
            writer, known = self._writer, None
            if writer is None or writer.reason is not None or self.leader != self.node_id:
                self.check(-1, leader=True)
                writer = self.log.writer
            if batch.producer_id >= 0:
                known = self.sequences.checked(batch, writer.producers, check_batch)
            if known is None:
                base_offset = writer.active.next_offset
                if base_offset > OFFSET_MAX - prepared.records_count:
                    raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the log has no offsets left")
                data, headers = prepared.place(base_offset, self.leader_epoch)
                try:
                    end_offset = writer.append(data, time, headers)
                except ValueError as error:  # larger than a segment
                    raise ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, str(error)) from error
                if batch.producer_id >= 0 and batch.base_sequence >= 0:
                    self.sequences.add_batch(batch, base_offset)
                appended = Appended(base_offset, end_offset - 1, prepared.log_append_time)
            else:
                appended = Appended(known.base_offset, known.last_offset, known.timestamp)
            if self._view is not None:
                self._advance(now)
            return appended

    def append_marker(
        self,
        kind: ControlRecordType,
        producer: tuple[int, int],
        coordinator_epoch: int,
        now: float,
        time: int,
    ) -> None:
        """Appends a COMMIT or ABORT marker for a producer's id and epoch, if its transaction has
        written here. Times and errors as those of `append`."""
        producer_id, epoch = producer
        with self.lock:
            self.check(-1, leader=True)
            writer = self.log.writer
            marker = build_marker(
                kind,
                offset=writer.end_offset,
                timestamp=time,
                producer_id=producer_id,
                producer_epoch=epoch,
                coordinator_epoch=coordinator_epoch,
                leader_epoch=self.leader_epoch,
            )
            try:
                writer.append(marker, time)
            except ValueError as error:  # larger than a segment
                raise ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, str(error)) from error
            self._advance(now)

    def producers(self) -> list[ProducerState]:
        """The state of the log's producers."""
        with self.lock:
            return self.log.producers()

    def size(self) -> int:
        """Bytes of the records on disk. OSError: the files are gone, so it is being deleted.

        The lock is not held while files are opened, because clients would wait for a slow disk."""
        log = self.log
        while True:
            segments = list(log.segments)
            try:
                return sum(map(log.end_of, segments))
            except OSError:
                with self.lock:  # a removal of segments that has begun is complete now
                    if segments == list(log.segments):
                        raise

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
            is_new = leadership.leader_epoch > self.leader_epoch
            view = self._view
            if leads and (view is None or is_new):
                self.log.writer.begin_epoch(leadership.leader_epoch)
                view = Replicas(self.node_id, leadership, self.end_offset, now, lag_max)
            elif leads and view is not None:
                view.settle(leadership)
            self._view = view if leads else None
            self.leader_epoch = leadership.leader_epoch
            self._set_replicas(leadership.leader, leadership.replicas, leadership.isr)
            self.version = leadership.version
            self._isr_min = min(isr_min, len(leadership.replicas))
            self._advance(now)

    def await_controller(self, high_watermark: int) -> None:
        """Neither leads nor follows until the controller decides, because another broker may lead
        meanwhile, with another ISR. `high_watermark`: from the checkpoint of the last run."""
        with self.lock:
            self._set_replicas(None, (), frozenset())
            self._high_watermark = max(self.start_offset, min(high_watermark, self.end_offset))

    def _set_replicas(
        self, leader: int | None, replicas: tuple[int, ...], isr: frozenset[int]
    ) -> None:
        self.leader, self.replicas, self.isr = leader, replicas, isr
        if leader == self.node_id and replicas == (self.node_id,):
            self._with_others.discard(self)
        else:
            self._with_others.add(self)

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
