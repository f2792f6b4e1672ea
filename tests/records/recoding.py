"""Recodes compressed entries, at once or by streaming, and opens what comes out."""

from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from records.codecs import compress, decompress
from records.errors import CorruptRecordsError
from records.formats import (
    ATTRIBUTES_AT_LEGACY,
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CRC,
    CRC_AT_LEGACY,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MESSAGE_HEAD,
    MESSAGE_OVERHEAD,
    PREFIX,
    V1,
    V2,
    Codec,
)
from records.kernel import Outcome, Recodes
from records.units import MiB

from .examples import batch, message, record, with_checksum

RECORDS = [record(delta, b"key", b"value %d" % delta * 9) for delta in (0, 1, 2, 5, 6)]
WRITTEN = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def compressed_batch(codec: Codec, *records: bytes, **fields: int) -> bytes:
    data = compress(codec, b"".join(records), magic=V2, compression_level="kafka")
    fields.setdefault("records_count", len(records))
    fields["attributes"] = fields.get("attributes", 0) | codec
    return batch(compressed=data, **fields)


def compressed_message(
    codec: Codec, magic: int, offset: int, inner: bytes, *, attributes: int = 0
) -> bytes:
    data = compress(codec, inner, magic=magic, compression_level="kafka")
    return message(magic, offset, None, data, timestamp=77, attributes=attributes | codec)


@dataclass(frozen=True)
class Job:
    """The parameters of a transcoder, and the codec of a recode."""

    to_magic: int = V1
    first_offset: int = 0
    codec: Codec = Codec.LZ4
    fast: bool = True
    trim: bool = True
    split_at_gaps: bool = True
    body_size_max: int = MiB
    inner_size_max: int = MiB

    def transcoder(self, kernel: ModuleType) -> Any:
        how = (self.fast, self.trim, self.split_at_gaps, self.body_size_max, self.inner_size_max)
        return kernel.Transcoder(self.to_magic, self.first_offset, 0, False, Recodes(b"", *how))

    def run(self, transcoder: Any, entry: bytes) -> bytes | None:
        source = b"<" + entry + b">"  # a part of a buffer
        made = transcoder.recode(source, 1, 1 + len(entry), self.codec)
        assert made is None or isinstance(made, bytes)
        return made


@dataclass
class Opened:
    """A compressed message: its own fields, and its content."""

    offset: int
    magic: int
    attributes: int
    timestamp: int | None
    inner: bytes = field(repr=False)


def opened(data: bytes) -> list[Opened]:
    """The compressed messages one after the other, checked from the outside."""
    found = []
    while data:
        size = PREFIX.unpack_from(data)[1] + PREFIX.size
        entry, data = data[:size], data[size:]
        magic = entry[MAGIC_AT]
        assert entry == with_checksum(entry), CRC.unpack_from(entry, CRC_AT_LEGACY)
        offset, _, _, _, attributes, *timestamp = MESSAGE_HEAD[magic].unpack_from(entry)
        value = entry[MESSAGE_OVERHEAD[magic] :]
        head_end = entry[MESSAGE_HEAD[magic].size : MESSAGE_OVERHEAD[magic]]
        assert head_end == b"\xff\xff\xff\xff" + len(value).to_bytes(4)  # no key
        codec = Codec(attributes & CODEC_MASK)
        inner = decompress(codec, value, limit=8 * MiB, magic=magic)
        assert inner is not None
        time = timestamp[0] if timestamp else None
        found.append(Opened(offset, magic, attributes, time, bytes(inner)))
    return found


def streamed(kernel: ModuleType, job: Job, entry: bytes) -> list[Opened] | None:
    """The same by the kernel's other methods, from the decompressed bytes. None at damage."""
    magic = entry[MAGIC_AT]
    transcoder = job.transcoder(kernel)
    try:
        if magic == V2:
            body = decompressed(entry[ATTRIBUTES_AT_LEGACY + 5], entry[BATCH_HEADER_SIZE:], magic)
            transcoder.enter_batch(entry, 0, True)
        else:
            body = decompressed(
                entry[ATTRIBUTES_AT_LEGACY], entry[MESSAGE_OVERHEAD[magic] :], magic
            )
            offset, _, _, _, attributes, *times = MESSAGE_HEAD[magic].unpack_from(entry)
            delta = offset - PREFIX.unpack_from(body, last_entry(body))[0] if magic == V1 else 0
            time = times[0] if times and attributes & LOG_APPEND_TIME else None
            to_magic = min(magic, job.to_magic)
            transcoder.enter_entries(to_magic, delta, time, True)
    except CorruptRecordsError:
        return None
    at = 0
    found = []
    while True:
        target = bytearray(8 * MiB)
        left = len(body) - at
        window = (body, at, len(body), left)
        consumed, produced, outcome = transcoder.transcode(*window, target, 0, len(target))
        at += consumed
        if outcome not in (Outcome.GAP, Outcome.END):
            return None
        if produced:
            _, _, last_offset, timestamp = transcoder.wrapper
            appended = transcoder.append_time
            attributes = job.codec
            if job.to_magic == V1 and appended is not None:
                attributes, timestamp = attributes | LOG_APPEND_TIME, appended
            time = timestamp if job.to_magic == V1 else None
            inner = bytes(target[:produced])
            found.append(Opened(last_offset, job.to_magic, attributes, time, inner))
            transcoder.start_wrapper()
        if outcome == Outcome.END:
            return found if magic < V2 or at == len(body) else None


def decompressed(attributes: int, data: bytes, magic: int) -> bytes:
    body = decompress(Codec(attributes & CODEC_MASK), data, limit=8 * MiB, magic=magic)
    assert body is not None
    return bytes(body)


def last_entry(body: bytes) -> int:
    at = 0
    while (behind := at + PREFIX.size + PREFIX.unpack_from(body, at)[1]) < len(body):
        at = behind
    return at


def offsets(inner: bytes) -> list[int]:
    """The offset fields of messages one after the other."""
    found = []
    while inner:
        offset, size = PREFIX.unpack_from(inner)
        found.append(offset)
        inner = inner[PREFIX.size + size :]
    return found
