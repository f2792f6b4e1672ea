"""Plans a run of an export: the offsets that the logs have and the target lacks.

Not here: the target's contents (export_manifest.py), whether they are still valid
(export_epochs.py), writing (export_noted.py)."""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.logs.completeness import (
    is_damaged_after,
    last_readable,
    whole_split,
)
from downconvert.spark.logs.isolation import committed_of
from downconvert.spark.logs.segment_files import PartitionLog, are_mounted
from downconvert.spark.logs.stored_headers import end_of_batches
from downconvert.spark.logs.trees import cluster_of
from downconvert.spark.logs.watermarks import HighWatermarks
from downconvert.spark.options.options import Options
from downconvert.spark.plan.planner import offsets_of
from downconvert.spark.stores.parallel import in_parallel
from downconvert.storage.names import OFFSET_MAX, TopicPartition

from .export_epochs import Facts, Truncated, facts_of, truncated
from .export_manifest import Exported, Range

# The data source's options that select what is exported.
BETWEEN: Final = (
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
)
NAMED_MAX: Final = 20  # partitions in a warning


@dataclass(frozen=True, slots=True)
class Settings:
    """How records are exported. `committed`: without aborted records. `skip_damaged`: without
    unreadable records. `past_high_watermark`: up to the end of the logs. `repair`: records that a
    later leader has truncated are replaced, and wrong epochs in the notes are corrected.
    `between`: options of the data source (BETWEEN). Only the offsets or times that they select are
    exported."""

    committed: bool = False
    skip_damaged: bool = False
    past_high_watermark: bool = False
    repair: bool = False
    between: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """ValueError: an option is malformed, or is not one of BETWEEN."""
        unknown = sorted(name for name, _ in self.between if name not in BETWEEN)
        if unknown:
            raise ValueError(f"{', '.join(unknown)}: an export takes {', '.join(BETWEEN)}")
        self.selected()

    def selected(self) -> Options:
        """The offsets to export, as options of a query."""
        return Options.parse({"path": "/"} | dict(self.between), streaming=False)

    @property
    def isolation(self) -> str:
        return "read_committed" if self.committed else "read_uncommitted"


class Bound(NamedTuple):
    """The offsets of a log that may be exported. `is_sound`: False if damage must end the run.
    `log_end`: the end of the log. An export may have to end before it."""

    start: int
    end: int
    is_sound: bool
    log_end: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The additions of a run. `ranges`: offsets of the partitions with new records. `is_bounded` is
    False if the end of a log is damaged and this must end the run."""

    ranges: Mapping[TopicPartition, Range]
    is_bounded: bool = True


def bounds_of(logs: Sequence[PartitionLog], settings: Settings) -> dict[TopicPartition, Bound]:
    """Which offsets of each log may be exported. Warns if no high watermark is known.

    ValueError: no record is at or after the starting timestamp."""
    ask = partial(in_parallel, is_mounted=are_mounted(logs))
    selected = ask(partial(offsets_of, options=settings.selected()), logs)
    limits = [OFFSET_MAX] * len(logs)
    if not settings.past_high_watermark:
        limits = list(map(HighWatermarks().of_log, logs))
    limited = list(zip(logs, limits, strict=True))
    ends = ask(lambda one: end_of(one[0], settings, one[1]), limited)
    found, unknown = {}, []
    for (log, limit), (log_end, is_sound), (start, end) in zip(
        limited, ends, selected, strict=True
    ):
        end = min(end, limit)
        if limit == OFFSET_MAX and not settings.past_high_watermark:
            unknown.append(str(log.topic_partition))
        is_sound = is_sound or end <= log_end
        found[log.topic_partition] = Bound(start, min(end, log_end), is_sound, log_end)
    if unknown:
        more = f" and {len(unknown) - NAMED_MAX} more" if len(unknown) > NAMED_MAX else ""
        _warn(
            f"no checkpoint has a high watermark of {', '.join(unknown[:NAMED_MAX])}{more}: "
            "exported up to the end of the log, which a later leader may still truncate"
        )
    return found


def plan_of(
    logs: Sequence[PartitionLog],
    bounds: Mapping[TopicPartition, Bound],
    contents: Exported,
) -> Plan:
    """The offsets that the logs have within bounds, and the target lacks."""
    ranges = {}
    is_bounded = True
    for log in logs:
        name = log.topic_partition
        first, end, is_sound, log_end = bounds[name]
        start = contents.end_from(name, first)
        before = contents.end_of(name)
        if before is not None and start > before and first == log.start_offset:
            _warn(f"{name}: offsets {before} up to {start} were deleted before they were exported")
        if before is not None and log_end < before:
            _warn(
                f"{name} ends at {log_end} and was exported up to {before}: it was truncated since"
            )
        if start < end or not is_sound:
            ranges[name] = start, max(start, end)
            is_bounded = is_bounded and is_sound
    return Plan(ranges, is_bounded)


def end_of(log: PartitionLog, settings: Settings, limit: int = OFFSET_MAX) -> tuple[int, bool]:
    """The offset after the last record (or the last committed record below `limit`). Also whether
    the end of the log is sound: it has no damage that must end the run."""
    if not log.segments:
        return log.start_offset, True
    last = log.segments[-1]
    if last.next_offset != OFFSET_MAX:  # another copy has the following offsets
        end, is_sound = last.next_offset, True
    else:
        if not last.blobs:  # reads the current size
            last = replace(last, size=last.open().size)
        end = end_of_batches(last)
        is_sound = not is_damaged_after(last, end)
        if not is_sound:  # more of the log may follow the damage, and other copies may fill it
            base = last.base_offset  # a batch with a wrong offset may seem to be beyond the end
            found = last_readable(whole_split(log, last), base)
            end = base if found is None else found.end
            is_sound = not is_damaged_after(last, max(log.start_offset, end))
            is_sound = is_sound or settings.skip_damaged
    end = max(log.start_offset, end)
    if settings.committed:
        end = min(end, committed_of(log, limit).end)
    return end, is_sound


def given_options(starts: Mapping[TopicPartition, int], settings: Settings) -> dict[str, str]:
    """The options for reading the records."""
    return {
        "includeHeaders": "true",
        "startingOffsets": as_json(starts),
        "isolation": settings.isolation,
        "mode": "PERMISSIVE" if settings.skip_damaged else "FAILFAST",
    }


def all_facts(logs: Sequence[PartitionLog]) -> dict[TopicPartition, Facts]:
    """The topic id and leader epochs of each log, from the brokers' files."""
    found = in_parallel(facts_of, logs, is_mounted=are_mounted(logs))
    return {log.topic_partition: facts for log, facts in zip(logs, found, strict=True)}


