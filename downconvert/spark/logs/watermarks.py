"""High watermarks from the brokers' checkpoints: consumers receive records up to there.

A leader that restarts truncates records after the high watermark, and may write other records at
the same offsets. Brokers write the high watermark of each partition to
`replication-offset-checkpoint`, every five seconds and at shutdown.

Not here: open transactions (isolation.py)."""

import warnings
from pathlib import Path

from downconvert.storage.names import HIGH_WATERMARKS, OFFSET_MAX, TopicPartition

from .checkpoints import Checkpoints
from .segment_files import PartitionLog


class HighWatermarks:
    """The high watermarks of some directories. Each checkpoint is read once."""

    def __init__(self) -> None:
        self._noted = Checkpoints(HIGH_WATERMARKS)

    def of_log(self, log: PartitionLog) -> int:
        """The highest of the high watermarks of a log's copies; OFFSET_MAX: none is known. That of
        a further copy without bytes does not count: a new follower has 0."""
        others = (one for one in log.others if any(file.size for file in one.segments))
        noted = (self.of(log.topic_partition, one.noted) for one in (log, *others))
        return max((one for one in noted if one != OFFSET_MAX), default=OFFSET_MAX)

    def of(self, name: TopicPartition, directory: str) -> int:
        """The high watermark of the partition in this directory; OFFSET_MAX if there is no
        checkpoint.

        As in a broker, it is 0 if the checkpoint lists other partitions, but not this one."""
        noted = self._noted.beside(directory)
        if noted is None:
            return OFFSET_MAX
        if name not in noted:
            path = Path(directory).parent / HIGH_WATERMARKS
            warnings.warn(
                f"{path} has no high watermark of {name}: nothing of it is read "
                "until it has one, unless stopAtHighWatermark is false",
                RuntimeWarning,
                stacklevel=2,
            )
        return noted.get(name, 0)
