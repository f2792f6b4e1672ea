"""What a run of an export adds: offsets that the logs have and the target does not.

Not here: what is known to be there (export_manifest.py), writing it (export_directory.py,
export_noted.py)."""

import json
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from downconvert.storage.metadata import topic_id_text
from downconvert.storage.names import TopicPartition
from downconvert.storage.open_files import OpenFiles
from downconvert.storage.segment import Segment
from downconvert.storage.tail import Tail

from .export_manifest import Exported, Range
from .isolation import committed_of as what_is_committed
from .jobs import JobError
from .replicas import topic_id_of
from .segment_files import PartitionLog
from .staging import staged
from .stored_trees import THREADS
from .trees import cluster_of


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run adds. `ranges`: offsets of the partitions that have new records. `is_bounded` is
    False where the end of a log is damaged, or damage is left out: then no note is written, and the
    next run looks at the files again."""

    ranges: Mapping[TopicPartition, Range]
    done: Mapping[TopicPartition, int]  # ends of the partitions without new records
    is_bounded: bool = True


def plan_of(
    logs: Sequence[PartitionLog], there: Exported, *, committed: bool, skip_damaged: bool
) -> Plan:
    """What the logs have now and the archive does not."""
    ranges, done = {}, {}
    is_bounded = not skip_damaged
    threads = 1 if all(log.is_mounted for log in logs) else THREADS
    with ThreadPoolExecutor(threads) as pool:
        ends = list(pool.map(partial(end_of, committed=committed), logs))
    for log, (end, is_sound) in zip(logs, ends, strict=True):
        name = log.topic_partition
        start = there.end_from(name, log.start_offset)
        before = there.end_of(name)
        if before is not None and start > before:
            _warn(f"{name}: offsets {before} up to {start} were deleted before they were exported")
        if before is not None and end < before:
            _warn(f"{name} ends at {end} and was exported up to {before}: it was truncated since")
        if start < end or not is_sound:
            ranges[name] = start, max(start, end)
            is_bounded = is_bounded and is_sound
        else:
            done[name] = start
    return Plan(ranges, done, is_bounded)


def end_of(log: PartitionLog, *, committed: bool) -> tuple[int, bool]:
    """The offset after the last record (or the last committed one), and whether the log ends there
    without damage."""
    if not log.segments:
        return log.start_offset, True
    last = log.segments[-1]
    with staged(log, [last.base_offset], tail=True) as directory:
        segment = Segment(directory, last.base_offset, OpenFiles(), last.state)
        try:
            tail = Tail(segment)
            tail.advance()
        finally:
            segment.release()
    end = max(log.start_offset, tail.next_offset)
    if committed:
        end = min(end, what_is_committed(log).end)
    return end, tail.damage is None


def given_options(
    starts: Mapping[TopicPartition, int], *, committed: bool, skip_damaged: bool
) -> dict[str, str]:
    """The options with which records are read."""
    return {
        "includeHeaders": "true",
        "startingOffsets": as_json(starts),
        "isolation": "read_committed" if committed else "read_uncommitted",
        "mode": "DROPMALFORMED" if skip_damaged else "FAILFAST",
    }


def identity_of(logs: Sequence[PartitionLog], isolation: str) -> Exported:
    """Which cluster and topics the logs are of."""
    identity = Exported(isolation)
    for log in logs:
        identity.cluster_id = identity.cluster_id or cluster_of(str(Path(log.noted).parent))
        text = log.topic_id
        if text is None:
            with staged(replace(log, segments=()), ()) as directory:
                topic_id = topic_id_of(str(directory))
                text = None if topic_id is None else topic_id_text(topic_id)
        if text is not None:
            identity.topic_ids[log.topic_partition.topic] = text
    return identity


def check_same(there: Exported, identity: Exported, target: str) -> None:
    """The same offset in another cluster, or in a topic made anew, is another record."""
    if there.cluster_id and identity.cluster_id and there.cluster_id != identity.cluster_id:
        raise JobError(
            f"{target} holds records of the cluster {there.cluster_id}, and these logs are of "
            f"{identity.cluster_id}: name another directory"
        )
    for topic, topic_id in sorted(identity.topic_ids.items()):
        if there.topic_ids.get(topic, topic_id) != topic_id:
            raise JobError(
                f"{topic} was deleted and made anew since {target} was written, and counts its "
                "offsets from 0 again: name another directory"
            )


def as_json(offsets: Mapping[TopicPartition, int]) -> str:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        found.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(found)


def _warn(what: str) -> None:
    warnings.warn(what, RuntimeWarning, stacklevel=3)
