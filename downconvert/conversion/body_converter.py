"""From a batch's decompressed records to messages: plain ones, or compressed again.

Plain messages go out as they are made. Compressed ones are wrappers, each complete before it is
sent: it ends with the batch, at a gap in the offsets, or where `wrapper_size_max` is reached. A
record larger than that gets a wrapper of its own if it compresses to less, and is a plain message
otherwise.

Not here: where the decompressed bytes come from (compressed.py), reading a large record
(large_inner.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from records.errors import CorruptRecordsError, RecordsError
from records.formats import MAGIC_AT, MESSAGE_OVERHEAD, V1, Codec
from records.kernel import Outcome

from .body import Body
from .large_inner import Found, Inner, scan_inner
from .policy import RESPONSE_SIZE_MAX, ConversionPolicy
from .wrapper import Wrapper

if TYPE_CHECKING:
    from .converter import Converter

# What a step ended with: the kernel's outcomes, and three more.
SOURCE, TARGET, GAP, END, DAMAGE = (
    int(outcome)
    for outcome in (Outcome.SOURCE, Outcome.TARGET, Outcome.GAP, Outcome.END, Outcome.DAMAGE)
)
PROGRESS: Final = -1  # there is room again, or more to convert
FULL: Final = -2  # the wrapper holds all that it may
LARGE: Final = -3  # the next record fits neither a window nor a wrapper

_UNLIMITED: Final = 2**63 - 1


class BodyConverter:
    """Converts one body after the other, with the kernel of the walk and a buffer that is
    reused."""

    def __init__(self, policy: ConversionPolicy, capacity: int) -> None:
        """`capacity`: of the buffer that messages wait in until they are compressed, in bytes."""
        self._effort = policy.effort
        self._inner = bytearray(capacity)
        self._inner_view = memoryview(self._inner)
        self._limit = policy.wrapper_size_max or _UNLIMITED
        self._is_one_wrapper = policy.wrapper_size_max is None and not policy.split_at_gaps
        self._largest_wrapper = 0
        self.wrapper_heads = 0  # bytes of all wrappers but what is inside of them

    @property
    def buffer_bytes(self) -> int:
        """The most that was held here at a time."""
        return len(self._inner) + self._largest_wrapper

    def convert(self, walk: Converter, body: Body, codec: Codec, inner: Inner) -> Iterable[int]:
        """All of a body that the kernel has been told to enter. Gives sizes of pieces, as the walk
        does; a tuple where all is done when this returns."""
        if codec is Codec.NONE:
            return self._plain(walk, body, inner)
        wrapper = self._wrapper(codec, inner)
        event = self._step(walk, body, wrapper) if body.is_whole else PROGRESS
        if event == END:
            return self._close(walk, wrapper)
        return self._wrapped(walk, body, codec, inner, wrapper, event)

    # --- plain messages

    def _plain(self, walk: Converter, body: Body, inner: Inner) -> Iterator[int]:
        transcoder = walk.transcoder
        while True:
            window = (body.source, body.start, body.filled, body.remaining)
            if walk.measuring:
                consumed, produced, outcome = transcoder.measure(*window, RESPONSE_SIZE_MAX)
            else:
                consumed, produced, outcome = transcoder.transcode(
                    *window, walk.target, 0, len(walk.target)
                )
            body.start += consumed
            if produced or outcome == SOURCE:
                yield produced
            if (outcome == SOURCE and body.is_full) or (outcome == TARGET and not produced):
                found = scan_inner(walk, body, inner, None if walk.measuring else walk.target)
                if found is not None:
                    yield from self._sent_plain(walk, found, body)
            elif outcome == SOURCE:
                body.fill()
            elif outcome == END:
                return
            elif outcome == DAMAGE:
                raise self._damage(walk, body)

    def _sent_plain(self, walk: Converter, found: Found, body: Body) -> Iterator[int]:
        if walk.measuring:
            yield found.message.size
        else:
            walk.ready = walk.target
            yield from found.message.pieces(body.replay("plain", found.position), walk.target)

    # --- wrappers

    def _wrapped(
        self,
        walk: Converter,
        body: Body,
        codec: Codec,
        inner: Inner,
        wrapper: Wrapper,
        event: int,
    ) -> Iterator[int]:
        """Goes on with a wrapper after a step that ended with `event`."""
        try:
            while event != END:
                if event == PROGRESS:
                    yield 0
                elif event == DAMAGE:
                    raise self._damage(walk, body)
                elif event == LARGE and self._is_one_wrapper:
                    yield from self._large_within(walk, wrapper, body, inner)
                else:
                    yield from self._close(walk, wrapper)
                    wrapper = self._wrapper(codec, inner)
                    if event == LARGE:
                        yield from self._large_alone(walk, codec, body, inner)
                event = self._step(walk, body, wrapper)
        except RecordsError:
            yield from self._close(walk, wrapper)  # what was good before the damage
            raise
        yield from self._close(walk, wrapper)

    def _wrapper(self, codec: Codec, inner: Inner) -> Wrapper:
        return Wrapper(codec, inner.magic, self._effort, self._inner_view)

    def _step(self, walk: Converter, body: Body, wrapper: Wrapper) -> int:
        """Converts what the body's window holds into the wrapper's buffer."""
        capacity = len(self._inner)
        limit = min(capacity, self._limit - wrapper.flushed)
        consumed, produced, outcome = walk.transcoder.transcode(
            body.source,
            body.start,
            body.filled,
            body.remaining,
            self._inner,
            wrapper.waiting,
            limit,
        )
        body.start += consumed
        wrapper.waiting += produced
        if outcome == SOURCE:
            if body.is_full:
                return LARGE
            body.fill()
            return PROGRESS
        if outcome == TARGET:
            if limit == capacity and wrapper.waiting:
                wrapper.flush()
                return PROGRESS
            return FULL if wrapper.waiting or wrapper.flushed else LARGE
        return outcome

    def _close(self, walk: Converter, wrapper: Wrapper) -> tuple[int, ...]:
        """Finishes a wrapper, if it holds a record; the next record is the first of another."""
        transcoder = walk.transcoder
        records, _, last_offset, max_timestamp, _ = transcoder.wrapper
        if not records:
            return ()
        data = wrapper.close(last_offset, max_timestamp, transcoder.append_time)
        transcoder.start_wrapper()
        self.wrapper_heads += MESSAGE_OVERHEAD[data[MAGIC_AT]]
        self._largest_wrapper = max(self._largest_wrapper, len(data))
        walk.ready = memoryview(data)
        return (len(data),)

    # --- large records

    def _large_within(
        self, walk: Converter, wrapper: Wrapper, body: Body, inner: Inner
    ) -> Iterator[int]:
        """A large record in the batch's one wrapper, as in Kafka's."""
        wrapper.flush()
        found = scan_inner(walk, body, inner, self._inner_view)
        if found is not None:
            first_offset = walk.transcoder.wrapper[1]
            yield from self._written(wrapper, found, body, inner, first_offset)

    def _large_alone(
        self, walk: Converter, codec: Codec, body: Body, inner: Inner
    ) -> Iterator[int]:
        """A large record in a wrapper of its own, or plain where that would hold too much."""
        found = scan_inner(walk, body, inner, self._inner_view)
        if found is None:
            return
        wrapper = self._wrapper(codec, inner)
        yield from self._written(wrapper, found, body, inner, found.offset)
        if wrapper.size <= self._limit:
            yield from self._close(walk, wrapper)
        else:
            walk.transcoder.start_wrapper()
            yield from self._sent_plain(walk, found, body)

    def _written(
        self,
        wrapper: Wrapper,
        found: Found,
        body: Body,
        inner: Inner,
        first_offset: int,
    ) -> Iterator[int]:
        """A large record compressed into a wrapper, as far as that may grow."""
        message = found.message
        if inner.magic == V1:
            message = message.at_offset(found.offset - first_offset)
        for size in message.pieces(body.replay("wrapper", found.position), self._inner_view):
            wrapper.waiting = size
            wrapper.flush()
            if wrapper.size > self._limit:
                return
            yield 0

    def _damage(self, walk: Converter, body: Body) -> CorruptRecordsError:
        reason, index = walk.transcoder.damage or ("damaged", body.start)
        return body.damage(reason, index)
