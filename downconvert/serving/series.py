"""Shared parts of all metrics: the buckets of latencies, and a bounded number of labels.

A client may send a new name in every request, and Prometheus keeps a series for each name."""

from threading import Lock
from typing import Final

# Seconds. A fetch waits 0.5 by default, a member of a group for minutes.
BUCKETS: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    15.0,
    20.0,
    30.0,
)
CLIENTS_MAX: Final = 100  # pairs of a client id and an address that have series
TOPICS_MAX: Final = 1_000  # topics, or pairs of a group and a topic, that have series
NAME_MAX: Final = 128  # characters of a client's name
OTHERS: Final = "(others)"


class BoundedLabels:
    """The first label sets get series of their own, up to a limit. All others share one.
    Thread-safe."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._lock = Lock()
        self._known: set[tuple[str, ...]] = set()

    def of(self, *labels: str) -> tuple[str, ...]:
        """Returns these labels if they have a series of their own. Otherwise returns the labels of
        the series that all others share."""
        if labels in self._known:
            return labels
        with self._lock:
            if len(self._known) < self._count_max:
                self._known.add(labels)
        return labels if labels in self._known else (OTHERS,) * len(labels)
