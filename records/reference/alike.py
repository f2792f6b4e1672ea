"""Compressed batches of a log that are alike (`CountAlike` in kernel_functions.py).

Not here: what is to be done with a batch that is not like the others (the caller's)."""

from records.formats import BATCH_HEADER_SIZE, LOG_APPEND_TIME, PREFIX, V2, Codec
from records.kernel import Buffer

from . import sources
from .places import Header


def count_alike(
    source: int | Buffer,
    position: int,
    end: int,
    codec: int,
    first_offset: int,
    size_max: int,
    count_max: int,
) -> tuple[int, int]:
    if codec == Codec.NONE or codec not in list(Codec):
        raise ValueError("there is no such codec")
    if min(position, end - position, size_max, count_max) < 0:
        raise ValueError("a number is negative")
    sources.check(source, end)
    count, at = 0, position
    while count < count_max:
        head = sources.read(source, at, min(BATCH_HEADER_SIZE, end - at))
        if len(head) < BATCH_HEADER_SIZE:
            break
        header = Header.read(head, 0)
        size = header.size + PREFIX.size
        is_alike = (
            header.magic == V2
            and header.attributes & ~LOG_APPEND_TIME == codec
            and BATCH_HEADER_SIZE < size <= min(size_max, end - at)
            and header.last_offset_delta >= 0
            and header.records_count > 0
            and header.base_offset >= first_offset
        )
        if not is_alike:
            break
        count += 1
        at += size
    return count, at - position
