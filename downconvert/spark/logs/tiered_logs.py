"""A partition in tiered storage together with the segments that brokers still have.

Offsets that only tiered storage has are read there, others from the brokers' segments. Tiered
storage is also a copy of those: it has what damage has taken from them, and the end of the log if
only a broker that lags behind is left.

Not here: the segments in tiered storage (tiers.py), copies on several brokers (union.py)."""

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from downconvert.spark.errors import SegmentChangedError
from downconvert.spark.stores.object_cache import ObjectCache
from downconvert.storage.names import OFFSET_MAX, TopicPartition

from .checkpoints import noted_start
from .completeness import behind_damage, is_damaged_after
from .copies import look
from .segment_files import PartitionLog, SegmentFile
from .stored_headers import last_batch
from .stored_trees import broker_of
from .tiers import Remote, Tier, joined
from .union import deleted_up_to, sides_of, with_end


def tiered(
    tier: Tier, found: Sequence[Remote], local: PartitionLog | None, cache: ObjectCache
) -> PartitionLog:
    """The log that tiered storage and brokers form together. Each offset is read once.

    FileNotFoundError: a local segment is gone. SegmentChangedError, StoreError."""
    name = tier.topic_partition
    remote, is_damaged = joined(found), False
    if remote:
        remote[-1], is_damaged = _bounded(remote[-1], cache)
    if local is None or not local.segments:
        # The reader of a last segment reports damage at its end.
        return _of_tier(name, joined(found) if is_damaged else remote, tier.topic_id)
    mine = _without_empty(local.segments, remote)
    first = mine[0].base_offset if mine else OFFSET_MAX
    segments = (*joined(found, first), *mine)
    shared = [file for file in remote if file.next_offset > first]
    if shared:
        segments = (*segments[:-1], _extended(local, segments[-1], shared[-1].next_offset))
    if shared and is_damaged:
        warnings.warn(
            f"{shared[-1].path} is damaged after offset {shared[-1].next_offset} of {name}: it is "
            f"not known whether it went beyond what {local.directory} has",
            RuntimeWarning,
            stacklevel=2,
        )
    broker = Path(local.noted).parent
    start = max(noted_start(broker, name), deleted_up_to(local))
    copy = replace(_of_tier(name, shared, tier.topic_id), is_tier=True)
    return replace(
        local,
        start_offset=max(start, segments[0].base_offset if segments else 0),
        segments=segments,
        broker=str(broker),
        sides=sides_of(local),
        topic_id=tier.topic_id,
        others=(*local.others, *([copy] if shared else ())),
    )


def _of_tier(name: TopicPartition, files: Sequence[SegmentFile], topic_id: str) -> PartitionLog:
    directory = files[0].directory if files else ""
    start = files[0].base_offset if files else 0
    return PartitionLog(name, directory, start, tuple(files), broker_of({}), topic_id=topic_id)


def _bounded(last: SegmentFile, cache: ObjectCache) -> tuple[SegmentFile, bool]:
    """The last segment, up to the offset after its last batch that can be found; and whether damage
    follows that batch."""
    if last.next_offset != OFFSET_MAX:
        return last, False
    with suppress(OSError, SegmentChangedError):
        end, is_damaged = cache.of(("end", last), partial(_end_of, last))
        return replace(last, next_offset=end), is_damaged
    return last, False


def _end_of(file: SegmentFile) -> tuple[int, bool]:
    header, is_damaged = last_batch(file)
    end = file.base_offset if header is None else header.last_offset + 1
    if is_damaged:
        end = max((end, *(one.end for one in behind_damage(file, end))))
        is_damaged = is_damaged_after(file, end)
    return end, is_damaged


def _without_empty(
    mine: Sequence[SegmentFile], remote: Sequence[SegmentFile]
) -> Sequence[SegmentFile]:
    """A broker's segments; none if they are empty, and tiered storage goes further: it is a new
    copy, whose base offset says nothing."""
    is_empty = not any(file.size for file in mine)
    is_behind = bool(remote) and mine[-1].base_offset < remote[-1].next_offset
    return () if is_empty and is_behind else mine


def _extended(local: PartitionLog, last: SegmentFile, end: int) -> SegmentFile:
    """The last segment of the log, up to where tiered storage ends if that goes further."""
    if last is not local.segments[-1] or last.base_offset >= end:
        return last
    if last.next_offset != OFFSET_MAX:
        return replace(last, next_offset=max(last.next_offset, end))
    copy = look(replace(local, others=()))
    is_known = not copy.is_damaged and copy.end_offset < end
    return with_end(last, end) if is_known else last
