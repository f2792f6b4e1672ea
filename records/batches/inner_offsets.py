"""The offsets of messages inside a compressed message.

In v0 they are absolute. In v1 they are relative to an unknown base. Only the last one is known: it
is the offset of the compressed message, which the broker has set. So the whole message must be read
before the first offset is known (KIP-31).

Not here: the records of v2 batches, whose base offset is in the batch's header.

Source: Kafka's AbstractLegacyRecordBatch.DeepRecordsIterator. The kernels have the same rule for
messages that they recode at once (native/src/transcoder/recode.rs, reference/recode.py)."""

from collections.abc import Callable
from typing import Final, TypeAlias

from records.backend import Transcoder
from records.batch import wrapped
from records.errors import CorruptRecordsError
from records.formats import V0, V1
from records.kernel import ROW_SIZE, Outcome
from records.record import ROW
from records.steps import Steps, at_once

from .compressed import DecompressedWindow

EVERY_OFFSET: Final = -(2**63)
ROWS_MAX: Final = 256  # in one call of the kernel
NO_MESSAGES: Final = "compressed message holds no messages"

# Makes room for the message at the window's start, which the window does not hold whole. Returns
# the offset field of that message if it was skipped; else None.
MakeRoom: TypeAlias = Callable[[DecompressedWindow], int | None]
OffsetSteps: TypeAlias = Steps[int | None]  # yields 0 after each step


def are_relative(magic: int, offset: int) -> bool:
    """Whether the offsets in a compressed message with this offset are relative.

    Old librdkafka producers left the offset at 0, whatever the number of messages inside. With
    offset 0, the offsets inside are therefore absolute."""
    return magic == V1 and offset != 0


def offset_delta(magic: int, offset: int, last_inner: int, position: int) -> int:
    """The number to add to each offset in a compressed message that has this offset.

    CorruptRecordsError, with the position: the compressed message's offset is lower than that of
    its last message."""
    if not are_relative(magic, offset):
        return 0
    if last_inner > offset:
        reason = "compressed message is at a lower offset than its last"
        raise CorruptRecordsError(reason, position)
    return wrapped(offset - last_inner)


class OffsetScan:
    """Finds the last offset in compressed messages, one message after the other."""

    __slots__ = ("_rows", "_transcoder")

    def __init__(self) -> None:
        self._transcoder = Transcoder(V0, EVERY_OFFSET, 0, False)
        self._rows = bytearray(ROWS_MAX * ROW_SIZE)

    def last_offset(self, window: DecompressedWindow, make_room: MakeRoom) -> int | None:
        """The offset field of the last message, after reading the window to its end. None if there
        are no messages. CorruptRecordsError: one of them is damaged."""

        def in_one_step(window: DecompressedWindow) -> OffsetSteps:
            found = make_room(window)
            yield 0
            return found

        return at_once(self.steps(window, in_one_step))

    def steps(
        self, window: DecompressedWindow, make_room: Callable[[DecompressedWindow], OffsetSteps]
    ) -> OffsetSteps:
        """As `last_offset`, in the steps of `make_room`."""
        transcoder, rows = self._transcoder, self._rows
        transcoder.enter_entries(V1, 0, None)
        last: int | None = None
        while True:
            if window.start == window.filled:
                window.fill()
            consumed, produced, outcome = transcoder.columns(
                window.buffer, window.start, window.filled, window.remaining, rows, 0, len(rows)
            )
            window.start += consumed
            if produced:
                last = ROW.unpack_from(rows, produced - ROW_SIZE)[0]
            if outcome == Outcome.SOURCE:
                skipped = yield from make_room(window)
                last = last if skipped is None else skipped
            elif outcome == Outcome.DAMAGE:
                reason, index = transcoder.damage or ("damaged", window.start)
                raise window.damage(reason, index)
            elif outcome != Outcome.TARGET:
                return last
