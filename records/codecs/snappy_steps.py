"""A snappy block of any size, decompressed step by step.

The library decompresses a block only as a whole, into as many bytes as it claims. Here a block is a
stream: literals and copies are executed one after the other, and only the bytes that copies may
reach are kept. This is slow, for the few blocks that are too large for memory.

In theory a copy may reach back to the block's beginning. In practice encoders cut their input into
independent fragments of at most 64 KiB. A copy that reaches back more than `HISTORY_SIZE` is
refused.

Source: snappy's format_description.txt."""

from collections.abc import Iterator
from typing import Final

from records.errors import CorruptRecordsError
from records.units import KiB

from .stream import Windows

ALL: Final = 2**63  # the size of a block that is as long as the data

HISTORY_SIZE: Final = 256 * KiB
PIECE_SIZE: Final = 64 * KiB
LOOK_AHEAD_SIZE: Final = 4096  # of compressed bytes, which expand to some 85 KiB at most

CLAIM_SIZE_MAX: Final = 10  # bytes of a varint that the library reads, below 2**32 in value
LITERAL, COPY_1, COPY_2 = range(3)  # an element's kind: the lowest two bits of its tag; 3: COPY_4
COPY_SIZES: Final = (0, 2, 3, 5)  # by kind
LITERAL_SIZE_IN_TAG: Final = 60  # a longer one has its size in the one to four bytes after the tag
HEAD_SIZE_MAX: Final = 5  # of an element: all of a copy; of a literal the part before its bytes

DAMAGED: Final = "snappy block is damaged"
TOO_FAR: Final = "large snappy block reaches back more than 256 KiB"


def claimed_size(windows: Windows, size: int, start: int) -> tuple[int, int]:
    """The size that the next block, of `size` bytes, claims; and how many bytes state it.

    These bytes are not taken."""
    claimed = 0
    head = windows.peek(min(size, CLAIM_SIZE_MAX))
    for index, byte in enumerate(head):
        claimed |= (byte & 0x7F) << 7 * index
        if byte < 0x80 and claimed < 2**32:
            return claimed, index + 1
    if len(head) < min(size, CLAIM_SIZE_MAX):
        raise windows.ended()
    raise CorruptRecordsError(DAMAGED, start)


def block_in_steps(windows: Windows, size: int, start: int) -> Iterator[bytes]:
    """The next block, of `size` compressed bytes."""
    missing, claim_size = claimed_size(windows, size, start)
    windows.use(claim_size)
    left = size - claim_size  # compressed bytes
    literal = 0  # remaining bytes of the current literal
    history = bytearray()
    while missing:
        given = len(history)
        if literal:
            part = windows.some(min(literal, PIECE_SIZE))
            if not part:
                raise windows.ended()
            history += part
            used = len(part)
            literal -= used
        else:
            view = windows.peek(min(left, LOOK_AHEAD_SIZE))
            used, literal = _execute(bytes(view), history, start)
            if not used:
                if len(view) < min(left, HEAD_SIZE_MAX):
                    raise windows.ended()
                raise CorruptRecordsError(DAMAGED, start)
            windows.use(used)
        left -= used
        missing -= len(history) - given
        if literal > min(left, missing) or missing < 0:
            raise CorruptRecordsError(DAMAGED, start)
        yield bytes(history[given:])
        if len(history) > 2 * HISTORY_SIZE:
            del history[:-HISTORY_SIZE]
    if windows.peek(min(1, left)):
        raise CorruptRecordsError(DAMAGED, start)
    if left and size != ALL:
        raise windows.ended()


def _execute(view: bytes, history: bytearray, start: int) -> tuple[int, int]:
    """Executes the elements in the view, and appends their output to the history.

    Returns the number of used bytes, which end with a whole element; and how many bytes of the last
    literal come after the view."""
    end = len(view)
    view += bytes(HEAD_SIZE_MAX)  # so that the head of an incomplete element can be read
    at = 0
    while at < end:
        tag = view[at]
        kind = tag & 3
        length = (tag >> 2) + 1
        if kind == LITERAL:
            body = at + 1
            if length > LITERAL_SIZE_IN_TAG:
                body += length - LITERAL_SIZE_IN_TAG
                length = int.from_bytes(view[at + 1 : body], "little") + 1
            if body > end:
                break
            at = body + length
            history += view[body : min(at, end)]
            continue
        if kind == COPY_1:
            length = 4 + (tag >> 2 & 7)
            offset = tag >> 5 << 8 | view[at + 1]
        elif kind == COPY_2:
            offset = view[at + 1] | view[at + 2] << 8
        else:
            offset = int.from_bytes(view[at + 1 : at + 5], "little")
        if at + COPY_SIZES[kind] > end:
            break
        at += COPY_SIZES[kind]
        made = len(history)
        if not 0 < offset <= made or offset > HISTORY_SIZE:
            reason = TOO_FAR if offset > HISTORY_SIZE else DAMAGED
            raise CorruptRecordsError(reason, start)
        if offset >= length:
            history += history[made - offset : made - offset + length]
        else:
            history += (history[made - offset :] * (length // offset + 1))[:length]
    return min(at, end), max(at - end, 0)
