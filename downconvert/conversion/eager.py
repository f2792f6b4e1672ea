"""The same conversion without a promise: piece by piece, or into one buffer.

`eager` is what brokers did before KIP-283, and what ran them out of memory: the baseline to
measure against.

Not here: the conversion itself (converter.py)."""

from typing import Self

from records.source import Records

from .converter import Converter
from .lazy import DEFAULT_POLICY
from .policy import ConversionPolicy
from .stats import ConversionStats


class Conversion:
    """The converted bytes, a chunk at a time.

    Raises RecordsError at damage or a refusal, after everything good before it."""

    __slots__ = ("_converter", "_pieces", "_size")

    def __init__(self, converter: Converter) -> None:
        self._converter = converter
        self._pieces = converter.walk(converter.records.size)
        self._size = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        while (size := next(self._pieces)) == 0:
            pass
        self._size += size
        return bytes(self._converter.ready[:size])

    @property
    def stats(self) -> ConversionStats:
        """What has been done so far. `bytes_in` is where the next entry or record begins."""
        return self._converter.stats(bytes_out=self._size)


def convert(
    records: Records,
    to_magic: int,
    first_offset: int = 0,
    policy: ConversionPolicy = DEFAULT_POLICY,
) -> Conversion:
    """Converts records without a promise, for a file or for whoever has no socket."""
    return Conversion(Converter(records, to_magic, first_offset, policy))


def eager(
    records: Records,
    to_magic: int,
    first_offset: int = 0,
    policy: ConversionPolicy = DEFAULT_POLICY,
) -> bytes:
    """All of it at once. Raises RecordsError where anything is damaged or refused.

    Under a policy that estimates, as Kafka's does, records of which none had to be or could be
    converted come back as they are, a torn tail included (FileRecords.downConvert)."""
    converter = Converter(records, to_magic, first_offset, policy)
    converted = bytearray()
    for size in converter.walk(records.size):
        converted += converter.ready[:size]
    if policy.size == "estimate" and converter.stats().records_converted == 0:
        converted = bytearray(records.size)
        del converted[records.read_into(memoryview(converted), 0) :]
    return bytes(converted)
