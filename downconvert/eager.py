"""The same conversion without a promise: piece by piece, or into one buffer.

`eager` is what brokers did before KIP-283, and what ran them out of memory: the baseline to
measure against.

Not here: the conversion itself (converter.py)."""

from collections.abc import Iterator

from records.source import Records

from .converter import Converter
from .lazy import DEFAULT_POLICY
from .policy import ConversionPolicy


def convert(
    records: Records,
    to_magic: int,
    first_offset: int = 0,
    policy: ConversionPolicy = DEFAULT_POLICY,
) -> Iterator[bytes]:
    """The converted bytes, a chunk at a time.

    Raises RecordsError at damage or a refusal, after everything good before it."""
    converter = Converter(records, to_magic, first_offset, policy)
    for size in converter.walk(records.size):
        if size:
            yield bytes(converter.ready[:size])


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
    if policy.size == "estimate" and converter.records_converted == 0:
        converted = bytearray(records.size)
        del converted[records.read_into(memoryview(converted), 0) :]
    return bytes(converted)
