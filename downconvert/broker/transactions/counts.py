"""The counts of transactions, for the broker's operator.

Not here: how it is served (broker/operating/metrics.py)."""

from collections.abc import Callable
from enum import StrEnum

from prometheus_client import Gauge

from downconvert.broker.operating.metrics import PREFIX, Metrics


class Outcome(StrEnum):
    """How a transaction ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"  # by its producer
    TIMED_OUT = "timed_out"
    FENCED = "fenced"  # by a new producer of the transactional id


class Counts:
    """The counts in the metrics of one broker. Thread-safe."""

    def __init__(self, metrics: Metrics) -> None:
        self._begun = metrics.counter("transactions_begun", "Transactions that were begun.")
        self._ended = metrics.counter(
            "transactions_ended", "Transactions that were decided, and how.", "outcome"
        )
        self._fenced = metrics.counter(
            "fenced_producer_requests", "Requests and batches of producers with an old epoch."
        )
        self._open = Gauge(
            f"{PREFIX}_open_transactions",
            "Transactions whose markers are not all written.",
            registry=metrics.registry,
        )

    def watch(self, count: Callable[[], int]) -> None:
        """Sets the function that counts open transactions at each scrape."""
        self._open.set_function(count)

    def begun(self) -> None:
        self._begun.inc()

    def ended(self, outcome: Outcome) -> None:
        self._ended.labels(outcome.value).inc()

    def fenced(self) -> None:
        """Counts a request or a batch with an old epoch."""
        self._fenced.inc()
