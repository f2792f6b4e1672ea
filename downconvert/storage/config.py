"""How a log is written: the settings of a topic that the log on disk needs, by Kafka's names.

Not here: what they do (log_writer.py, retention.py)."""

from dataclasses import dataclass
from typing import Final

from .entry_file import INDEX_SIZE_MAX

DAY: Final = 24 * 60 * 60 * 1000  # milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Defaults are Kafka's. Sizes are bytes, times milliseconds; -1 is no limit."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * DAY
    segment_index_bytes: int = INDEX_SIZE_MAX
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1024 * 1024 + 12
    retention_ms: int = 7 * DAY
    retention_bytes: int = -1

    def __post_init__(self) -> None:
        if self.segment_bytes < 1 or self.segment_bytes > 2**31 - 1:
            raise ValueError("segment_bytes must be between 1 and 2**31 - 1")
        if self.segment_ms < 1:
            raise ValueError("segment_ms must be at least 1")
        if self.segment_index_bytes < 12 or self.segment_index_bytes > 2**31 - 1:
            raise ValueError("segment_index_bytes must be between 12 and 2**31 - 1")
        if self.index_interval_bytes < 0:
            raise ValueError("index_interval_bytes must not be negative")
        if self.max_message_bytes < 0:
            raise ValueError("max_message_bytes must not be negative")
        if self.retention_ms < -1 or self.retention_bytes < -1:
            raise ValueError("retention must not be below -1")
