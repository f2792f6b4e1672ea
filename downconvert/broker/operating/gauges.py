"""A broker's state at the time of a scrape: logs, disk, groups, process.

Not here: counts of events (metrics.py)."""

from collections import Counter
from collections.abc import Iterator
from shutil import disk_usage

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from downconvert.broker.partition import Partition
from downconvert.broker.state import BrokerState
from downconvert.serving import process_figures
from downconvert.serving.series import TOPICS_MAX, BoundedLabels
from downconvert.storage import StorageError

from .metrics import PREFIX


class StateCollector(Collector):
    """Reads a broker's state for each scrape."""

    def __init__(self, broker: BrokerState) -> None:
        self._broker = broker
        self._topics = BoundedLabels(TOPICS_MAX)
        self._groups = BoundedLabels(TOPICS_MAX)

    def collect(self) -> Iterator[Metric]:
        yield from self._of_logs()
        yield from self._of_disk()
        yield from self._of_conversions()
        yield from self._of_members()
        yield self._lag()
        for name, what, value in (
            ("resident_memory_bytes", "Memory of the process.", process_figures.resident_bytes()),
            ("open_files", "Files and sockets of the process.", process_figures.open_files()),
            (
                "open_files_max",
                "The limit of open files and sockets.",
                process_figures.open_files_max(),
            ),
        ):
            yield gauge(name, what, value)
        yield CounterMetricFamily(
            f"{PREFIX}_cpu_seconds", "CPU time of the process.", value=process_figures.cpu_seconds()
        )

    def _of_logs(self) -> Iterator[Metric]:
        sizes, counts, offline = Counter[tuple[str, ...]](), Counter[tuple[str, ...]](), 0
        for partition in self._broker.topics.partitions():
            labels = self._topics.of(partition.name.topic)
            counts[labels] += 1
            size = _size(partition)
            offline += size is None
            sizes[labels] += size or 0
        for name, what, values in (
            ("log_bytes", "Bytes of records on disk, by topic.", sizes),
            ("partitions", "Partitions, by topic.", counts),
        ):
            family = GaugeMetricFamily(f"{PREFIX}_{name}", what, labels=("topic",))
            for labels, value in values.items():
                family.add_metric(list(labels), value)
            yield family
        yield gauge("offline_partitions", "Partitions that cannot be read or written.", offline)

    def _of_disk(self) -> Iterator[Metric]:
        log_dir = self._broker.topics.log_dir
        is_offline = log_dir.offline_reason is not None
        yield gauge("directory_offline", "1 after a failed write, until a restart.", is_offline)
        yield CounterMetricFamily(
            f"{PREFIX}_disk_full", "Writes that found no room.", value=log_dir.full_count
        )
        try:
            disk = disk_usage(log_dir.path)
        except OSError:
            return
        yield gauge("disk_free_bytes", "Free bytes of the logs' file system.", disk.free)
        yield gauge("disk_size_bytes", "Size of the logs' file system.", disk.total)

    def _of_conversions(self) -> Iterator[Metric]:
        cache = self._broker.conversion_cache
        for name, what, value in (
            ("conversion_cache_hits", "Chunks found in the cache.", cache.hits),
            ("conversion_cache_misses", "Chunks not found in the cache.", cache.misses),
            ("conversion_cache_evictions", "Chunks evicted for others.", cache.evictions),
        ):
            yield CounterMetricFamily(f"{PREFIX}_{name}", what, value=value)
        what = "Converted bytes in memory: kept for the next clients, or being sent."
        yield gauge("conversion_cache_bytes", what, cache.budget.held)
        yield gauge(
            "conversion_cache_max_bytes",
            "The limit of converted bytes in memory.",
            cache.budget.size,
        )
        what = "Ranges for several clients that are being converted, up to 64."
        yield gauge("conversions_under_way", what, cache.under_way)

    def _of_members(self) -> Iterator[Metric]:
        memory = self._broker.groups.manager.limits.memory
        what = "Memory of the members of all groups, and of names of groups."
        yield gauge("group_members_bytes", what, memory.size)
        yield gauge("group_members_max_bytes", "The limit of these.", memory.size_max)

    def _lag(self) -> Metric:
        family = GaugeMetricFamily(
            f"{PREFIX}_group_lag_records",
            "Records below the high watermark that a group has not committed, by topic.",
            labels=("group", "topic"),
        )
        lags = Counter[tuple[str, ...]]()
        ends: dict[tuple[str, int], int] = {}
        for group, topic, index, offset in self._broker.groups.positions():
            if (topic, index) not in ends:
                partition = self._broker.topics.partition(topic, index)
                ends[topic, index] = offset if partition is None else _end(partition, offset)
            lags[self._groups.of(group, topic)] += max(0, ends[topic, index] - offset)
        for labels, lag in lags.items():
            family.add_metric(list(labels), lag)
        return family


def gauge(name: str, what: str, value: float) -> Metric:
    """A gauge with one value of a broker."""
    return GaugeMetricFamily(f"{PREFIX}_{name}", what, value=value)


def _size(partition: Partition) -> int | None:
    """Bytes. None: it is offline."""
    try:
        return None if partition.log.offline_reason is not None else partition.size()
    except (OSError, StorageError):  # just deleted, or damaged
        return None


def _end(partition: Partition, otherwise: int) -> int:
    try:
        return partition.high_watermark
    except (OSError, StorageError):
        return otherwise
