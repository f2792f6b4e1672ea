"""Is the output right that a benchmark times?

A whole segment is converted with exact sizes. The records of the output are counted, and its CRC is
computed. The output of the first fetch is compared with the reference's, or read back if it is
compressed. If Kafka's classes run, their output is compared with ours, or only its size if it is
compressed."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from bench.contenders.kafka_jvm import KafkaJvm
from bench.contenders.ours import Ours
from bench.contenders.twin import reference_round
from downconvert import ConversionPolicy, eager
from records import Codec, FileRecords, MemoryRecords, Records
from records.backend import NAME
from records.batches.reader import read

from .results import Checked
from .rounds import Fetch, records_in
from .segments import Shape

Content: TypeAlias = tuple[int, int, bytes | None, bytes | None]


class WrongOutputError(Exception):
    """The code to be timed converts wrongly."""


def check(
    shape: Shape, to_magic: int, segment: Path, fetches: Sequence[Fetch], policy: ConversionPolicy
) -> Checked:
    """Converts under a policy of exact sizes. WrongOutputError: the result is wrong."""
    whole = Ours(to_magic, segment, fetches, policy).checked_round()
    _expect(shape, "records", whole.records, records_in(segment))
    if shape.codec is not Codec.NONE and policy.codec_for(shape.codec, to_magic) is not Codec.NONE:
        sent, kept = read_back(to_magic, segment, fetches[0], policy)
        if sent != kept:
            raise WrongOutputError(f"{shape.name}: the first fetch does not hold its records")
    elif NAME == "native":
        first = Ours(to_magic, segment, fetches[:1], policy).checked_round()
        believed = reference_round(to_magic, segment, fetches[:1], policy)
        _expect(shape, "CRC of the first fetch", first.crc, believed.crc)
    return Checked(whole.records, whole.size, whole.crc)


def read_back(
    to_magic: int, segment: Path, fetch: Fetch, policy: ConversionPolicy
) -> tuple[list[Content], list[Content]]:
    """The contents of a fetch, after the conversion and before it."""
    position, size, first_offset = fetch
    with FileRecords.open(segment) as log:
        source = log.slice(position, size)
        converted = eager(source, to_magic, first_offset, policy)
        return contents(MemoryRecords(converted)), contents(source)


def contents(records: Records) -> list[Content]:
    return [(each.offset, each.timestamp, each.key, each.value) for each in read(records)]


def kafka_size(
    shape: Shape, to_magic: int, segment: Path, fetches: Sequence[Fetch], ours: Checked
) -> int:
    """The bytes of all records as Kafka converts them. WrongOutputError: ours differ."""
    with KafkaJvm("eager", to_magic, segment, fetches) as eager:
        theirs = eager.checked_round()
    _expect(shape, "records", ours.records, theirs.records)
    if shape.codec is Codec.NONE:
        _expect(shape, "CRC of what Kafka converts eagerly", ours.crc, theirs.crc)
        with KafkaJvm("lazy", to_magic, segment, fetches) as lazy:
            sent = lazy.checked_round()
        as_kafka = Ours(to_magic, segment, fetches, ConversionPolicy.kafka()).checked_round()
        _expect(shape, "CRC of what Kafka sends", as_kafka.crc, sent.crc)
    return theirs.size


def _expect(shape: Shape, what: str, found: int, expected: int) -> None:
    if found != expected:
        raise WrongOutputError(f"{shape.name}: {what} is {found} and should be {expected}")