def identity_of(
    logs: Sequence[PartitionLog], facts: Mapping[TopicPartition, Facts], isolation: str
) -> Exported:
    """The cluster and the topic ids of the logs."""
    identity = Exported(isolation)
    for log in logs:
        identity.cluster_id = identity.cluster_id or cluster_of(str(Path(log.noted).parent))
        text = facts[log.topic_partition].topic_id
        if text is not None:
            identity.topic_ids[log.topic_partition.topic] = text
    return identity


def check_same(contents: Exported, identity: Exported, target: str) -> None:
    """JobError: the target is of another cluster, or a topic was created anew since the export. The
    same offsets are other records then."""
    if contents.cluster_id and identity.cluster_id and contents.cluster_id != identity.cluster_id:
        raise JobError(
            f"{target} holds records of the cluster {contents.cluster_id}, and these logs are of "
            f"{identity.cluster_id}: name another directory"
        )
    for topic, topic_id in sorted(identity.topic_ids.items()):
        if contents.topic_ids.get(topic, topic_id) != topic_id:
            raise JobError(
                f"{topic} was deleted and recreated since {target} was written, and counts its "
                "offsets from 0 again: name another directory"
            )


def changes(
    logs: Sequence[PartitionLog],
    facts: Mapping[TopicPartition, Facts],
    contents: Exported,
    *,
    corrects: bool = False,
) -> list[Truncated]:
    """The exported records that later leaders have truncated. `corrects`: epochs in `contents` that
    are later than those of the logs are corrected. Otherwise they raise a JobError."""
    known = [log for log in logs if contents.epochs.get(log.topic_partition)]
    found = in_parallel(
        lambda log: truncated(log, facts[log.topic_partition], contents, corrects=corrects),
        known,
        is_mounted=are_mounted(known),
    )
    return [one for one in found if one is not None]


def as_json(offsets: Mapping[TopicPartition, int]) -> str:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        found.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(found)


def without(whole: Range, lost: Sequence[Range]) -> list[Range]:
    """The parts of a range outside of other ranges."""
    found, (at, end) = [], whole
    for first, after in sorted(lost):
        if at < min(first, end):
            found.append((at, min(first, end)))
        at = max(at, after)
    return [*found, (at, end)] if at < end else found


def _warn(what: str) -> None:
    warnings.warn(what, RuntimeWarning, stacklevel=3)
