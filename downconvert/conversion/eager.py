"""Converts without a promised size: piece by piece, or into one buffer.

Brokers before KIP-283 converted like `eager`, and could run out of memory. Benchmarks use it as
their baseline.

Not here: the conversion itself (converter.py)."""

from collections.abc import Iterable, Iterator
from typing import Self

from records.files.source import Records
from records.kernel import Buffer

from .converter import Converter
from .failed import Failed
from .lazy import DEFAULT_POLICY
from .policy import AbortedTransaction, ConversionPolicy
from .request import Request
from .stats import ConversionStats


class Conversion:
    """The converted bytes, some chunks at a time.

    At damage or a refusal it raises RecordsError, after all good records before it. Later calls
    raise it again, so damage never looks like the end."""

    __slots__ = ("_converter", "_messages", "_size")

    def __init__(self, converter: Converter, end: int) -> None:
        self._converter = converter
        self._messages: Iterator[Buffer] = converter.messages(end)
        self._size = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        try:
            messages = bytes(next(self._messages))
        except StopIteration:  # not kept: its traceback holds the frames of all callers
            self._converter.release()
            raise
        except BaseException as error:
            self._messages = Failed(error)
            self._converter.release()
            raise
        self._size += len(messages)
        return messages

    @property
    def work(self) -> int:
        """The work so far: bytes that went through memory. Bytes compressed again count several
        times."""
        return self._converter.work

    @property
    def stats(self) -> ConversionStats:
        """The statistics so far. `bytes_in` is where the next entry or record begins."""
        converter = self._converter
        return ConversionStats(
            *converter.counts, bytes_out=self._size, peak_buffer_bytes=converter.buffer_bytes
        )


def convert(
    records: Records,
    to_magic: int,
    first_offset: int = 0,
    policy: ConversionPolicy = DEFAULT_POLICY,
    *,
    aborted: Iterable[AbortedTransaction] = (),
) -> Conversion:
    """Converts records without a promised size, for a file or for callers without a socket.

    Arguments as for LazyDownConvertRecords.

    >>> from records import MemoryRecords, Record, build, read
    >>> log = build([Record(offset=7, timestamp=0, value=b"hello")], magic=2)
    >>> old = b"".join(convert(MemoryRecords(log), to_magic=0))
    >>> [(record.offset, record.value) for record in read(MemoryRecords(old))]
    [(7, b'hello')]"""
    request = Request.of(to_magic, first_offset, policy, aborted)
    return Conversion(Converter(records, request), records.size)


def eager(
    records: Records,
    to_magic: int,
    first_offset: int = 0,
    policy: ConversionPolicy = DEFAULT_POLICY,
    *,
    aborted: Iterable[AbortedTransaction] = (),
) -> bytes:
    """Converts everything at once. Raises RecordsError if anything is damaged or refused.

    Kafka's policy, and any other that estimates, returns records unchanged if none had to be or
    could be converted, including an incomplete last entry (FileRecords.downConvert)."""
    conversion = convert(records, to_magic, first_offset, policy, aborted=aborted)
    converted = b"".join(conversion)
    if policy.size == "estimate" and conversion.stats.records_converted == 0:
        unchanged = bytearray(records.size)
        del unchanged[records.read_into(memoryview(unchanged), 0) :]
        return bytes(unchanged)
    return converted
