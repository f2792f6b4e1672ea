"""What a conversion did, for its caller's metrics.

The names on the right are Kafka's (BrokerTopicMetrics, RequestMetrics)."""

from dataclasses import dataclass


@dataclass(slots=True)
class ConversionStats:
    """Grows while a send is written; sizes are bytes.

    records_converted: records in converted batches      FetchMessageConversionsPerSec
        (where an answer ends early, those of the message that did not fit are among them)
    seconds_converting: time spent converting              MessageConversionsTimeMs
    temporary_bytes: source bytes of what was kept and bytes that it became before
        compression, as Kafka adds them up                 TemporaryMemoryBytes
    peak_buffer_bytes: the most that the send's own buffers held at a time
    filler_bytes: of bytes_out, those that keep the promise of an estimate"""

    records_converted: int = 0
    batches_converted: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    filler_bytes: int = 0
    temporary_bytes: int = 0
    peak_buffer_bytes: int = 0
    seconds_converting: float = 0.0
