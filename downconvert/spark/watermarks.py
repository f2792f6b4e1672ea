"""Up to where records are committed, as brokers have noted it: their high watermarks.

A leader that comes back truncates what is behind, and may write other records at the same offsets.
Brokers note the high watermark of each partition in `replication-offset-checkpoint`, every five
seconds and when they end; a consumer is not given more.

Not here: what of it is in open transactions (isolation.py)."""

import warnings
from pathlib import Path

from downconvert.storage.checkpoint import read_offsets
from downconvert.storage.names import HIGH_WATERMARKS, OFFSET_MAX, TopicPartition


class HighWatermarks:
    """The high watermarks of some directories, each checkpoint read once."""

    def __init__(self) -> None:
        self._noted: dict[Path, dict[TopicPartition, int] | None] = {}

    def of(self, name: TopicPartition, directory: str) -> int:
        """The high watermark of the partition in this directory; OFFSET_MAX where nobody notes any.

        As for a broker it is 0 where others' are noted and this one's is not. CorruptFileError."""
        broker = Path(directory).parent
        if broker not in self._noted:
            path = broker / HIGH_WATERMARKS
            self._noted[broker] = read_offsets(path) if path.exists() else None
        noted = self._noted[broker]
        if noted is None:
            return OFFSET_MAX
        if name not in noted:
            warnings.warn(
                f"{broker / HIGH_WATERMARKS} has no high watermark of {name}: nothing of it is "
                "read until it has one, unless stopAtHighWatermark is false",
                RuntimeWarning,
                stacklevel=2,
            )
        return noted.get(name, 0)
