"""The part of a fetch response for one partition, and the turns in which it is read.

Not here: reading it (reading.py, reading_converted.py)."""

from collections.abc import Generator
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias, TypeVar

from records import FileRecords
from records.files.sends import Send
from records.units import MiB

# The length of a response is a 32-bit integer. The rest is for the fields beside the records. They
# are not much larger than those of the request.
RECORDS_SIZE_MAX: Final = 2**31 - 1 - 128 * MiB

Found = TypeVar("Found")


class FetchPause(Enum):
    """The event that ends a pause."""

    TURN = auto()  # other requests have had their turn
    WAKE = auto()  # until the exchange is woken


# Yields at the end of each turn, and returns the result.
Turns: TypeAlias = Generator[FetchPause, None, Found]


class Contribution(NamedTuple):
    """records: to be sent. source_size: their bytes in the log, which limits count.
    scanned_end_offset: there is nothing else below this offset. source: where unconverted records
    are in the log."""

    records: Send | bytes
    source_size: int
    scanned_end_offset: int
    source: FileRecords | None = None


Reading: TypeAlias = Turns[Contribution]


def nothing(scanned_end_offset: int) -> Contribution:
    """No records. It is never null, which clients of 0.9 cannot parse."""
    return Contribution(b"", 0, scanned_end_offset)


class ReadLimits(NamedTuple):
    """max_bytes: of the log. first: a larger first batch is sent anyway. is_hard: the response has
    no more bytes than that, except for a first message (Fetch below version 3). left: the bytes of
    records that the response has room for, with everything before."""

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
