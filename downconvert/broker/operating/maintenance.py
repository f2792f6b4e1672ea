"""Retention, rolling and the cleaner, for the logs of a writable broker.

One thread, at a bounded rate: Kafka's `log.retention.check.interval.ms`, `log.cleaner.backoff.ms`
and `log.cleaner.io.max.bytes.per.second`. Each change to a partition is one line in the server's
log.

The settings of each topic apply. A directory from another broker does not contain its topics'
settings, and data is never removed by guess. So logs of topics that were neither created nor
configured here stay as they are. Internal topics are always compacted.

Not here: choosing and doing the work (storage/cleaning/maintenance.py)."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from threading import Event, Thread
from typing import TYPE_CHECKING, Final
from uuid import UUID

from prometheus_client import Gauge

from downconvert.broker.partition import Partition
from downconvert.broker.topics import INTERNAL_TOPICS, Topic
from downconvert.storage import DiskFullError, LogConfig, TopicPartition
from downconvert.storage.cleaning import maintenance as storage
from downconvert.storage.config import COMPACT
from records import RecordsError
from records.logged import log_of
from records.units import KiB, MiB

from .metrics import PREFIX

if TYPE_CHECKING:
    from downconvert.broker.broker import Broker

LOG: Final = log_of(__name__)  # its lines are shown by default
STEP: Final = 256 * KiB  # bytes that a step reads: about 30 ms of work
SLEEP_MIN: Final = 0.001  # seconds, so that threads with waiting clients come first
AFTER_DEFECT: Final = 1.0  # seconds

COMPACTED: Final = set(INTERNAL_TOPICS)
METADATA: Final = "__cluster_metadata"  # a controller's log, which the controller itself truncates
INTERNAL: Final = {"cleanup.policy": "compact", "segment.bytes": str(100 * MiB)}
OURS: Final = 5  # the UUID version of topic ids created here; Kafka's brokers use 4
CLEANS_UP: Final = {"cleanup.policy", "retention.ms", "retention.bytes"}


def log_config(topic: Topic, defaults: LogConfig) -> LogConfig:
    """The log settings of a topic. Settings that it does not have are taken from `defaults`."""
    internal = INTERNAL if topic.name in COMPACTED else {}
    return LogConfig.of({**internal, **topic.config}, defaults)


def is_known(topic: Topic) -> bool:
    """Whether the topic's settings are known, so that data may be removed."""
    if topic.name == METADATA:
        return False
    is_ours = topic.has_id and UUID(bytes=topic.id).version == OURS
    return is_ours or topic.name in COMPACTED or bool(CLEANS_UP & topic.config.keys())


