"""What one partition contributes to the answer of a fetch, and the turns in which it is read.

Not here: how it is read (reading.py, reading_converted.py)."""

from collections.abc import Generator
from enum import Enum, auto
from typing import NamedTuple, TypeAlias, TypeVar

from downconvert.protocol.joined_send import JoinedSend
from records import FileRecords
from records.files.sends import Send

Found = TypeVar("Found")


class Pause(Enum):
    """Until when a turn is over."""

    TURN = auto()  # until others have had theirs
    WAKE = auto()  # until the exchange is woken


# Yields at the end of each turn, and returns what has been found.
Turns: TypeAlias = Generator[Pause, None, Found]


class ConvertedSend(JoinedSend):
    """Records that are converted while they are sent, with what the metrics ask for."""

    __slots__ = ("topic",)

    def __init__(self, topic: str, sends: list[Send]) -> None:
        super().__init__(sends)
        self.topic = topic


class Contribution(NamedTuple):
    """records: to be sent. source_size: bytes of the log that they come from, which is what limits
    count. scanned_end_offset: there is nothing else below this offset. source: where they lie, if
    as they are."""

    records: Send | bytes
    source_size: int
    scanned_end_offset: int
    source: FileRecords | None = None


Reading: TypeAlias = Turns[Contribution]


def nothing(scanned_end_offset: int) -> Contribution:
    """No records; never null, which clients of 0.9 cannot parse."""
    return Contribution(b"", 0, scanned_end_offset)


class Limits(NamedTuple):
    """max_bytes: of the log. first: a first batch that is larger is sent all the same. is_hard: not
    more than that goes out, but for a first message (Fetch below version 3)."""

    max_bytes: int
    first: bool
    is_hard: bool = False

    def fit(self, records: FileRecords) -> bool:
        """Whether there is something, and room for it."""
        return records.size > 0 and (self.first or records.size <= self.max_bytes)

    @property
    def room(self) -> int | None:
        """The most bytes that may go out; None: any number."""
        return self.max_bytes if self.is_hard else None
