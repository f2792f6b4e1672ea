"""The settings of a topic for writing and cleaning its log on disk.

Not here: the effect of the settings (log_writer.py, retention.py, cleanable.py)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from records.units import GiB, MiB

from .disk.entry_file import INDEX_SIZE_MAX

DAY: Final = 24 * 60 * 60 * 1000  # milliseconds
LONG_MAX: Final = 2**63 - 1
INDEX_SIZE_MIN: Final = 12  # bytes: one entry of a time index

DELETE: Final = "delete"
COMPACT: Final = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Defaults are Kafka's. Sizes are in bytes, times in milliseconds. -1 means no limit."""

    segment_bytes: int = GiB
    segment_ms: int = 7 * DAY
    segment_index_bytes: int = INDEX_SIZE_MAX
    index_interval_bytes: int = 4096
    max_message_bytes: int = MiB + 12
    cleanup_policy: frozenset[str] = frozenset({DELETE})
    retention_ms: int = 7 * DAY
    retention_bytes: int = -1
    delete_retention_ms: int = DAY
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    min_cleanable_dirty_ratio: float = 0.5
    # The age at which a segment is rolled. With compaction it is at most max.compaction.lag.ms,
    # because the cleaner never cleans the active segment.
    roll_ms: int = field(init=False)

    def __post_init__(self) -> None:
        if self.segment_bytes < 1 or self.segment_bytes > 2**31 - 1:
            raise ValueError("segment_bytes must be between 1 and 2**31 - 1")
        if self.segment_ms < 1:
            raise ValueError("segment_ms must be at least 1")
        if not INDEX_SIZE_MIN <= self.segment_index_bytes <= 2**31 - 1:
            raise ValueError("segment_index_bytes must be between 12 and 2**31 - 1")
        if self.index_interval_bytes < 0:
            raise ValueError("index_interval_bytes must not be negative")
        if self.max_message_bytes < 0:
            raise ValueError("max_message_bytes must not be negative")
        if self.retention_ms < -1 or self.retention_bytes < -1:
            raise ValueError("retention must not be below -1")
        if not self.cleanup_policy <= {DELETE, COMPACT}:
            raise ValueError("cleanup_policy may name delete and compact")
        if min(self.delete_retention_ms, self.min_compaction_lag_ms) < 0:
            raise ValueError("delete_retention_ms and min_compaction_lag_ms must not be negative")
        if self.max_compaction_lag_ms < 1:
            raise ValueError("max_compaction_lag_ms must be at least 1")
        if not 0 <= self.min_cleanable_dirty_ratio <= 1:
            raise ValueError("min_cleanable_dirty_ratio must be between 0 and 1")
        compaction_ms = self.max_compaction_lag_ms if self.is_compacted else LONG_MAX
        object.__setattr__(self, "roll_ms", min(self.segment_ms, compaction_ms))

    @property
    def is_compacted(self) -> bool:
        return COMPACT in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether old records are deleted. If not, `retention_ms` and `retention_bytes` do not
        apply."""
        return DELETE in self.cleanup_policy

    @classmethod
    def of(cls, settings: Mapping[str, str], defaults: "LogConfig | None" = None) -> "LogConfig":
        """The settings in a topic's configuration, by Kafka's names. Others are ignored.

        ValueError: a value is invalid for its setting."""
        given: dict[str, Any] = {}
        for name in INTEGERS & settings.keys():
            given[name.replace(".", "_")] = int(settings[name])
        if "segment_index_bytes" in given:  # Kafka rounds smaller values up to one entry
            given["segment_index_bytes"] = max(INDEX_SIZE_MIN, given["segment_index_bytes"])
        if "retention_bytes" in given:  # in Kafka every negative value means no limit
            given["retention_bytes"] = max(-1, given["retention_bytes"])
        if "cleanup.policy" in settings:
            parts = [part.strip() for part in settings["cleanup.policy"].split(",")]
            given["cleanup_policy"] = frozenset(part for part in parts if part)
        if "min.cleanable.dirty.ratio" in settings:
            given["min_cleanable_dirty_ratio"] = float(settings["min.cleanable.dirty.ratio"])
        return replace(defaults or cls(), **given)


INTEGERS: Final = {
    "delete.retention.ms",
    "index.interval.bytes",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "min.compaction.lag.ms",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.ms",
}
