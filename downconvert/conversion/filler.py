"""Filler for a response that is smaller than its promised size.

A fetch response states the size of its records before they are converted. If conversion makes them
smaller, a batch header fills the rest. Its length field points past the end of the response. A
consumer takes it for a truncated batch and fetches again from there. The bytes equal those of
Kafka's LazyDownConversionRecordsSend.

Not here: deciding when filler is due (send.py). Exact sizes never need filler."""

from typing import Final

from records.formats import BATCH_HEADER_SIZE, PREFIX
from records.units import KiB

# Bytes of one piece. Longer filler has several pieces, each with its own header.
FILLER_SIZE_MAX: Final = 128 * KiB
FILLER_OFFSET: Final = -1
NOTHING_LEFT_SIZE: Final = PREFIX.size  # promised if all batches are left out


def filler(remaining: int) -> bytes:
    """The next piece of filler. `remaining`: promised bytes that are missing."""
    head = PREFIX.pack(FILLER_OFFSET, min(max(remaining + 1, BATCH_HEADER_SIZE), 2**31 - 1))
    return head.ljust(min(remaining, FILLER_SIZE_MAX), b"\0")[:remaining]
