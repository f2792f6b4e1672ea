"""Converts a batch's decompressed records to messages, either plain or compressed again.

Plain messages are sent as they are made. Compressed messages are wrappers, each complete before it
is sent. A wrapper ends with the batch, at a gap in the offsets, or at `wrapper_size_max`. A larger
record gets a wrapper of its own if its compressed form fits, and is a plain message otherwise.

Not here: decompressing (compressed.py), reading a large record (large_inner.py)."""

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

from downconvert.conversion import buffers
from downconvert.conversion.buffers import NO_BUFFER, NO_VIEW
from downconvert.conversion.policy import RESPONSE_SIZE_MAX
from downconvert.conversion.request import Request
from records.errors import CorruptRecordsError, RecordsError
from records.formats import MAGIC_AT, MESSAGE_OVERHEAD, V1, Codec
from records.kernel import Outcome, Transcoder
from records.steps import Steps

from .body import DecompressedBody
from .large_inner import InnerFormat, ScannedRecord, scan_inner
from .output import Output
from .wrapper import Wrapper

SOURCE, TARGET, GAP, END, DAMAGE = (
    int(outcome)
    for outcome in (Outcome.SOURCE, Outcome.TARGET, Outcome.GAP, Outcome.END, Outcome.DAMAGE)
)

_UNLIMITED: Final = 2**63 - 1


class Next(Enum):
    """The next action for a wrapper after a step."""

    STEP = auto()  # take another step
    CLOSE = auto()  # the wrapper is full, or the next record's offset does not follow
    LARGE = auto()  # the next record fits neither a window nor a wrapper
    END = auto()  # all records have been read
    DAMAGE = auto()  # the next record is damaged


