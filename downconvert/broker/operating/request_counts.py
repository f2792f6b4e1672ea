"""Counts requests: a row for each API and version.

A row is found once for each request. Its exchange keeps it to the end.

Not here: other counts (tallies.py), which events are counted (metrics.py)."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from downconvert.serving.series import BUCKETS

from .tallies import histogram

NO_VERSION: Final = -1  # for requests that were answered but not accepted


class RequestRow:
    """Requests of one API and version, counted by one thread."""

    __slots__ = ("received", "received_bytes", "seconds", "sent_bytes")

    def __init__(self) -> None:
        self.received = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        # A count for each bucket of latencies, a count above them, and the sum of seconds.
        self.seconds = [0.0] * (len(BUCKETS) + 2)

    def answered(self, seconds: float) -> None:
        """Counts the time that a response took."""
        self.seconds[bisect_left(BUCKETS, seconds)] += 1.0
        self.seconds[-1] += seconds


class RequestCounts(Collector):
    """The rows of all threads, and the series made of them. `prefix`: of their names."""

    def __init__(self, prefix: str, into: CollectorRegistry) -> None:
        self._prefix = prefix
        # By thread, as in Tally: rows by API and version. The caller must bound the number of
        # versions.
        self.by_thread: defaultdict[int, defaultdict[tuple[str, int], RequestRow]] = defaultdict(
            lambda: defaultdict(RequestRow)
        )
        into.register(self)

    def describe(self) -> Iterator[Metric]:
        """The names, for pages with only some metrics."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """The sums over all threads."""
        prefix = self._prefix
        requests = CounterMetricFamily(f"{prefix}_requests", "Requests.", labels=("api", "version"))
        received: defaultdict[str, int] = defaultdict(int)
        sent: defaultdict[str, int] = defaultdict(int)
        seconds: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * (len(BUCKETS) + 2))
        counts: defaultdict[tuple[str, int], int] = defaultdict(int)
        for rows in self.by_thread.copy().values():
            for (api, version), row in rows.copy().items():
                counts[api, version] += row.received
                received[api] += row.received_bytes
                sent[api] += row.sent_bytes
                seconds[api] = [a + b for a, b in zip(seconds[api], row.seconds, strict=True)]
        for (api, version), count in counts.items():
            if version != NO_VERSION:
                requests.add_metric([api, str(version)], count)
        yield requests
        for name, what, sizes in (
            ("request_bytes", "Bytes of requests.", received),
            ("response_bytes", "Bytes of responses that were sent.", sent),
        ):
            family = CounterMetricFamily(f"{prefix}_{name}", what, labels=("api",))
            for api, size in sizes.items():
                family.add_metric([api], size)
            yield family
        what = "From a request's arrival to the end of its response, with its waits."
        yield histogram(f"{prefix}_request_duration_seconds", what, "api", BUCKETS, seconds)
