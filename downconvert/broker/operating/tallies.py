"""Cheap counters: each thread has its own, and a scrape adds them up.

A counter of the Prometheus client needs a lock and four calls for each event. Here it is one call.

Not here: requests (request_counts.py), which events are counted (metrics.py)."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from threading import get_ident
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

Labels: TypeAlias = tuple[Any, ...]  # the values of a series' labels


class Tally(Collector):
    """A counter by labels. Thread-safe."""

    def __init__(self, name: str, what: str, labels: tuple[str, ...], into: CollectorRegistry):
        self._family = name, what, None, labels
        # By thread: counts by labels. A thread that counts many events at once may add to its own
        # counts. If the system reuses the ident of an ended thread, the new thread continues the
        # old counts.
        self.by_thread: defaultdict[int, dict[Labels, float]] = defaultdict(dict)
        into.register(self)

    def add(self, labels: Labels, amount: float = 1.0) -> None:
        """Adds an amount. The caller must bound the number of different labels."""
        counts = self.by_thread[get_ident()]
        counts[labels] = counts.get(labels, 0.0) + amount

    def describe(self) -> Iterator[CounterMetricFamily]:
        """The name, for pages with only some metrics."""
        return self.collect()

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The sums over all threads."""
        family = CounterMetricFamily(*self._family)
        sums: dict[Labels, float] = {}
        for counts in self.by_thread.copy().values():
            for labels, count in counts.copy().items():
                sums[labels] = sums.get(labels, 0.0) + count
        for labels, count in sums.items():
            family.add_metric([str(label) for label in labels], count)
        yield family


class Distribution(Collector):
    """A histogram by one label. `buckets`: the highest value of each bucket except the last, which
    has no limit. Thread-safe."""

    def __init__(
        self,
        name: str,
        what: str,
        label: str,
        buckets: tuple[float, ...],
        into: CollectorRegistry,
    ) -> None:
        self._name, self._what, self._label = name, what, label
        self._limits = buckets
        self._counts: defaultdict[int, dict[str, list[float]]] = defaultdict(dict)  # as in Tally
        into.register(self)

    def add(self, label: str, value: float) -> None:
        """Counts a value. The caller must bound the number of different labels."""
        by_label = self._counts[get_ident()]
        counts = by_label.get(label)
        if counts is None:  # one count for each bucket, and then the sum of the values
            counts = by_label[label] = [0.0] * (len(self._limits) + 2)
        counts[bisect_left(self._limits, value)] += 1.0
        counts[-1] += value

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """The name, as for a tally."""
        return self.collect()

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The sums over all threads."""
        sums: dict[str, list[float]] = {}
        for by_label in self._counts.copy().values():
            for label, counts in by_label.copy().items():
                before = sums.get(label, [0.0] * len(counts))
                sums[label] = [a + b for a, b in zip(before, counts, strict=True)]
        yield histogram(self._name, self._what, self._label, self._limits, sums)


def histogram(
    name: str, what: str, label: str, limits: tuple[float, ...], sums: dict[str, list[float]]
) -> HistogramMetricFamily:
    """A histogram by one label. `sums`: the count of each bucket, the count above them, and the sum
    of the values."""
    family = HistogramMetricFamily(name, what, labels=(label,))
    names = [*map(repr, limits), "+Inf"]
    for value, (*counts, total) in sums.items():
        family.add_metric([value], list(zip(names, accumulate(counts), strict=True)), total)
    return family
