"""Which of several copies of a partition is read: as Kafka would choose a leader among them.

The copy with the higher latest leader epoch, and of those of one epoch the one whose log ends
further (KIP-101). Replicas roll their segments at different places, so neither names nor sizes of
files show it. A copy that was not in the later epoch may go further all the same, with
records that no later leader had: Kafka truncates them, and here they are left out, with a
warning.

Not here: finding the copies (trees.py, follow.py)."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from downconvert.storage.checkpoint import EpochEntry, read_epochs
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.metadata import read_topic_id, topic_id_text
from downconvert.storage.names import LEADER_EPOCHS, OFFSET_MAX, TopicPartition
from downconvert.storage.segment import Segment
from records import BatchHeader, CorruptRecordsError
from records.batch import NONE

from .errors import MixedClustersError


@dataclass(frozen=True, slots=True)
class Copy:
    """How far one copy of a partition goes.

    `epochs`: what its checkpoint says of leader epochs; `epoch`: the latest one, also by its last
    batch, -1 where there is none (v0, v1). `end_offset`: after its last whole batch."""

    directory: str
    start_offset: int
    end_offset: int
    epoch: int
    epochs: tuple[EpochEntry, ...] = ()
    topic_id: UUID | None = None

    def end_of_epoch(self, epoch: int) -> int:
        """The offset up to which this log may have records of an epoch and earlier ones."""
        starts = (entry.start_offset for entry in self.epochs if entry.epoch > epoch)
        return min(starts, default=self.end_offset)


def look(directory: str, start_offset: int, segments: Sequence[Segment]) -> Copy:
    """How far the segments in a directory go: reads the headers after the last entry of the last
    one's index. FileNotFoundError: a segment is gone."""
    last = None
    end = segments[-1].base_offset if segments else 0
    for segment in reversed(segments):
        last = last_batch(segment)
        segment.release()
        if last is not None:
            break
    if last is not None:
        end = max(end, last.last_offset + 1)
    epochs = tuple(leader_epochs(Path(directory)))
    latest = [entry.epoch for entry in epochs] + ([last.leader_epoch] if last is not None else [])
    epoch = max(latest, default=NONE)
    return Copy(directory, start_offset, end, epoch, epochs, topic_id_of(directory))


def last_batch(segment: Segment) -> BatchHeader | None:
    """The header of a segment's last whole batch; None: it has none."""
    found = None
    try:
        for header in segment.slice_from(OFFSET_MAX, segment.size).batches():
            found = header
    except CorruptRecordsError:  # a torn tail, zeros, or damage: the log ends before that
        pass
    return found


def leader_epochs(directory: Path) -> list[EpochEntry]:
    """What the broker noted of leader epochs; empty where it noted nothing that can be read."""
    try:
        return sorted(read_epochs(directory / LEADER_EPOCHS))
    except (OSError, CorruptFileError):
        return []


def best_of(name: TopicPartition, copies: Iterable[Copy]) -> Copy:
    """The copy to be read. Warns where another one has records that this one does not.

    MixedClustersError: they are not copies of one topic."""
    copies = list(copies)
    _check_topic(name, copies)
    best = max(copies, key=lambda copy: (copy.epoch, copy.end_offset, -copy.start_offset))
    for copy in copies:
        end = best.end_of_epoch(copy.epoch)
        if copy is not best and copy.end_offset > end:
            warnings.warn(
                f"copies of {name} differ: {copy.directory} goes up to {copy.end_offset} in leader "
                f"epoch {copy.epoch}, of which {best.directory}, in epoch {best.epoch}, has only "
                f"what is below {end}; the latter is read",
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
    """The id of the topic; None where there is none that can be read."""
    try:
        return read_topic_id(Path(directory))
    except (OSError, CorruptFileError):
        return None


def id_text_of(directory: str) -> str | None:
    """The same as text."""
    topic_id = topic_id_of(directory)
    return None if topic_id is None else topic_id_text(topic_id)
