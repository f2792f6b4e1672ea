"""Is what is timed the right conversion?

A whole segment converted exactly, counted and summed up; its first fetch against what the
reference makes of it; and where Kafka's classes run, all that they send against what we send, or,
compressed, its size.

Not here: the timing (conversion.py)."""

from collections.abc import Sequence
from pathlib import Path

from records.backend import NAME

from bench.kafka_jvm import KafkaJvm
from bench.ours import Ours
from bench.results import Checked
from bench.rounds import Fetch, records_in
from bench.segments import Shape
from bench.twin import reference_round
from downconvert import ConversionPolicy
from records import Codec


class WrongOutputError(Exception):
    """What was about to be timed converts wrongly."""


def check(
    shape: Shape, to_magic: int, segment: Path, fetches: Sequence[Fetch], policy: ConversionPolicy
) -> Checked:
    """Converts under a policy of exact sizes. WrongOutputError: it does so wrongly."""
    whole = Ours(to_magic, segment, fetches, policy).checked_round()
    _expect(shape, "records", whole.records, records_in(segment))
    if NAME == "native":
        first = Ours(to_magic, segment, fetches[:1], policy).checked_round()
        believed = reference_round(to_magic, segment, fetches[:1], policy)
        _expect(shape, "CRC of the first fetch", first.crc, believed.crc)
    return Checked(whole.records, whole.size, whole.crc)


def kafka_size(
    shape: Shape, to_magic: int, segment: Path, fetches: Sequence[Fetch], ours: Checked
) -> int:
    """The bytes of all records as Kafka converts them. WrongOutputError: ours are not those."""
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
