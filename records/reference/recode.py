"""Recodes one compressed entry of a log to compressed messages at once (`Transcoder.recode`).

The codecs are the Python packages that records.codecs uses.

Not here: the messages inside (inside.py)."""

from typing import Final

from records.codecs import CompressionLevel, compress, decompress
from records.errors import CorruptRecordsError
from records.formats import (
    ATTRIBUTES_AT_LEGACY,
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MESSAGE_HEAD,
    MESSAGE_OVERHEAD,
    PREFIX,
    V1,
    V2,
    Codec,
)
from records.kernel import Buffer, Outcome, Recodes

from . import writing
from .call import Damaged, Window
from .items import message
from .places import Header, wrapped
from .state import Stateful

# A record has at least 7 bytes, and a v1 message has 34 besides key and value. So messages are at
# most this many times as large as records.
GROWTH_MAX: Final = 5
EVERY_OFFSET: Final = -(2**63)


class NotAtOnce(Exception):  # noqa: N818  (it becomes None)
    """The entry has to be read as a stream."""


def recode(transcoder: Stateful, entry: memoryview, codec: Codec | None) -> bytes:
    """Makes messages compressed with `codec` from `entry`, which is the transcoder's next one.
    Without a codec, messages of a v2 batch are not compressed.

    Raises NotAtOnce. The caller must then discard the transcoder's counts of the entry."""
    if len(entry) <= MAGIC_AT + 1 or PREFIX.unpack_from(entry)[1] != len(entry) - PREFIX.size:
        raise NotAtOnce
    magic = entry[MAGIC_AT]
    if magic > V2:
        raise NotAtOnce
    if magic == V2:
        body = _enter_batch(transcoder, entry, is_wrapper=codec is not None)
    else:
        body = _enter_message(transcoder, entry)
    if body is None:
        return b""
    state = transcoder.state
    assert state.place is not None
    state.place.source_size = len(entry)
    state.account.decompressed_bytes += len(body)
    return _messages(transcoder, body, codec, counted=magic == V2)


def _enter_batch(transcoder: Stateful, entry: memoryview, *, is_wrapper: bool) -> Buffer | None:
    """The decompressed records; None if no record of the batch is kept."""
    state = transcoder.state
    if len(entry) < BATCH_HEADER_SIZE or state.to_magic == V2:
        raise NotAtOnce
    header = Header.read(entry, 0)
    is_below = state.trims(is_wrapper=is_wrapper) and header.ends_before(state.first_offset)
    if header.records_count == 0 or is_below:
        return None
    body = _decompressed(header.attributes, entry[BATCH_HEADER_SIZE:], V2, state.recodes)
    transcoder.enter_batch(entry, 0, is_wrapper)
    return body


def _enter_message(transcoder: Stateful, entry: memoryview) -> Buffer | None:
    """The decompressed messages; None if none of them is kept."""
    state, magic = transcoder.state, entry[MAGIC_AT]
    try:
        window = Window(entry, 0, len(entry), len(entry))
        value = message(window, magic, len(entry)).contents(window.source)[1]
    except Damaged:
        raise NotAtOnce from None
    if value is None:
        raise NotAtOnce
    offset, _, _, _, attributes, *timestamp = MESSAGE_HEAD[magic].unpack_from(entry)
    if state.recodes.trim and offset < state.first_offset:
        return None
    body = _decompressed(entry[ATTRIBUTES_AT_LEGACY], value, magic, state.recodes)
    last_inner = _last_inner_offset(type(transcoder), body)
    delta = 0
    if magic == V1 and offset != 0:  # 0: written by an old librdkafka, absolute inside
        if last_inner > offset:
            raise NotAtOnce
        delta = wrapped(offset - last_inner)
    append_time = timestamp[0] if magic == V1 and attributes & LOG_APPEND_TIME else None
    transcoder.enter_entries(min(magic, state.to_magic), delta, append_time, True)
    return body


def _decompressed(attributes: int, data: Buffer, magic: int, recodes: Recodes) -> Buffer:
    codec = attributes & CODEC_MASK
    if not Codec.GZIP <= codec <= Codec.ZSTD:
        raise NotAtOnce
    try:
        body = decompress(Codec(codec), data, limit=recodes.body_size_max, magic=magic)
    except CorruptRecordsError:
        raise NotAtOnce from None
    if body is None:
        raise NotAtOnce
    return body


def _last_inner_offset(kernel: type[Stateful], body: Buffer) -> int:
    """The offset field of the last message inside. In v1 all offsets are relative to it."""
    scan = kernel(V1, EVERY_OFFSET, 0, False)
    scan.enter_entries(V1, 0, None)
    consumed, _, outcome = scan.measure(body, 0, len(body), len(body), 2**63 - 1)
    if outcome != Outcome.END or not consumed:
        raise NotAtOnce
    return scan.last_offset


def _messages(transcoder: Stateful, body: Buffer, codec: Codec | None, *, counted: bool) -> bytes:
    """Converts the entered data. `counted`: bytes after the last record are damage."""
    inner_size_max = transcoder.state.recodes.inner_size_max
    inner = memoryview(bytearray(min(GROWTH_MAX * len(body), inner_size_max)))
    made = b""
    read = 0
    while True:
        consumed, produced, outcome = transcoder.transcode(
            body, read, len(body), len(body) - read, inner, 0, len(inner)
        )
        read += consumed
        if outcome not in (Outcome.GAP, Outcome.END):
            raise NotAtOnce
        if codec is None:
            made += inner[:produced]
        elif produced:
            made += _wrapper(transcoder, inner[:produced], codec)
            transcoder.start_wrapper()
        if outcome == Outcome.END:
            if counted and read < len(body):
                raise NotAtOnce
            return made


def _wrapper(transcoder: Stateful, inner: memoryview, codec: Codec) -> bytes:
    magic = inner[MAGIC_AT]
    level: CompressionLevel = "fast" if transcoder.state.recodes.fast else "kafka"
    data = compress(codec, inner, magic=magic, compression_level=level)
    _, _, last_offset, timestamp = transcoder.wrapper
    append_time = transcoder.append_time if magic == V1 else None
    if append_time is not None:
        timestamp = append_time
    transcoder.state.account.temporary_bytes += MESSAGE_OVERHEAD[magic]
    value = memoryview(data)
    is_append_time = append_time is not None
    return writing.message(magic, last_offset, timestamp, is_append_time, None, value, codec=codec)
