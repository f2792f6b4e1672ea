"""The filler that keeps a promise.

A fetch response states the size of its records before they are converted. Where conversion makes
them smaller, the rest is one entry head whose length runs past the end of the response: a
consumer takes it for a batch cut short and fetches again from there. Bytes as Kafka's
LazyDownConversionRecordsSend makes them.

Not here: deciding when filler is due (send.py). With exact sizes it never is."""

from typing import Final

from records.formats import BATCH_HEADER_SIZE, PREFIX

FILLER_SIZE_MAX: Final = (
    128 * 1024
)  # of one piece; what is longer is several, each with its own head
FILLER_OFFSET: Final = -1
NOTHING_LEFT_SIZE: Final = PREFIX.size  # promised where there were batches and all are left out


def filler(remaining: int) -> bytes:
    """The next piece of filler where `remaining` bytes were promised and are not there."""
    head = PREFIX.pack(FILLER_OFFSET, min(max(remaining + 1, BATCH_HEADER_SIZE), 2**31 - 1))
    return head.ljust(min(remaining, FILLER_SIZE_MAX), b"\0")[:remaining]
