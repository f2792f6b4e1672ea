"""A snappy block of any size, decompressed step by step.

The library decompresses a block only at once, into as many bytes as it claims. Here a block is a
stream: literals and copies are carried out one after the other, and what copies may reach is all
that is kept. It is slow, and meant for the few blocks that are too large for memory.

In theory a copy may reach back to the block's beginning. In practice encoders cut their input
into fragments of at most 64 KiB, none of which refers to another; what reaches back more than
`HISTORY_SIZE` is refused.

Source: snappy's format_description.txt."""

from collections.abc import Iterator
from typing import Final

from records.codecs.stream import Windows
from records.errors import CorruptRecordsError

ALL: Final = 2**63  # the size of a block that is as long as the data is

HISTORY_SIZE: Final = 1024 * 1024
PIECE_SIZE: Final = 64 * 1024

CLAIM_SIZE_MAX: Final = 10  # a varint that the library reads: its value is below 2**32
LITERAL, COPY_1, COPY_2, COPY_4 = range(4)  # an element's kind: the lowest two bits of its tag
LITERAL_SIZE_IN_TAG: Final = 60  # a longer one has its size in the one to four bytes after the tag
HEAD_SIZE_MAX: Final = 5  # of an element: all of a copy, and of a literal what is before its bytes

DAMAGED: Final = "snappy block is damaged"


def claimed_size(windows: Windows, size: int, start: int) -> tuple[int, int]:
    """How many bytes the next block, of `size`, says that it holds; and the size of that number.

    Nothing is taken."""
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
    end = windows.position + size - claim_size
    literal = 0  # bytes of it that are still to come
    history = bytearray()
    given = 0  # bytes of the history
    while missing:
        if literal:
            made = windows.some(min(literal, PIECE_SIZE))
            if not made:
                raise windows.ended()
            literal -= len(made)
            history += made
            missing -= len(made)
        else:
            length, offset = _element(windows, end, start)
            if length > missing:
                raise CorruptRecordsError(DAMAGED, start)
            if offset is None:
                literal = length
                if literal > end - windows.position:
                    raise CorruptRecordsError(DAMAGED, start)
            else:
                _check_offset(offset, len(history), start)
                _copy(history, length, offset)
                missing -= length
        if len(history) - given >= PIECE_SIZE:
            yield bytes(history[given:])
            del history[:-HISTORY_SIZE]
            given = len(history)
    if windows.peek(min(1, end - windows.position)):
        raise CorruptRecordsError(DAMAGED, start)
    yield bytes(history[given:])


def _element(windows: Windows, end: int, start: int) -> tuple[int, int | None]:
    """Length and offset of the next element; a literal has no offset, and its bytes come after
    it."""
    whole = min(HEAD_SIZE_MAX, end - windows.position)
    head = windows.peek(whole)
    size = 1 + _bytes_after(head[0]) if head else 1
    if size > len(head):
        if len(head) < whole:
            raise windows.ended()
        raise CorruptRecordsError(DAMAGED, start)
    windows.use(size)
    kind, number = head[0] & 3, head[0] >> 2
    after = int.from_bytes(head[1:size], "little")
    if kind == LITERAL:
        return (after if size > 1 else number) + 1, None
    if kind == COPY_1:
        return 4 + (number & 7), number >> 3 << 8 | after
    return number + 1, after


def _bytes_after(tag: int) -> int:
    """How many bytes of an element's head follow its tag."""
    kind = tag & 3
    if kind == LITERAL:
        return max(0, (tag >> 2) + 1 - LITERAL_SIZE_IN_TAG)
    return {COPY_1: 1, COPY_2: 2, COPY_4: 4}[kind]


def _check_offset(offset: int, history_size: int, start: int) -> None:
    if 0 < offset <= min(history_size, HISTORY_SIZE):
        return
    if offset > HISTORY_SIZE:
        raise CorruptRecordsError("large snappy block reaches back more than 1 MiB", start)
    raise CorruptRecordsError(DAMAGED, start)


def _copy(history: bytearray, length: int, offset: int) -> None:
    """Appends what lies `offset` back; where that is less than `length`, over and over."""
    at = len(history) - offset
    if offset >= length:
        history += history[at : at + length]
    else:
        repeats = length // offset + 1
        history += (history[at:] * repeats)[:length]
