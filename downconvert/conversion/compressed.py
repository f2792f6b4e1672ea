"""Compressed batches and messages of a log: how their bytes are decompressed for conversion.

A small one is decompressed in one go, which is several times faster; a larger one, or one that
expands to much, through a window. One-shot or not, the messages made are the same.

Not here: what is made of the bytes (body_converter.py), whether to convert at all
(converter.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from records.backend import Transcoder
from records.batch import wrapped
from records.codecs import Decoder, decompress, open_decoder
from records.errors import CorruptRecordsError
from records.formats import (
    BATCH_HEADER,
    BATCH_HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MESSAGE_HEAD,
    PREFIX,
    SIZE_FIELD,
    V1,
    V2,
    Codec,
)
from records.kernel import Outcome
from records.source import Records
from records.wrapper import value_range

from .body import Body
from .body_converter import BodyConverter
from .large_inner import Inner
from .policy import ConversionPolicy

if TYPE_CHECKING:
    from .converter import Converter

KiB: Final = 1024
ONE_SHOT_SIZE_MAX: Final = 128 * KiB  # of the compressed bytes, and of what they decompress to
_UNLIMITED: Final = 2**63 - 1
_LEGACY_HEAD_MAX: Final = MESSAGE_HEAD[V1].size + SIZE_FIELD.size


class CompressedBatches:
    """Takes over where the walk stands before a compressed entry that is to be converted.

    Its buffers are made when the first one comes, and reused."""

    def __init__(self, policy: ConversionPolicy) -> None:
        wrapper_size_max = policy.wrapper_size_max or _UNLIMITED
        record_size_max = policy.record_size_max or _UNLIMITED
        one_shot = max(policy.chunk_size, min(ONE_SHOT_SIZE_MAX, wrapper_size_max // 8))
        self._one_shot = min(one_shot, record_size_max)  # so that none larger goes unseen
        self._window = bytearray()
        self._input = bytearray()
        self._largest_body = 0
        self._output: BodyConverter | None = None
        self._source_bytes = self._batches = 0
        self.has_compressed = False

    @property
    def buffer_bytes(self) -> int:
        """The most that buffers for compressed batches have held."""
        if self._output is None:
            return 0
        return len(self._window) + len(self._input) + self._largest_body + self._output.buffer_bytes

    @property
    def temporary_bytes(self) -> int:
        """Source bytes of what was kept, and what compressed messages have around what is
        inside."""
        return self._source_bytes + (self._output.wrapper_heads if self._output else 0)

    def convert(self, walk: Converter, size: int, codec: Codec, instead: Codec) -> Iterable[int]:
        """The entry of `size` bytes at the walk's position, whose head is in the walk's window.

        A tuple where all is done when this returns: that saves generators in the frequent case."""
        if walk.start + min(size, len(walk.source)) > walk.filled:
            walk.read()
        if self._output is None:
            self._output = BodyConverter(walk.policy, 3 * self._one_shot // 2)
        if instead is not Codec.NONE:
            self.has_compressed = True
        if walk.source[walk.start + MAGIC_AT] == V2:
            entered = self._enter_batch(walk, size, codec, instead)
        else:
            entered = self._enter_message(walk, size, codec, instead)
        if entered is None:
            return ()
        body, inner = entered
        pieces = self._output.convert(walk, body, instead, inner)
        if isinstance(pieces, tuple) and body.start == body.filled:
            self._finish(walk, size)
            return pieces
        return self._rest(walk, size, pieces, body, inner)

    def _rest(
        self, walk: Converter, size: int, pieces: Iterable[int], body: Body, inner: Inner
    ) -> Iterator[int]:
        try:
            yield from pieces
            if inner.is_batch and body.has_more():
                raise body.damage("bytes left after the last record", body.start)
        finally:  # also where nobody asks behind the last piece
            self._finish(walk, size)

    def _finish(self, walk: Converter, size: int) -> None:
        walk.transcoder.leave()
        batches = walk.transcoder.totals[1]
        if batches > self._batches:  # something of it was kept
            self._source_bytes += size
            self._batches = batches

    def _enter_batch(
        self, walk: Converter, size: int, codec: Codec, instead: Codec
    ) -> tuple[Body, Inner] | None:
        """A v2 batch. None: nothing of it is kept."""
        header = BATCH_HEADER.unpack_from(walk.source, walk.start)
        base_offset, last_offset_delta, records_count = header[0], header[6], header[12]
        trim = walk.policy.trim_compressed or instead is Codec.NONE
        if records_count == 0 or (trim and base_offset + last_offset_delta < walk.first_offset):
            return None
        walk.transcoder.enter_batch(
            walk.source, walk.start, instead is not Codec.NONE, trim, walk.policy.split_at_gaps
        )
        body = self._body(walk, BATCH_HEADER_SIZE, size - BATCH_HEADER_SIZE, codec, V2)
        return body, Inner(walk.to_magic, trim, is_batch=True)

    def _enter_message(
        self, walk: Converter, size: int, codec: Codec, instead: Codec
    ) -> tuple[Body, Inner] | None:
        """A v0 or v1 message. None: nothing of it is kept."""
        magic = walk.source[walk.start + MAGIC_AT]
        value_at, value_end = value_range(walk.records, walk.position, size, magic)
        value = (walk, value_at, value_end - value_at, codec, magic)
        head = MESSAGE_HEAD[magic].unpack_from(walk.source, walk.start)
        offset, attributes = head[0], head[4]
        trim = walk.policy.trim_compressed or instead is Codec.NONE
        if trim and offset < walk.first_offset:
            return None
        last_inner = self._last_inner_offset(walk, self._body(*value))
        delta = 0
        if magic == V1 and offset != 0:  # 0: written by an old librdkafka, absolute inside
            if last_inner > offset:
                raise walk.damaged("compressed message is at a lower offset than its last")
            delta = wrapped(offset - last_inner)
        append_time = head[5] if magic == V1 and attributes & LOG_APPEND_TIME else None
        inner = Inner(min(magic, walk.to_magic), trim, is_batch=False, offset_delta=delta)
        walk.transcoder.enter_entries(
            inner.magic,
            delta,
            append_time,
            instead is not Codec.NONE,
            trim,
            walk.policy.split_at_gaps,
        )
        return self._body(*value), inner

    def _last_inner_offset(self, walk: Converter, body: Body) -> int:
        """The offset field of a message's last entry; every other offset hangs off it in v1."""
        scan = Transcoder(V1, 0, 0, False)
        scan.enter_entries(V1, 0, None, False, False, False)
        last_offset: int | None = None
        while True:
            consumed, _, outcome = scan.measure(
                body.source, body.start, body.filled, body.remaining, _UNLIMITED
            )
            body.start += consumed
            if consumed:
                last_offset = scan.last_offset
            if outcome == Outcome.DAMAGE:
                reason, index = scan.damage or ("damaged", body.start)
                raise body.damage(reason, index)
            if outcome == Outcome.END:
                break
            if body.is_full:
                last_offset, size = PREFIX.unpack_from(body.source, body.start)
                body.skip_to(body.base + body.start + size + PREFIX.size)
            else:
                body.fill()
        if last_offset is None:
            raise walk.damaged("compressed message holds no messages")
        return last_offset

    def _body(self, walk: Converter, at: int, size: int, codec: Codec, magic: int) -> Body:
        """The decompressed bytes of `size` bytes that begin `at` bytes into the entry."""
        position = walk.position + at
        data = self._compressed(walk, at, size)
        if data is not None:
            try:
                whole = decompress(codec, data, limit=self._one_shot, magic=magic)
            except CorruptRecordsError:
                whole = None  # through a window, what is good before the damage comes out first
            if whole is not None:
                self._largest_body = max(self._largest_body, len(whole))
                return Body(
                    whole,
                    len(whole),
                    _opener(walk.records, position, size, codec, magic, walk.policy.chunk_size),
                    walk.records.origin + walk.position,
                    whole=True,
                )
        if not self._window:
            self._window = bytearray(walk.policy.chunk_size)
        return Body(
            self._window,
            0,
            _opener(walk.records, position, size, codec, magic, walk.policy.chunk_size),
            walk.records.origin + walk.position,
            whole=False,
        )

    def _compressed(self, walk: Converter, at: int, size: int) -> memoryview | None:
        """The compressed bytes, where they are few enough to be held at once."""
        if size > self._one_shot:
            return None
        start = walk.start + at
        if start + size <= walk.filled:
            return walk.source_view[start : start + size]
        if not self._input:
            self._input = bytearray(self._one_shot)
        window = memoryview(self._input)[:size]
        if walk.records.read_into(window, walk.position + at) < size:
            return None
        return window


def _opener(
    records: Records, position: int, size: int, codec: Codec, magic: int, window_size: int
) -> Callable[[], Decoder]:
    """Opens decoders over a range of a log, each of which reads it from the beginning."""

    def opener() -> Decoder:
        window = memoryview(bytearray(min(window_size, size)))
        taken = 0

        def pull() -> memoryview:
            nonlocal taken
            count = records.read_into(window[: min(len(window), size - taken)], position + taken)
            taken += count
            return window[:count]

        return open_decoder(codec, pull, magic=magic)

    return opener
