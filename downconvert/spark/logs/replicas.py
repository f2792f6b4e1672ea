"""Selects the copy of a partition to read: the one that Kafka would elect as leader.

The copy with the highest latest leader epoch wins. Among copies of that epoch, the one with the
highest log end offset wins (KIP-101). File names and sizes do not show this, as replicas roll their
segments at different offsets. A copy that lacks the latest epoch may still be longer, with records
that no later leader had. Kafka truncates these. Here they are left out, with a warning.

No checksum covers the leader epoch of a batch. A broker notes a new epoch in its checkpoint before
it writes the first batch. So an epoch does not count if only the copy's last batch has it, and not
its checkpoint. Without a checkpoint, it is not known whether the epoch is right. Offsets beyond the
leader's copy are then missing.

Not here: finding the end of each copy (copies.py)."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from downconvert.spark.errors import MixedClustersError
from downconvert.storage.checkpoints.checkpoint import EpochEntry
from downconvert.storage.checkpoints.metadata import read_topic_id, topic_id_text
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.names import TopicPartition
from records.batch import NONE


@dataclass(frozen=True, slots=True)
class Copy:
    """The end of one copy of a partition.

    `epochs`: from its leader epoch checkpoint. `epoch`: the latest one, of the checkpoint or the
    last batch; -1 if there is none (v0, v1). `end_offset`: the offset after its last complete
    batch that can be found. `is_damaged`: damage follows that batch, and may hide others.
    `is_confirmed`: not only the last batch has this epoch, but also the checkpoint or another
    batch."""

    directory: str
    start_offset: int
    end_offset: int
    epoch: int = NONE
    epochs: tuple[EpochEntry, ...] = ()
    topic_id: UUID | None = None
    is_damaged: bool = False
    is_confirmed: bool = True

    def end_of_epoch(self, epoch: int) -> int:
        """The offset up to which this log may have records of an epoch and earlier ones."""
        starts = (entry.start_offset for entry in self.epochs if entry.epoch > epoch)
        return min(starts, default=self.end_offset)


def with_known_epochs(name: TopicPartition, copies: Sequence[Copy]) -> list[Copy]:
    """The copies without epochs that only a copy's last batch has, although the copy has a
    checkpoint. Warns of these. The epochs that any checkpoint has are known."""
    known = {entry.epoch for copy in copies for entry in copy.epochs}
    found = []
    for copy in copies:
        if copy.is_confirmed or copy.epoch in known or not copy.epochs:
            found.append(replace(copy, is_confirmed=copy.is_confirmed or copy.epoch in known))
            continue
        latest = copy.epochs[-1].epoch
        warnings.warn(
            f"the last batch of {name} in {copy.directory} has leader epoch {copy.epoch}, which no "
            f"checkpoint has: this copy counts as one of epoch {latest}",
            RuntimeWarning,
            stacklevel=2,
        )
        found.append(replace(copy, epoch=latest, is_confirmed=True))
    return found


def is_disputed(leader: Copy, copy: Copy) -> bool:
    """Whether a copy goes beyond the leader's one, and it is not known whether a later leader has
    truncated that: the epoch of one of them may be wrong."""
    is_later = leader.epoch > copy.epoch and copy.end_offset > leader.end_offset
    return is_later and not (leader.is_confirmed and copy.is_confirmed)


def best_of(name: TopicPartition, copies: Iterable[Copy]) -> Copy:
    """The copy to read. Warns if another copy has records that this one lacks, or may have some
    behind damage.

    MixedClustersError: they are not copies of one topic."""
    copies = list(copies)
    _check_topic(name, copies)
    best = max(copies, key=lambda copy: (copy.epoch, copy.end_offset, -copy.start_offset))
    for copy in copies:
        end = best.end_of_epoch(copy.epoch)
        if is_disputed(best, copy):
            warnings.warn(
                f"copies of {name} differ: {copy.directory} goes up to {copy.end_offset} in leader "
                f"epoch {copy.epoch}, and {best.directory} up to {best.end_offset} in epoch "
                f"{best.epoch}; only a last batch has one of these epochs, so it is not known "
                f"whether offsets from {best.end_offset} on were truncated",
                RuntimeWarning,
                stacklevel=2,
            )
        elif copy is not best and copy.end_offset > end:
            warnings.warn(
                f"copies of {name} differ: {copy.directory} goes up to {copy.end_offset} in leader "
                f"epoch {copy.epoch}, but a later leader has only what is below {end}; "
                f"{best.directory} is read, which is in epoch {best.epoch}",
                RuntimeWarning,
                stacklevel=2,
            )
        elif copy is not best and copy.is_damaged:  # it may go beyond what is reported
            warnings.warn(
                f"{copy.directory} is damaged after offset {copy.end_offset} of {name}: it is not "
                f"known whether it went beyond {best.end_offset}, where {best.directory} ends",
                RuntimeWarning,
                stacklevel=2,
            )
    return best


def _check_topic(name: TopicPartition, copies: Iterable[Copy]) -> None:
    seen: dict[UUID, str] = {}
    for copy in copies:
        if copy.topic_id is not None:
            seen.setdefault(copy.topic_id, copy.directory)
    if len(seen) > 1:
        (one, here), (other, there) = list(seen.items())[:2]
        raise MixedClustersError(
            f"{here} and {there} are both called {name}, and are of different topics "
            f"({topic_id_text(one)} and {topic_id_text(other)}): leave out what was deleted, or is "
            "another cluster's"
        )


def topic_id_of(directory: str) -> UUID | None:
    """The id of the topic; None if it is missing or unreadable. Warns if it is damaged, because
    then a topic that was created anew cannot be told from the former one."""
    try:
        return read_topic_id(Path(directory))
    except CorruptFileError as error:
        what = f"{error}; the topic id in this directory counts as missing"
        warnings.warn(what, RuntimeWarning, stacklevel=2)
    except OSError:
        pass
    return None


def id_text_of(directory: str) -> str | None:
    """The topic id as text; None if it is missing or unreadable."""
    topic_id = topic_id_of(directory)
    return None if topic_id is None else topic_id_text(topic_id)