class BodyConverter:
    """Converts one body after the other. Wrappers take a buffer, which is held until `release`."""

    __slots__ = (
        "_capacity",
        "_inner",
        "_inner_view",
        "_is_one_wrapper",
        "_level",
        "_limit",
        "_output",
        "_request",
        "_transcoder",
    )

    def __init__(
        self, request: Request, output: Output, transcoder: Transcoder, capacity: int
    ) -> None:
        """`capacity`: bytes of the buffer that holds messages until they are compressed."""
        policy = request.policy
        self._request = request
        self._output = output
        self._transcoder = transcoder
        self._level = policy.compression_level
        self._capacity = capacity
        self._inner = NO_BUFFER
        self._inner_view = NO_VIEW
        self._limit = policy.wrapper_size_max or _UNLIMITED
        self._is_one_wrapper = policy.wrapper_size_max is None and not policy.split_at_gaps

    @property
    def held_bytes(self) -> int:
        """The size of the buffer."""
        return len(self._inner)

    def convert(self, body: DecompressedBody, codec: Codec, inner: InnerFormat) -> Iterator[int]:
        """Converts a body that the kernel has entered. Yields the sizes of pieces, 0 if a step made
        none."""
        if codec is Codec.NONE:
            return self._plain(body, inner)
        if not self._inner:
            self._inner = buffers.take(self._capacity)
            self._inner_view = memoryview(self._inner)
        return self._wrapped(body, codec, inner)

    def release(self) -> None:
        """Releases the buffer until the next body."""
        buffers.release(self._inner)
        self._inner, self._inner_view = NO_BUFFER, NO_VIEW

    # --- plain messages

    def _plain(self, body: DecompressedBody, inner: InnerFormat) -> Iterator[int]:
        transcoder, output = self._transcoder, self._output
        while True:
            window = (body.buffer, body.start, body.filled, body.remaining)
            if output.is_measuring:
                consumed, produced, outcome = transcoder.measure(*window, RESPONSE_SIZE_MAX)
            else:
                consumed, produced, outcome = transcoder.transcode(
                    *window, output.target, 0, len(output.target)
                )
            body.start += consumed
            if produced or outcome == SOURCE:
                yield produced
            if (outcome == SOURCE and body.is_full) or (outcome == TARGET and not produced):
                scratch = None if output.is_measuring else output.target
                record = yield from scan_inner(transcoder, self._request, body, inner, scratch)
                if record is not None:
                    yield from self._large_plain(record, body)
            elif outcome == SOURCE:
                body.fill()
            elif outcome == END:
                return
            elif outcome == DAMAGE:
                raise self._damage(body)

    def _large_plain(self, record: ScannedRecord, body: DecompressedBody) -> Iterator[int]:
        output = self._output
        if output.is_measuring:
            yield record.message.size
        else:
            output.plain()
            cursor = yield from body.replay("plain", record.position)
            yield from record.message.pieces(cursor, output.target)

    # --- wrappers

    def _wrapped(self, body: DecompressedBody, codec: Codec, inner: InnerFormat) -> Iterator[int]:
        wrapper = self._wrapper(codec, inner)
        try:
            while (todo := self._step(body, wrapper)) is not Next.END:
                if todo is Next.STEP:
                    yield 0
                elif todo is Next.DAMAGE:
                    raise self._damage(body)
                elif todo is Next.LARGE and self._is_one_wrapper:
                    yield from self._large_within(wrapper, body, inner)
                else:
                    yield self._close(wrapper)
                    wrapper = self._wrapper(codec, inner)
                    if todo is Next.LARGE:
                        yield from self._large_alone(codec, body, inner)
        except RecordsError:
            yield self._close(wrapper)  # the good records before the damage
            raise
        yield self._close(wrapper)

    def _wrapper(self, codec: Codec, inner: InnerFormat) -> Wrapper:
        return Wrapper(codec, inner.magic, self._level, self._inner_view)

    def _step(self, body: DecompressedBody, wrapper: Wrapper) -> Next:
        """Converts the body's window into the wrapper's buffer."""
        capacity = len(self._inner)
        limit = min(capacity, self._limit - wrapper.flushed)
        consumed, produced, outcome = self._transcoder.transcode(
            body.buffer,
            body.start,
            body.filled,
            body.remaining,
            self._inner,
            wrapper.waiting,
            limit,
        )
        body.start += consumed
        wrapper.waiting += produced
        if outcome == END:
            return Next.END
        if outcome == SOURCE:
            if body.is_full:
                return Next.LARGE
            body.fill()
            return Next.STEP
        if outcome == TARGET:
            if limit == capacity:  # any record of a window fits into an empty buffer
                wrapper.flush()
                return Next.STEP
            return Next.CLOSE if wrapper.waiting or wrapper.flushed else Next.LARGE
        return Next.CLOSE if outcome == GAP else Next.DAMAGE

    def _close(self, wrapper: Wrapper) -> int:
        """Finishes a wrapper, unless it is empty. The next record begins another wrapper."""
        transcoder = self._transcoder
        records, _, last_offset, max_timestamp = transcoder.wrapper
        if not records:
            return 0
        is_append_time = transcoder.append_time is not None
        made = wrapper.close(last_offset, max_timestamp, is_append_time=is_append_time)
        transcoder.start_wrapper()
        self._output.temporary_bytes += MESSAGE_OVERHEAD[made[MAGIC_AT]]
        return self._output.emit_wrappers(made)

    # --- large records

    def _large_within(
        self, wrapper: Wrapper, body: DecompressedBody, inner: InnerFormat
    ) -> Iterator[int]:
        """A large record in the batch's only wrapper, as Kafka does."""
        wrapper.flush()
        record = yield from self._scan(body, inner)
        if record is not None:
            first_offset = self._transcoder.wrapper[1]
            yield from self._written(wrapper, record, body, inner, first_offset)

    def _large_alone(
        self, codec: Codec, body: DecompressedBody, inner: InnerFormat
    ) -> Iterator[int]:
        """A large record in a wrapper of its own, or plain if that wrapper would be too large."""
        record = yield from self._scan(body, inner)
        if record is None:
            return
        wrapper = self._wrapper(codec, inner)
        yield from self._written(wrapper, record, body, inner, record.offset)
        wrapper.finish()
        if wrapper.size <= self._limit:
            yield self._close(wrapper)
        else:
            self._transcoder.start_wrapper()
            yield from self._large_plain(record, body)

    def _scan(self, body: DecompressedBody, inner: InnerFormat) -> Steps[ScannedRecord | None]:
        return scan_inner(self._transcoder, self._request, body, inner, self._inner_view)

    def _written(
        self,
        wrapper: Wrapper,
        record: ScannedRecord,
        body: DecompressedBody,
        inner: InnerFormat,
        first_offset: int,
    ) -> Iterator[int]:
        """Compresses a large record into a wrapper, up to the wrapper's limit."""
        message = record.message
        if inner.magic == V1:
            message = message.at_offset(record.offset - first_offset)
        try:
            cursor = yield from body.replay("wrapper", record.position)
            for size in message.pieces(cursor, self._inner_view):
                wrapper.waiting = size
                wrapper.flush()
                if wrapper.size > self._limit:
                    return
                yield 0
        except RecordsError:
            # The file was truncated after the scan, so the wrapper ends inside the record. Drop it.
            self._transcoder.start_wrapper()
            raise

    def _damage(self, body: DecompressedBody) -> CorruptRecordsError:
        reason, index = self._transcoder.damage or ("damaged", body.start)
        return body.damage(reason, index)
