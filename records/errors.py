"""All errors that reading and converting records may raise.

Each has a reason and a position. A wrong argument is a ValueError, as usual in Python."""

from typing import Final

UNSUPPORTED_COMPRESSION_TYPE: Final = 76  # Kafka's error codes, for callers that answer a fetch
CORRUPT_MESSAGE: Final = 2


class RecordsError(Exception):
    """The base of all errors of this project."""


class ClosedRecordsError(RecordsError, ValueError):
    """The records' file has been closed. The bytes may be valid, but can no longer be read."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the file of these records is closed: {name}")


class CorruptRecordsError(RecordsError):
    """Bytes that are not valid records.

    `position` is the byte at which the damaged entry or record begins, in the file (or buffer) that
    was read. A record that had been compressed has no position there. Then `position` is that of
    its batch, and `inside` the byte of the batch's decompressed data at which the record begins.
    Otherwise `inside` is None."""

    def __init__(self, reason: str, position: int, *, inside: int | None = None) -> None:
        self.reason = reason
        self.position = position
        self.inside = inside
        where = f"byte {position}"
        if inside is not None:
            where = f"byte {inside} of the decompressed records of the batch at {where}"
        super().__init__(f"{reason}, at {where}")


class UnsupportedCodecError(RecordsError):
    """A batch with a codec that the policy refuses, or the target format lacks (Kafka's error
    76)."""

    def __init__(self, codec: str, position: int) -> None:
        self.codec = codec
        self.position = position
        super().__init__(f"{codec} is refused for this client, in the batch at byte {position}")


class RecordTooLargeError(RecordsError):
    """A record larger than the reader's `record_size_max`, or a batch larger than it may become.

    `size` is the number of bytes that have been read or made so far, `limit` the allowed number.
    `position` is the byte at which the record's batch begins."""

    def __init__(self, size: int, limit: int, position: int) -> None:
        self.size = size
        self.limit = limit
        self.position = position
        super().__init__(
            f"a record of {size} bytes is larger than record_size_max ({limit}), "
            f"in the batch at byte {position}"
        )
