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
from .stored_headers import has_begun


class HighWatermarks:
    """The high watermarks of some directories. Each checkpoint is read once."""

    def __init__(self) -> None:
        self._noted = Checkpoints(HIGH_WATERMARKS)

    def of_log(self, log: PartitionLog) -> int:
        """The highest of the high watermarks of a log's copies; OFFSET_MAX: none is known. A new
        follower has 0, which does not count if its copy is empty.

        FileNotFoundError: a segment is gone. SegmentChangedError, StoreError."""
        copies = (log, *log.others, *log.unneeded)
        noted = [self.of(log.topic_partition, copy.noted) for copy in copies]
        highest = max((one for one in noted if one != OFFSET_MAX), default=OFFSET_MAX)
        if highest or not noted[0]:
            return highest
        pairs = zip(copies, noted, strict=True)
        files = (file for copy, limit in pairs if not limit for file in copy.segments)
        return 0 if any(map(has_begun, files)) else OFFSET_MAX

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
