"""Recompresses v2 batches for clients that read v2 but not every codec in it.

zstd was added to v2 later, with Fetch v10 (KIP-110). Clients of Fetch v4 to v9 read v2 batches, but
not with zstd. For these clients, a zstd batch gets another codec. Its offsets, records and other
header fields stay the same. It is decompressed and recompressed twice, a window at a time: first to
measure it, then while it is sent. Nothing is held in between. A step takes milliseconds.

Not here: other formats (converter.py), which clients need it (broker)."""

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Any, Final, Self

from records.batch import BatchHeader
from records.batches.compressed import CompressedBytes
from records.checksum import verifying
from records.codecs import CompressionLevel, open_encoder
from records.crc32c import crc32c
from records.errors import (
    ClosedRecordsError,
    CorruptRecordsError,
    RecordsError,
    UnsupportedCodecError,
)
from records.files.sends import NOTHING, PendingBytes, write_all
from records.files.source import Records
from records.files.window import Stretch
from records.formats import (
    ATTRIBUTES_AT_BATCH,
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CRC_AT_BATCH,
    PREFIX,
    V2,
    Codec,
)
from records.kernel import Buffer
from records.steps import Steps, at_once
from records.units import KiB

from .engine import COMPRESSED_WEIGHT
from .failed import Failed
from .policy import REFUSE
from .send import CHANGED

WINDOW_SIZE: Final = 64 * KiB  # bytes of compressed input, and of decompressed data
BATCH_SIZE_MAX: Final = 32 << 20  # bytes of a batch that is held while it is sent
# A range ends after the batch that brings its decompressed bytes above this limit. A megabyte of
# zstd may expand to tens of gigabytes.
DECOMPRESSED_SIZE_MAX: Final = 64 << 20
READ_COST: Final = 4 * KiB  # a read takes as long as copying this many bytes
# Windows recompressed in one turn, unless a batch is complete before. This takes some milliseconds.
# Then other connections have their turns.
STEPS_A_WRITE: Final = 8
CRC: Final = Struct(">I")
ATTRIBUTES: Final = Struct(">h")
assert BATCH_HEADER_SIZE < WINDOW_SIZE


