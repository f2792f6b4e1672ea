"""Segments in tiered storage that overlap.

Consecutive leaders may copy the same offsets, in segments with other beginnings and ends. Segments
that together have each offset once form the log. All other segments form further copies of it.

Aiven's manifests say where a segment ends. Kafka's LocalTieredStorage has no such file, so planning
reads the last batch of each segment.

Not here: finding the segments (tiers.py), the segments that brokers have (tiered_logs.py)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise

from downconvert.spark.errors import SegmentChangedError
from downconvert.spark.stores.object_cache import ObjectCache
from downconvert.spark.stores.parallel import in_parallel
from downconvert.storage.names import OFFSET_MAX

from .completeness import behind_damage, is_damaged_after
from .segment_files import SegmentFile
from .stored_headers import last_batch
from .tiers import Remote, Tier


def with_ends(
    found: Mapping[Tier, Sequence[Remote]], cache: ObjectCache
) -> dict[Tier, list[Remote]]:
    """The segments, with their end offsets. A segment that is gone has none. StoreError."""
    files = [one.file for tier in found.values() for one in tier if one.end_offset is None]
    ends = dict(zip(files, in_parallel(partial(_end_of, cache), files), strict=True))
    return {tier: [ends.get(one.file, one) for one in found[tier]] for tier in found}


def _end_of(cache: ObjectCache, file: SegmentFile) -> Remote:
    with suppress(FileNotFoundError, SegmentChangedError):
        return cache.of(("end", file), partial(_read_end, file))
    return Remote(file, None)


def _read_end(file: SegmentFile) -> Remote:
    header, is_damaged = last_batch(file)
    end = file.base_offset if header is None else header.last_offset + 1
    if is_damaged:
        end = max((end, *(one.end for one in behind_damage(file, end))))
        is_damaged = is_damaged_after(file, end)
    return Remote(file, end, is_damaged)


def layers(found: Sequence[Remote]) -> list[list[Remote]]:
    """The log that segments form together, and further copies of it from the remaining segments. In
    each of them, an offset is in at most one segment."""
    layered: list[list[Remote]] = []
    left = list(found)
    while left:
        layered.append(joined(left))
        whole = {one.file.blob_of_log for one in layered[-1] if not one.file.is_clipped}
        left = [one for one in left if one.file.blob_of_log not in whole]
    return layered


def joined(found: Sequence[Remote], until: int = OFFSET_MAX) -> list[Remote]:
    """Segments that together have each offset below `until` once. Each is read up to the beginning
    of the next one. A segment is left out if the segments before it have all of its offsets."""
    chosen: list[Remote] = []
    reached = -1
    for one in sorted(found, key=lambda one: (one.file.base_offset, -_reach(one))):
        base = one.file.base_offset
        is_covered = one.end_offset is not None and one.end_offset <= reached
        is_covered = is_covered and not (one.is_damaged and base == reached)
        if base >= until or is_covered or (chosen and base == chosen[-1].file.base_offset):
            continue
        chosen.append(one)
        reached = max(reached, _reach(one))
    ends = [*(after.file.base_offset for _, after in pairwise(chosen)), until]
    return [_up_to(one, end) for one, end in zip(chosen, ends, strict=False)]


def _reach(one: Remote) -> int:
    return one.file.base_offset if one.end_offset is None else one.end_offset


def _up_to(one: Remote, end: int) -> Remote:
    """The segment, up to an offset; OFFSET_MAX: to its end."""
    is_clipped = end != OFFSET_MAX and (one.end_offset is None or one.end_offset > end)
    if end == OFFSET_MAX and one.end_offset is not None:
        end = max(one.end_offset, one.file.base_offset)
    return replace(one, file=replace(one.file, next_offset=end, is_clipped=is_clipped))
