"""The results of one fetch so far, partition by partition."""

from typing import Final

from downconvert.broker.partition import Partition
from downconvert.protocol.schemas import Message
from records.files.sends import Send

from .contribution import Contribution

UNKNOWN: Final = -1  # an epoch


class FetchRead:
    """The results of one pass over all partitions.

    found: for each result, its partition, the leader's epoch during the read, and the contribution.
    size: bytes of the log. made_size: bytes of converted or recompressed records. converted: the
    topic and the records of each converted partition. has_news: there are errors, which are
    answered without waiting."""

    def __init__(self) -> None:
        self.results: list[Message] = []
        self.found: list[tuple[Partition | None, int, Contribution]] = []
        self.size = self.made_size = 0
        self.converted: list[tuple[str, Send]] = []
        self.has_news = False
        self.is_whole = False

    def add(self, result: Message, partition: Partition | None, contribution: Contribution) -> None:
        self.results.append(result)
        epoch = UNKNOWN if partition is None else partition.leader_epoch
        self.found.append((partition, epoch, contribution))
        self.size += contribution.source_size

    def drop_records(self) -> None:
        """Forgets the records. The fetch waits, and later reads everything again."""
        self.converted = []
        self.found = [
            (partition, epoch, one._replace(records=b"")) for partition, epoch, one in self.found
        ]
        for result in self.results:
            result.records = b""