class LazyRecodedRecords:
    """A range of records in which v2 batches of some codecs get another codec.

    recode: codec to codec by their names, as in ConversionPolicy. "none" leaves them uncompressed,
    "refuse" ends the range before them. Other codecs and older formats stay as they are. Raises
    RecordsError if the first batch is damaged or refused. Raises UnsupportedCodecError also if the
    first batch exceeds the limit for one batch (32 MiB) in its new codec.

    `is_cut`: the range ended after 64 MiB of decompressed records, and more batches follow. The
    next range then begins at `source_size`."""

    def __init__(
        self,
        records: Records,
        recode: Mapping[str, str],
        compression_level: CompressionLevel = "fast",
    ) -> None:
        self._begin(records, recode, compression_level)
        at_once(self._measure())

    @classmethod
    def in_steps(
        cls,
        records: Records,
        recode: Mapping[str, str],
        compression_level: CompressionLevel = "fast",
    ) -> Steps[Self]:
        """A generator that returns a range, and raises the same errors as the constructor. It is
        for callers that also serve other connections. After each step it yields the step's work, as
        `LazyDownConvertRecords.in_steps` does. A step takes milliseconds at most, however large a
        batch is."""
        lazy = cls.__new__(cls)
        lazy._begin(records, recode, compression_level)
        yield from lazy._measure()
        return lazy

    def _begin(
        self, records: Records, recode: Mapping[str, str], compression_level: CompressionLevel
    ) -> None:
        self._records = records
        self._recode = {Codec[a.upper()]: b for a, b in recode.items() if ":" not in a}
        self._level: CompressionLevel = compression_level
        self.damage: RecordsError | None = None
        self.is_cut = False
        self._decompressed = 0  # bytes
        # Unchanged runs, and recoded batches: position, size, size as sent (None if unchanged).
        self._runs: list[tuple[int, int, int | None]] = []
        self.size = 0

    def _measure(self) -> Steps[None]:
        try:
            for header in self._records.batches():
                if self._decompressed > DECOMPRESSED_SIZE_MAX:
                    self.is_cut = True
                    return
                yield READ_COST
                self._add(header, (yield from self._measured(header)))
        except ClosedRecordsError:
            raise
        except RecordsError as error:
            if not self._runs:
                raise
            self.damage = error.with_traceback(None)

    @property
    def has_recoded(self) -> bool:
        """Whether any batch gets another codec."""
        return any(size is not None for _, _, size in self._runs)

    @property
    def source_size(self) -> int:
        """Bytes of the sent records as they are in the log."""
        if not self._runs:
            return 0
        position, size, _ = self._runs[-1]
        return position + size

    def to_send(self) -> "LazyRecodedSend":
        """A send of the whole range."""
        return LazyRecodedSend(self._pieces(), self.size)

    def _add(self, header: BatchHeader, size: int | None) -> None:
        self.size += header.size if size is None else size
        if size is None and self._runs and self._runs[-1][2] is None:
            position, before, _ = self._runs[-1]
            self._runs[-1] = position, before + header.size, None
        else:
            self._runs.append((header.position, header.size, size))

    def _measured(self, header: BatchHeader) -> Steps[int | None]:
        """The size of a batch in its new codec. None if it keeps its codec."""
        target_codec = self._target_codec(header)
        if target_codec is None:
            return None
        yield from verifying(self._records, header)
        size = BATCH_HEADER_SIZE
        for piece in _recoded(self._records, header, target_codec, self._level):
            yield WINDOW_SIZE * COMPRESSED_WEIGHT
            self._decompressed += WINDOW_SIZE
            size += len(piece)
            if size > BATCH_SIZE_MAX:
                raise UnsupportedCodecError(header.codec.name.lower(), self._at(header))
        return size

    def _target_codec(self, header: BatchHeader) -> Codec | None:
        target_codec = self._recode.get(header.codec) if header.magic == V2 else None
        if target_codec is None:
            return None
        if target_codec == REFUSE:
            raise UnsupportedCodecError(header.codec.name.lower(), self._at(header))
        return Codec[target_codec.upper()]

    def _at(self, header: BatchHeader) -> int:
        return self._records.origin + header.position

    def _pieces(self) -> Iterator[memoryview]:
        """All bytes, in pieces. A piece is valid until the next one is requested. An empty piece
        ends a step."""
        window = memoryview(bytearray(WINDOW_SIZE))
        for position, size, recoded in self._runs:
            part = self._records.slice(position, size)
            if recoded is None:
                stretch = Stretch(part, 0, size)
                while read := stretch.read_into(window):
                    yield window[:read]
            else:
                batch = bytearray(BATCH_HEADER_SIZE)
                for _ in self._fill(batch, part, recoded):
                    yield NOTHING
                if len(batch) != recoded:
                    raise CorruptRecordsError(CHANGED, part.origin)
                yield memoryview(batch)

    def _fill(self, batch: bytearray, part: Records, size: int) -> Iterator[None]:
        """Recompresses a batch, in steps. Stops early if the result exceeds the measured size:
        then the records have changed."""
        header = next(part.batches(), None)
        target_codec = None if header is None else self._target_codec(header)
        if header is None or target_codec is None:
            batch.clear()
            return
        for _ in verifying(part, header):
            yield
        part.read_into(memoryview(batch), 0)
        for piece in _recoded(part, header, target_codec, self._level):
            batch += piece
            if len(batch) > size:
                return
            yield
        PREFIX.pack_into(batch, 0, header.base_offset, len(batch) - PREFIX.size)
        attributes = header.attributes & ~CODEC_MASK | target_codec
        ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT_BATCH, attributes)
        CRC.pack_into(batch, CRC_AT_BATCH, crc32c(memoryview(batch)[ATTRIBUTES_AT_BATCH:]))


class LazyRecodedSend:
    """The bytes of one `LazyRecodedRecords`, once. Not for two threads at a time."""

    __slots__ = ("_pending", "_pieces", "_sent", "size")

    def __init__(self, pieces: Iterator[memoryview], size: int) -> None:
        self.size = size
        self._pieces: Iterator[memoryview] = pieces
        self._pending = PendingBytes()
        self._sent = 0

    @property
    def remaining(self) -> int:
        """Bytes that are promised and not yet written."""
        return self.size - self._sent

    @property
    def completed(self) -> bool:
        return self._sent == self.size

    def write_to(self, channel: Any, budget: int | None = None) -> int:
        """Makes at most one write, or several with a budget, and returns the bytes written. 0 means
        "not now": the channel takes nothing, or a large batch is not made yet.

        Raises RecordsError if the records changed after they were measured, OSError if they cannot
        be read. Later calls raise the same error again. Errors of the channel pass through."""
        return write_all(lambda _: self._write_piece(channel), budget)

    def _write_piece(self, channel: Any) -> int:
        if self.completed:
            return 0
        if not self._pending.left:
            try:
                for _ in range(STEPS_A_WRITE):
                    self._pending.left = next(self._pieces)
                    if self._pending.left:
                        break
            except BaseException as error:
                self._pieces = Failed(error)
                raise
        written = self._pending.write_to(channel)
        self._sent += written
        if self.completed:
            self._pieces = iter(())
        return written


def _recoded(
    records: Records, header: BatchHeader, target_codec: Codec, level: CompressionLevel
) -> Iterator[Buffer]:
    """The batch's records in another codec, a window at a time. Some windows yield no bytes yet.
    Raises CorruptRecordsError if they do not decompress."""
    input_window = memoryview(bytearray(min(WINDOW_SIZE, header.size)))
    decompressed = CompressedBytes.of(records, header).open(input_window)
    encoder = open_encoder(target_codec, magic=V2, compression_level=level)
    window = memoryview(bytearray(WINDOW_SIZE))
    while read := decompressed.read_into(window):
        yield encoder.write(window[:read])
    yield encoder.finish()