class Maintenance:
    """The maintenance of all logs, in turns. One thread calls it; `now`: wall clock seconds."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._config = broker.config
        self._logs: dict[TopicPartition, tuple[Partition, storage.Maintenance]] = {}
        self._turns: deque[TopicPartition] = deque()
        self._unclean: dict[TopicPartition, str] = {}  # why the cleaner skips a log
        self._unknown: set[str] = set()  # topics with unknown settings, already logged
        self._next_round = self._next_expiry = 0.0
        metrics = broker.metrics
        self._rolled = metrics.counter("rolled_segments", "Segments rolled by their age.")
        self._removed = metrics.counter("removed_segments", "Segments removed by retention.")
        self._removed_bytes = metrics.counter("removed_bytes", "Bytes removed by retention.")
        self._cleaned_bytes = metrics.counter("cleaner_read_bytes", "Bytes that compaction read.")
        self._recopied_bytes = metrics.counter(
            "cleaner_written_bytes", "Bytes that compaction wrote."
        )
        unclean = Gauge(
            f"{PREFIX}_uncleanable_partitions",
            "Logs that the cleaner cannot read, and leaves alone.",
            registry=metrics.registry,
        )
        unclean.set_function(lambda: len(self._unclean))
        counted = (self._rolled, self._removed, self._removed_bytes)
        self._metrics = (*counted, self._cleaned_bytes, self._recopied_bytes, unclean)

    def step(self, now: float) -> float:
        """Does one step of one log. Returns the seconds until the next step, by the rate and the
        interval."""
        if self._turns:
            name = self._turns.popleft()
            has_more, size = self._step_of(name, now)
            if has_more:  # one log at a time, because the cleaner holds its keys in memory
                self._turns.appendleft(name)
            return max(SLEEP_MIN, size / self._config.log_cleaner_io_max_bytes_per_second)
        if now < self._next_round <= now + self._interval:  # else the clock was set back
            return self._next_round - now
        self._begin_round(now)
        self._next_round = now + self._interval
        return SLEEP_MIN

    def close(self) -> None:
        """Abandons the work under way."""
        for _, work in self._logs.values():
            work.close()
        for metric in self._metrics:  # another process may take over these logs
            self._broker.metrics.registry.unregister(metric)

    # --- details

    @property
    def _interval(self) -> float:
        return self._config.log_retention_check_interval_ms / 1000

    def _begin_round(self, now: float) -> None:
        expiry_interval = self._config.producer_id_expiration_check_interval_ms / 1000
        expires = not now < self._next_expiry <= now + expiry_interval
        if expires:
            self._next_expiry = now + expiry_interval
        found = {}
        for partition in self._broker.topics.partitions():
            log, name = partition.log, partition.name
            if not log.is_writable or log.offline_reason is not None:
                continue
            if expires:
                self._expire_producers(partition, now)
            known = self._logs.get(name)
            if known is None or known[0] is not partition:
                known = (partition, self._work_on(partition))
            found[name] = known
        for name, (partition, work) in self._logs.items():
            if name not in found or found[name][0] is not partition:
                work.close()
                self._unclean.pop(name, None)
        self._logs = found
        self._turns = deque(found)

    def _work_on(self, partition: Partition) -> storage.Maintenance:
        return storage.Maintenance(
            partition.log,
            buffer_size=self._config.log_cleaner_dedupe_buffer_size,
            lock=partition.lock,
            bound=lambda: partition.high_watermark,
        )

    def _expire_producers(self, partition: Partition, now: float) -> None:
        expiration, writer = self._config.producer_id_expiration_ms, partition.log.writer
        try:
            with partition.lock:
                if writer.is_closed:  # deleted in the meantime
                    return
                count = writer.expire_producers(int(now * 1000), expiration)
        except (OSError, RecordsError) as error:
            LOG.warning("%s: its producers cannot be read: %s", partition.name, error)
            return
        if count:
            LOG.info("%s: %d producers have expired", partition.name, count)

    def _step_of(self, name: TopicPartition, now: float) -> tuple[bool, int]:
        """Does a step. Returns whether the log needs more steps, and about how many bytes were
        read."""
        partition, work = self._logs[name]
        topic = self._broker.topics.get(name.topic)
        if topic is None or topic.partitions.get(name.partition) is not partition:
            work.close()  # it was deleted
            return False, 0
        if not is_known(topic):
            self._log_unknown(topic)
            return False, 0
        config = log_config(topic, self._broker.topics.log_dir.logs.config)
        if name in self._unclean:
            config = replace(config, cleanup_policy=config.cleanup_policy - {COMPACT})
        size = STEP if work.is_cleaning else 0
        try:
            step = work.step(config, int(now * 1000), STEP)
        except DiskFullError as error:
            LOG.info("%s waits for room on the disk: %s", name, error)
            return False, size
        except (OSError, RecordsError) as error:
            self._failed(partition, error)
            return False, size
        if step.done is not None:
            LOG.info("%s", step.done, extra={"fields": step.done.fields})
            self._count(step.done)
        return step.has_more, size

    def _count(self, done: storage.Done) -> None:
        match done.kind:
            case storage.Kind.ROLLED:
                self._rolled.inc()
            case storage.Kind.REMOVED:
                self._removed.inc(done.segments)
                self._removed_bytes.inc(done.size)
            case storage.Kind.CLEANED:
                self._cleaned_bytes.inc(done.count.bytes_in)
                self._recopied_bytes.inc(done.count.bytes_out)

    def _failed(self, partition: Partition, error: Exception) -> None:
        """As in Kafka, the cleaner skips a log that it cannot read until the broker restarts. Other
        logs are still cleaned."""
        if partition.log.offline_reason is None:  # else it was already logged
            if partition.name not in self._unclean:
                LOG.error("%s is not cleaned any more: %s", partition.name, error)
            self._unclean[partition.name] = str(error)

    def _log_unknown(self, topic: Topic) -> None:
        if topic.name not in self._unknown and topic.name != METADATA:
            self._unknown.add(topic.name)
            LOG.warning(
                "%s was not created here, and its settings are unknown: nothing is removed; "
                "set its cleanup.policy, retention.ms or retention.bytes",
                topic.name,
            )


class MaintenanceThread:
    """Runs the steps, from `start` to `stop`."""

    def __init__(self, broker: "Broker", clock: Callable[[], float] = time.time) -> None:
        self._broker = broker
        self._clock = clock
        self._delay = broker.config.log_initial_task_delay_ms / 1000
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="maintenance", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when no step is running. A pass of the cleaner is abandoned."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        delay, work = self._delay, Maintenance(self._broker)
        while not self._stopping.wait(delay):
            try:
                delay = work.step(self._clock())
            except Exception:
                LOG.exception("a defect in the maintenance of logs")
                delay = AFTER_DEFECT
        work.close()
