"""Leader epochs of a log: which offsets were written under which leader, and where logs diverge.

A log's epochs are pairs of an epoch and the first offset written in it. From a replica's last epoch
and log end, a leader finds the end of their logs' common part. The replica truncates the rest.
[KIP-101, KIP-279, KIP-595; LeaderEpochFileCache]

Not here: where epochs are stored (storage), the requests (handlers/offset_for_leader_epoch.py)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from downconvert.storage import Log, StorageError
from downconvert.storage.checkpoints.checkpoint import EpochEntry, read_epochs
from downconvert.storage.names import LEADER_EPOCHS

NO_EPOCH: Final = -1


class EpochEnd(NamedTuple):
    """The offset after the last record of an epoch."""

    epoch: int
    end_offset: int


UNKNOWN: Final = EpochEnd(NO_EPOCH, -1)


def epochs_of(log: Log) -> Sequence[EpochEntry]:
    """The epochs in a log's checkpoint, from the log's start on. Empty for logs of brokers without
    epochs."""
    if log.is_writable:
        return from_start(log.writer.epochs, log.writer.start_offset)
    try:
        return from_start(read_epochs(log.path / LEADER_EPOCHS), log.start_offset)
    except (StorageError, OSError):
        return ()


def from_start(epochs: Sequence[EpochEntry], start_offset: int) -> Sequence[EpochEntry]:
    """The epochs of the records from an offset on. The first of them begins there, wherever it
    began before records were deleted [LeaderEpochFileCache.truncateFromStart]."""
    if not epochs or epochs[0].start_offset >= start_offset:
        return epochs
    later = [entry for entry in epochs if entry.start_offset > start_offset]
    first = epochs[len(epochs) - len(later) - 1]
    return [EpochEntry(first.epoch, start_offset), *later]


def latest(epochs: Sequence[EpochEntry]) -> int:
    return epochs[-1].epoch if epochs else NO_EPOCH


def end_of(epochs: Sequence[EpochEntry], epoch: int, log_end: int) -> EpochEnd:
    """The largest epoch that is not above `epoch`, and where it ends.

    UNKNOWN: the epoch is above all known ones. If it is below all known ones: the epoch itself, and
    the offset where the first known one begins."""
    if not epochs or epoch == NO_EPOCH or epoch > latest(epochs):
        return UNKNOWN
    if epoch == latest(epochs):
        return EpochEnd(epoch, log_end)
    above = next(entry for entry in epochs if entry.epoch > epoch)
    below = [entry for entry in epochs if entry.epoch <= epoch]
    return EpochEnd(below[-1].epoch if below else epoch, above.start_offset)


def divergence(
    epochs: Sequence[EpochEntry], log_end: int, offset: int, last_epoch: int
) -> EpochEnd | None:
    """Where a replica's log with this end and last epoch diverges from this log; None: nowhere.

    UNKNOWN: the replica's epoch is above all epochs of this log."""
    end = end_of(epochs, last_epoch, log_end)
    if end == UNKNOWN or end.epoch < last_epoch or end.end_offset < offset:
        return end
    return None


def truncation(
    epochs: Sequence[EpochEntry], log_end: int, high_watermark: int, diverging: EpochEnd
) -> int:
    """The offset to which a replica truncates its log, from the leader's point of divergence.

    If the replica never had the epoch that the leader names, it may have to ask once more."""
    if diverging.epoch == NO_EPOCH or diverging.end_offset < 0:
        return min(high_watermark, log_end)
    own = end_of(epochs, diverging.epoch, log_end)
    if own == UNKNOWN:
        return min(diverging.end_offset, log_end)
    if own.epoch == diverging.epoch:
        return min(own.end_offset, diverging.end_offset, log_end)
    return min(own.end_offset, log_end)
