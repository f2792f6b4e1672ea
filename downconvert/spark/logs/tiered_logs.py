"""A partition in tiered storage together with the segments that brokers still have.

Offsets that only tiered storage has are read there, others from the brokers' segments. Tiered
storage also serves as a copy of the brokers' segments: for offsets that are damaged there, and for
the end of the log if the only broker left lags behind.

Not here: the segments in tiered storage (tiers.py, overlaps.py), copies on several brokers
(union.py)."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from downconvert.storage.names import LOG_STARTS, OFFSET_MAX, TopicPartition

from .checkpoints import Checkpoints
from .copies import look
from .overlaps import joined, layers
from .segment_files import PartitionLog, SegmentFile
from .stored_headers import has_begun
from .stored_trees import broker_of
from .tiers import Remote, Tier
from .union import deleted_up_to, sides_of, with_end


def tiered(tier: Tier, found: Sequence[Remote], local: PartitionLog | None) -> PartitionLog:
    """The log that tiered storage and brokers form together. Each offset is read once.

    FileNotFoundError: a local segment is gone. SegmentChangedError, StoreError."""
    name = tier.topic_partition
    parts = layers(found)
    remote = [one.file for one in parts[0]] if parts else []
    end = remote[-1].next_offset if remote else 0
    _warn_of_damage(name, [one for part in parts[1:] for one in part])
    others = [_of_tier(name, [one.file for one in part], tier.topic_id) for part in parts[1:]]
    on_brokers = () if local is None else _without_empty(local.segments, end)
    if not on_brokers and remote and parts[0][-1].is_damaged:  # its reader reports the damage
        remote[-1] = replace(remote[-1], next_offset=OFFSET_MAX)
    if local is None or not local.segments:
        return replace(_of_tier(name, remote, tier.topic_id), others=tuple(others))
    first = on_brokers[0].base_offset if on_brokers else OFFSET_MAX
    before = [one.file for one in joined(found, first)] if on_brokers else remote
    segments = (*before, *on_brokers)
    shared = [file for file in remote if file.next_offset > first]
    if shared:
        segments = (*segments[:-1], _extended(local, segments[-1], end))
        others.insert(0, _of_tier(name, shared, tier.topic_id))
        _warn_of_damage(name, parts[0][-1:])
    broker = Path(local.noted).parent
    start = max(Checkpoints(LOG_STARTS).of(name, local.noted), deleted_up_to(local))
    return replace(
        local,
        start_offset=max(start, segments[0].base_offset if segments else 0),
        segments=segments,
        broker=str(broker)
        if on_brokers
        else broker_of({}),  # an empty copy's high watermark says nothing
        sides=sides_of(local),
        topic_id=tier.topic_id,
        others=(*local.others, *others),
    )


def _of_tier(name: TopicPartition, files: Sequence[SegmentFile], topic_id: str) -> PartitionLog:
    directory = files[0].directory if files else ""
    start = files[0].base_offset if files else 0
    return PartitionLog(
        name, directory, start, tuple(files), broker_of({}), topic_id=topic_id, is_tier=True
    )


def _warn_of_damage(name: TopicPartition, copies: Sequence[Remote]) -> None:
    """Warns of damaged segments that may have had offsets after the log's end."""
    for one in copies:
        if one.is_damaged:
            warnings.warn(
                f"{one.file.path} is damaged after offset {one.end_offset} of {name}: it is not "
                "known whether it went beyond what is read",
                RuntimeWarning,
                stacklevel=3,
            )


def _without_empty(on_brokers: Sequence[SegmentFile], end: int) -> Sequence[SegmentFile]:
    """A broker's segments. None of them if they are empty and tiered storage, which ends at `end`,
    has later offsets: the broker's copy is new, and its base offset says nothing."""
    if not on_brokers or on_brokers[-1].base_offset >= end or any(map(has_begun, on_brokers)):
        return on_brokers
    return ()


def _extended(local: PartitionLog, last: SegmentFile, end: int) -> SegmentFile:
    """The last segment of the log, extended to the end of tiered storage if that is later."""
    if last is not local.segments[-1] or last.base_offset >= end:
        return last
    if last.next_offset != OFFSET_MAX:
        return replace(last, next_offset=max(last.next_offset, end))
    copy = look(replace(local, others=()))
    is_known = not copy.is_damaged and copy.end_offset < end
    return with_end(last, end) if is_known else last
