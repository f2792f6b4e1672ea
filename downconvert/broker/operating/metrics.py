"""The metrics that a broker counts, for its operator.

Names follow Prometheus: a prefix, base units, `_total`. Conversions are counted as in Kafka's
metrics (FetchMessageConversionsPerSec, MessageConversionsTimeMs, TemporaryMemoryBytes, …). Kafka's
time and memory of a fetch are those of its last converted partition. Here they are sums.

Not here: state read at a scrape (gauges.py), the HTTP server (metrics_server.py)."""

from collections.abc import Sequence
from threading import get_ident
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from downconvert import ConversionStats, LazyDownConvertSend
from downconvert.broker.endings import End
from downconvert.broker.exchange import Client, Exchange
from downconvert.broker.fetch.fetch_session import FetchSessions
from downconvert.broker.purgatory import Purgatory
from downconvert.protocol.errors import name_of
from downconvert.protocol.joined_send import JoinedSend
from downconvert.serving.buffered_send import BufferedSend
from downconvert.serving.series import (
    CLIENTS_MAX,
    NAME_MAX,
    TOPICS_MAX,
    BoundedLabels,
)
from records.files.sends import Send

from .request_counts import NO_VERSION, RequestCounts
from .tallies import Distribution, Labels, Tally

PREFIX: Final = "downconvert_broker"
CONVERSION_SECONDS: Final = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
BYTES: Final = tuple(float(4**power) for power in range(4, 16))  # 256 bytes to 1 GiB


class Metrics:
    """The metrics of one broker, in a registry of its own. Thread-safe."""

    def __init__(self, sessions: FetchSessions, purgatory: Purgatory) -> None:
        self.registry = CollectorRegistry()
        self._clients = BoundedLabels(CLIENTS_MAX)
        self._topics = BoundedLabels(TOPICS_MAX)
        self._requests = RequestCounts(PREFIX, self.registry)
        self._errors = self.counter("errors", "Errors in responses.", "api", "code")
        self._defects = self.counter(
            "failed_requests", "Requests whose connection ended because of a defect here.", "api"
        )
        self._ends = self.counter(
            "connections_ended", "Connections that ended, by reason.", "reason"
        )
        self._client_requests = self._tally(
            "client_requests", "Requests, by client.", "client_id", "address"
        )
        self._client_records = self._tally(
            "client_converted_records",
            "Records converted for consumers of older formats, by client.",
            "client_id",
            "address",
        )
        self._converted = self._tally(
            "converted_records",
            "Records converted for consumers (Fetch), or from producers (Produce), of older "
            "formats.",
            "api",
            "topic",
        )
        self._filler = self.counter(
            "filler_bytes", "Bytes of filler in responses; none with exact sizes."
        )
        self._throttled = self.counter(
            "throttled_seconds",
            "Time in which clients were not read from because of their rates.",
            "api",
        )
        self._conversions_time = self._distribution(
            "conversion_duration_seconds", "Time to convert, by request.", CONVERSION_SECONDS
        )
        self._temporary_memory = self._distribution(
            "conversion_memory_bytes",
            "Bytes that conversion wrote to memory, by request; not all at once.",
            BYTES,
        )
        for name, what, read in (
            ("fetch_sessions", "Fetch sessions.", lambda: len(sessions)),
            (
                "fetch_session_partitions",
                "Partitions of all fetch sessions.",
                lambda: sessions.partitions,
            ),
            (
                "waiting_requests",
                "Requests that wait for records, replicas or time.",
                lambda: len(purgatory),
            ),
        ):
            gauge = Gauge(f"{PREFIX}_{name}", what, registry=self.registry)
            gauge.set_function(read)

    def counter(self, name: str, what: str, *labels: str) -> Counter:
        """A counter of this broker. The client library appends `_total` to its name."""
        return Counter(f"{PREFIX}_{name}", what, labels, registry=self.registry)

    def _tally(self, name: str, what: str, *labels: str) -> Tally:
        return Tally(f"{PREFIX}_{name}", what, labels, self.registry)

    def _distribution(self, name: str, what: str, buckets: tuple[float, ...]) -> Distribution:
        return Distribution(f"{PREFIX}_{name}", what, "api", buckets, self.registry)

    # --- requests

    def received(self, exchange: Exchange) -> None:
        """A request was accepted."""
        request, client = exchange.request, exchange.client
        thread = get_ident()
        row = exchange.row = self._requests.by_thread[thread][request.name, request.version]
        row.received += 1
        row.received_bytes += request.size
        counts = self._client_requests.by_thread[thread]
        labels = client.labels or self._labels_of(client)
        counts[labels] = counts.get(labels, 0.0) + 1.0

    def finished(self, exchange: Exchange, now: float | None) -> None:
        """A request was answered, even if the response could not be sent. `now` in seconds, by the
        clock of its arrival; None if its client has gone."""
        name, send, row = exchange.request.name, exchange.send, exchange.row
        if now is None and send is None:
            return
        if row is None:
            row = self._requests.by_thread[get_ident()][name, NO_VERSION]
        if now is not None:
            row.answered(now - exchange.received)
            if exchange.throttle:
                self._throttled.labels(name).inc(exchange.throttle)
        if send is None:
            return
        row.sent_bytes += send.sent
        if exchange.errors:
            for code, count in exchange.errors.items():
                self._errors.labels(name, name_of(code)).inc(count)
        if exchange.converted:
            self._sent_converted(exchange.client, name, exchange.converted)

    def failed(self, exchange: Exchange) -> None:
        """There is no response, and the log gives the reason."""
        self._defects.labels(exchange.request.api.name).inc()

    def ended(self, end: End) -> None:
        """A connection has ended."""
        self._ends.labels(end.value).inc()

    def _sent_converted(
        self, client: Client, api: str, records: Sequence[tuple[str, Send]]
    ) -> None:
        """Converted records were sent, perhaps only a part of them."""
        seconds = temporary = 0.0
        converted = 0
        for topic, send in records:
            for stats in stats_of(send):
                if stats.records_converted:
                    converted += stats.records_converted
                    labels = ("Fetch", *self._topics.of(topic))
                    self._converted.add(labels, stats.records_converted)
                seconds += stats.seconds_converting
                temporary += stats.temporary_bytes
                if stats.filler_bytes:
                    self._filler.inc(stats.filler_bytes)
        if converted:
            self._client_records.add(client.labels or self._labels_of(client), converted)
            self._conversions_time.add(api, seconds)
            self._temporary_memory.add(api, temporary)

    def produced(self, topic: str, records: int, seconds: float, temporary_bytes: int) -> None:
        """A producer's records were converted to the format on disk."""
        self._converted.add(("Produce", *self._topics.of(topic)), records)
        self._conversions_time.add("Produce", seconds)
        self._temporary_memory.add("Produce", temporary_bytes)

    def _labels_of(self, client: Client) -> Labels:
        """The labels of a client's series. They change only if it uses another client id."""
        if client.labels is None:
            client.labels = self._clients.of(client.client_id[:NAME_MAX], client.address)
        return client.labels


def stats_of(send: Send) -> list[ConversionStats]:
    """The statistics of each range in it."""
    found = []
    for part in send.parts if isinstance(send, JoinedSend) else (send,):
        if isinstance(part, LazyDownConvertSend | BufferedSend):
            found.append(part.stats)
    return found
