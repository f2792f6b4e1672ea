"""The part of a fetch response for one partition, and the turns in which it is read.

Not here: reading it (reading.py, reading_converted.py)."""

from collections.abc import Generator
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias, TypeVar

from records import FileRecords
from records.files.sends import Send
from records.units import MiB

# The length of a response is a 32-bit integer. 128 MiB are for the fields besides the records,
# which take little more than those of the request.
RECORDS_SIZE_MAX: Final = 2**31 - 1 - 128 * MiB

Found = TypeVar("Found")


class FetchPause(Enum):
    """The event that ends a pause."""

    TURN = auto()  # it ends after other requests have had their turn
    WAKE = auto()  # it ends when the exchange is woken


# A generator that yields at the end of each turn, and returns the result.
Turns: TypeAlias = Generator[FetchPause, None, Found]


class Contribution(NamedTuple):
    """records: what is sent. source_size: their bytes in the log, which count towards limits.
    scanned_end_offset: the client needs nothing else below this offset. source: the log's range of
    unconverted records."""

    records: Send | bytes
    source_size: int
    scanned_end_offset: int
    source: FileRecords | None = None


Reading: TypeAlias = Turns[Contribution]


def nothing(scanned_end_offset: int) -> Contribution:
    """A contribution without records. They are empty and not null, because clients of 0.9 cannot
    parse null."""
    return Contribution(b"", 0, scanned_end_offset)


class ReadLimits(NamedTuple):
    """max_bytes: of the log. first: whether a larger first batch is sent anyway. is_hard: whether
    max_bytes also limits the sent bytes, except for a first message (Fetch below version 3). left:
    bytes of records for which the response still has room."""

    max_bytes: int
    first: bool
    is_hard: bool = False
    left: int = RECORDS_SIZE_MAX

    def fit(self, records: FileRecords) -> bool:
        """Whether there are records, and room for them."""
        return records.size > 0 and (self.first or records.size <= self.max_bytes)

    @property
    def room(self) -> int:
        """The most bytes that may be sent."""
        return min(self.max_bytes, self.left) if self.is_hard else self.left
