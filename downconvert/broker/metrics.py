"""What a broker counts, for its operator.

What is converted has the names that Kafka's metrics have (FetchMessageConversionsPerSec,
MessageConversionsTimeMs, TemporaryMemoryBytes, …), as Prometheus writes them. Kafka's time and
memory of a fetch are those of the last partition that was converted in it; here they are sums.

Not here: how they are served (metrics_server.py)."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from downconvert import ConversionStats, LazyDownConvertSend

from .buffered_send import BufferedSend
from .exchange import Exchange
from .fetch_session import FetchSessions
from .purgatory import Purgatory
from .reading import ConvertedSend

MILLISECONDS: Final = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000)
BYTES: Final = tuple(float(4**power) for power in range(4, 16))  # 256 bytes to 1 GiB


class Metrics:
    """The metrics of one broker, in a registry of its own. Thread-safe."""

    def __init__(self, sessions: FetchSessions, purgatory: Purgatory) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "requests", "Requests taken.", ("request", "version"), registry=self.registry
        )
        self._bytes_in = Counter(
            "bytes_in", "Bytes of requests.", ("request",), registry=self.registry
        )
        self._bytes_out = Counter(
            "bytes_out", "Bytes of responses that were sent.", ("request",), registry=self.registry
        )
        self._defects = Counter(
            "requests_failed",
            "Requests whose connection ended because of a defect here.",
            ("request",),
            registry=self.registry,
        )
        self._fetch_conversions = Counter(
            "fetch_message_conversions",
            "Records converted for consumers of older formats.",
            ("topic",),
            registry=self.registry,
        )
        self._produce_conversions = Counter(
            "produce_message_conversions",
            "Records converted for producers of older formats.",
            ("topic",),
            registry=self.registry,
        )
        self._conversions_time = Histogram(
            "message_conversions_time_ms",
            "Milliseconds spent converting, by request.",
            ("request",),
            buckets=MILLISECONDS,
            registry=self.registry,
        )
        self._temporary_memory = Histogram(
            "temporary_memory_bytes",
            "Bytes that went through memory for conversions, by request: not held at a time.",
            ("request",),
            buckets=BYTES,
            registry=self.registry,
        )
        self._filler = Counter(
            "fetch_filler_bytes",
            "Bytes sent only because they had been promised; none with exact sizes.",
            registry=self.registry,
        )
        self._padding = Counter(
            "fetch_padding_bytes",
            "Bytes in the keys of compressed messages, which keep a predicted size exact.",
            registry=self.registry,
        )
        for name, what, read in (
            ("fetch_sessions", "Fetch sessions.", lambda: len(sessions)),
            (
                "fetch_session_partitions",
                "Partitions of all fetch sessions.",
                lambda: sessions.partitions,
            ),
            (
                "purgatory_size",
                "Requests that wait for records, replicas or time.",
                lambda: len(purgatory),
            ),
        ):
            Gauge(name, what, registry=self.registry).set_function(read)

    def received(self, exchange: Exchange) -> None:
        """A request was taken."""
        request = exchange.request
        self._requests.labels(request.api.name, str(request.version)).inc()
        self._bytes_in.labels(request.api.name).inc(request.size)

    def failed(self, exchange: Exchange) -> None:
        """There is no answer, and the log says why."""
        self._defects.labels(exchange.request.api.name).inc()

    def sent(self, exchange: Exchange) -> None:
        """A response was sent, or as much of it as will be."""
        send, name = exchange.send, exchange.request.api.name
        if send is None:
            return
        self._bytes_out.labels(name).inc(send.size - send.remaining)
        seconds = temporary = 0.0
        is_converted = False
        for part in send.records:
            if not isinstance(part, ConvertedSend):
                continue
            for stats in stats_of(part):
                if stats.records_converted:
                    is_converted = True
                    self._fetch_conversions.labels(part.topic).inc(stats.records_converted)
                seconds += stats.seconds_converting
                temporary += stats.temporary_bytes
                self._filler.inc(stats.filler_bytes)
                self._padding.inc(stats.padding_bytes)
        if is_converted:
            self._conversions_time.labels(name).observe(seconds * 1000)
            self._temporary_memory.labels(name).observe(temporary)

    def produced(self, topic: str, records: int, seconds: float, temporary_bytes: int) -> None:
        """Records of a producer were converted to the format on disk."""
        self._produce_conversions.labels(topic).inc(records)
        self._conversions_time.labels("Produce").observe(seconds * 1000)
        self._temporary_memory.labels("Produce").observe(temporary_bytes)


def stats_of(send: ConvertedSend) -> list[ConversionStats]:
    """Of each range in it."""
    kinds = (LazyDownConvertSend, BufferedSend)
    return [part.stats for part in send.parts if isinstance(part, kinds)]
