"""What a fetch has read so far, partition by partition."""

from typing import Final

from downconvert.broker.partition import Partition
from downconvert.protocol.schemas import Message

from .contribution import Contribution

UNKNOWN: Final = -1  # an epoch


class FetchRead:
    """What one pass over all partitions has found."""

    def __init__(self) -> None:
        self.results: list[Message] = []
        self.partitions: list[Partition | None] = []
        self.epochs: list[int] = []  # the leaders', when it was read
        self.contributions: list[Contribution] = []
        self.size = 0  # bytes of the log
        self.has_news = False  # errors, with which an answer does not wait
        self.is_whole = False

    def add(self, result: Message, partition: Partition | None, contribution: Contribution) -> None:
        self.results.append(result)
        self.partitions.append(partition)
        self.epochs.append(UNKNOWN if partition is None else partition.leader_epoch)
        self.contributions.append(contribution)
        self.size += contribution.source_size

    def drop_records(self) -> None:
        """Forgets the records: the fetch waits, and reads all of them again when it goes on."""
        self.contributions = [one._replace(records=b"") for one in self.contributions]
        for result in self.results:
            result.records = b""
