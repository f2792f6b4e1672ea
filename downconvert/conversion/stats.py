"""Statistics of a conversion, for its caller's metrics.

The names on the right are Kafka's (BrokerTopicMetrics, RequestMetrics)."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import add, sub
from typing import NamedTuple, TypeAlias

Clock: TypeAlias = Callable[[], float]  # seconds


@dataclass(slots=True)
class ConversionStats:
    """Statistics, which grow while a send is written. Sizes are bytes.

    records_converted: records in converted batches      FetchMessageConversionsPerSec
        (if a response ends early, those of the message that did not fit are included)
    seconds_converting: time spent converting              MessageConversionsTimeMs
    temporary_bytes: source bytes of kept batches and their bytes before compression,
        as Kafka adds them up                              TemporaryMemoryBytes
    peak_buffer_bytes: the largest size of the send's own buffers
    filler_bytes: the part of bytes_out that fills up an estimate"""

    records_converted: int = 0
    batches_converted: int = 0
    bytes_in: int = 0
    temporary_bytes: int = 0
    bytes_out: int = 0
    filler_bytes: int = 0
    peak_buffer_bytes: int = 0
    seconds_converting: float = 0.0


class Counts(NamedTuple):
    """The first four statistics, of a whole conversion or of a part of it."""

    records: int = 0
    batches: int = 0
    bytes_in: int = 0
    temporary_bytes: int = 0

    def since(self, before: "Counts") -> "Counts":
        return Counts(*map(sub, self, before))

    def plus(self, other: "Counts") -> "Counts":
        return Counts(*map(add, self, other))
