"""The results of one fetch so far, partition by partition."""

from typing import Final

from downconvert.broker.partition import Partition
from downconvert.protocol.schemas import Message

from .contribution import Contribution

UNKNOWN: Final = -1  # an epoch


class FetchRead:
    """The results of one pass over all partitions."""

    def __init__(self) -> None:
        self.results: list[Message] = []
        self.partitions: list[Partition | None] = []
        self.epochs: list[int] = []  # the leaders' epochs when it was read
        self.contributions: list[Contribution] = []
        self.size = 0  # bytes of the log
        self.has_news = False  # errors, which are answered without waiting
        self.is_whole = False

    def add(self, result: Message, partition: Partition | None, contribution: Contribution) -> None:
        self.results.append(result)
        self.partitions.append(partition)
        self.epochs.append(UNKNOWN if partition is None else partition.leader_epoch)
        self.contributions.append(contribution)
        self.size += contribution.source_size

    def drop_records(self) -> None:
        """Forgets the records. The fetch waits, and reads all of them again later."""
        self.contributions = [one._replace(records=b"") for one in self.contributions]
        for result in self.results:
            result.records = b""
