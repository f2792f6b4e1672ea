"""The functions of a kernel besides its `Transcoder`: the rest of the contract of both kernels.

*encode* goes from columns to records. *read_entries* and *make_records* make Python records,
`ArrowColumns` makes Arrow columns, and *summarize_batch* only checks records. They read by the
rules of kernel.py. *file_stamps* reads file metadata without opening files.

Not here: those rules, outcomes and rows (kernel.py)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from .kernel import Buffer, Progress

if TYPE_CHECKING:
    from .python_record import Record


STAMP_SIZE: Final = 24  # bytes of `FileStamps` for a path


class Encode(Protocol):
    """Writes rows (layout of `columns`) as records of a v2 batch, or as v0 or v1 messages.

    v2: offset and timestamp deltas against the bases, headers copied from the source. v0, v1:
    offset minus base offset (0 for absolute ones), v1 attributes 0x08 if the row's timestamp type
    is 1, headers left out. `consumed` counts bytes of rows. Returns END after the last row, or
    TARGET. Negative key and value sizes are null, and then their positions do not matter.
    Differences of timestamps wrap, and so do offsets in v0 and v1. ValueError: a magic other than
    0, 1 or 2; indices outside of their buffers; rows that are not whole; a position outside of the
    source (that of headers matters in v2 alone, even without headers); in v2 an offset delta or
    header count that is no 32-bit integer, or a negative count; a record or message of more than
    2**31 - 1 bytes after its size field. The contents of the target are then undefined."""

    def __call__(
        self,
        rows: Buffer,
        rows_start: int,
        rows_end: int,
        source: Buffer,
        magic: int,
        base_offset: int,
        base_timestamp: int,
        target: Buffer,
        at: int,
        limit: int,
    ) -> Progress: ...


class Crc32(Protocol):
    """CRC-32 (IEEE) of `source[start:end]`, continued from `value`, as `zlib.crc32`."""

    def __call__(self, source: Buffer, start: int, end: int, value: int = 0) -> int: ...


class FileStamps(Protocol):
    """For each path: the time of the file's last change (nanoseconds since the epoch), its size in
    bytes, and its inode. These are three 64-bit integers, little-endian, STAMP_SIZE bytes. All bits
    are set if nothing is known about the file. Links are followed. Paths are bytes, as the system
    uses them.

    One call serves all paths, so a caller with thousands of files waits for the interpreter
    once."""

    def __call__(self, paths: list[bytes]) -> bytes: ...


class ReadEntries(Protocol):
    """Reads whole entries of a log in `source[start:end]`, and makes their records. It reads
    ordinary entries one after the other, and stops at the first other one. Returns the records, and
    the number of source bytes read.

    It may leave any entry to its caller, who reads it step by step and finds the same records. It
    always leaves damaged entries (checksums are compared with `verify`), entries that decompress to
    more than `size_max` bytes, large batches and compressed messages. Records of control batches
    are left out unless `control` is set. After some hundred records, or `size_max` decompressed
    bytes, no other batch is begun. ValueError: indices outside of the source."""

    def __call__(
        self, source: Buffer, start: int, end: int, verify: bool, control: bool, size_max: int
    ) -> "tuple[list[Record], int]": ...


# The fields of the batch's header (those of `BatchHeader` in batch.py at position 0, without the
# codec), the number of records, whether their offsets rise by one from the batch's base offset, the
# lowest and the highest timestamp, and the number of records without a key.
Summary: TypeAlias = tuple[tuple[int, ...], int, bool, int, int, int]


class SummarizeBatch(Protocol):
    """Reads the header and all records of the v2 batch `source[start:end]`, compares its checksum,
    and makes no records.

    None: the batch is left to the caller, who reads its header and its rows. Any batch may be.
    These always are: damaged ones, those without records, those that decompress to more than
    `size_max` bytes, and what is not exactly one v2 batch. ValueError: indices outside of the
    source."""

    def __call__(self, source: Buffer, start: int, end: int, size_max: int) -> Summary | None: ...


class KeyedBatch(Protocol):
    """A v2 batch of keys and values, with offsets from 0 on, without leader epoch, headers and
    sequence numbers. All records have the timestamp `time`, in milliseconds. `producer`: the id and
    the epoch of the producer of the transaction.

    Also returns the fields of the batch's header, as `summarize_batch` does. ValueError: there are
    no pairs, or the batch has more bytes than its size field can state."""

    def __call__(
        self,
        pairs: Iterable[tuple[bytes | None, bytes | None]],
        time: int,
        producer: tuple[int, int] | None,
    ) -> tuple[bytearray, tuple[int, ...]]: ...


class MakeRecords(Protocol):
    """Makes records of the rows `rows[rows_start:rows_end]`, which point into `source`.

    `base_sequence` is the sequence number at `base_offset`. If it is negative, records have none
    (-1). The records keep nothing of the source. ValueError: indices outside of their buffers, rows
    that are not whole, a position outside of the source, an unknown timestamp type, invalid headers
    (detected at the latest when they are read)."""

    def __call__(
        self,
        rows: Buffer,
        rows_start: int,
        rows_end: int,
        source: Buffer,
        base_offset: int,
        base_sequence: int,
    ) -> "list[Record]": ...


class MakeInnerRecords(Protocol):
    """Like MakeRecords, for messages inside a compressed one. The messages are in the source one
    after the other from `at` on.

    Timestamps have the compressed message's `timestamp_type`, except that v0 messages have none.
    With `verify`, checksums are compared, and only the messages before the first wrong one become
    records. Also returns the position of the wrong message, or the end of the messages. ValueError
    also if there is no message for a row."""

    def __call__(
        self,
        rows: Buffer,
        rows_start: int,
        rows_end: int,
        source: Buffer,
        at: int,
        timestamp_type: int,
        verify: bool,
    ) -> "tuple[list[Record], int]": ...


# A column of bytes: the number of null rows, a bit for each row that is not null (lowest bit first;
# None if no row is null), a zero and the end of each row (32-bit integers), and the bytes of all
# rows.
Binary: TypeAlias = tuple[int, Buffer | None, Buffer, Buffer]
# Headers: the number of rows with headers, a bit for each such row (None if there is none), a zero
# and the end of each row among all headers (32-bit integers), keys, values. Keys are text. Invalid
# UTF-8 becomes U+FFFD, as in Kafka's consumer.
HeaderLists: TypeAlias = tuple[int, Buffer | None, Buffer, Binary, Binary]
# The number of rows, offsets, timestamps in milliseconds (64-bit integers), timestamp types (32-bit
# integers, as in rows), keys, values, headers. Unwanted columns are None.
Taken: TypeAlias = tuple[
    int, Buffer, Buffer, Buffer, Binary | None, Binary | None, HeaderLists | None
]


class ArrowColumns(Protocol):
    """Columns in Arrow's layout, filled record by record, and then taken.

    A record outside of the bounds is left out. A call ends before a record that does not fit: there
    are `rows_max` rows, or keys, values and headers would have more than `bytes_max` bytes. A
    single record may have more."""

    def __init__(
        self,
        rows_max: int,
        bytes_max: int,
        keys: bool,
        values: bool,
        headers: bool,
        offsets: tuple[int, int],
        timestamps: tuple[int, int],
    ) -> None:
        """`keys`, `values`, `headers`: whether these columns are wanted. `offsets`, `timestamps`:
        the first and the last wanted ones (timestamps in milliseconds).

        ValueError: no row, or more bytes than a column can have (2**31 - 1)."""

    def __len__(self) -> int:
        """The number of rows."""

    def add_entries(
        self,
        source: Buffer,
        start: int,
        end: int,
        verify: bool,
        transactional: bool,
        size_max: int,
    ) -> tuple[int, bool]:
        """Adds the records of whole entries of a log in `source[start:end]`, one entry after the
        other. Returns the number of source bytes read, and whether the next entry does not fit
        after these rows. Call `take` first in that case.

        It may leave any entry to its caller, who adds its rows and gets the same columns. It always
        leaves damaged entries (checksums are compared with `verify`), entries that do not fit or
        decompress to more than `size_max` bytes, compressed messages, and transactional batches
        unless `transactional` is set. It also leaves an entry unless `source[:end]` has the offset
        of the next one, and that is higher than its own: no checksum covers offsets. Control
        batches have no records here. ValueError: indices outside of the source."""

    def add_rows(self, rows: Buffer, start: int, end: int, source: Buffer) -> int:
        """Adds the rows `rows[start:end]`, which point into `source`. Returns the bytes of the rows
        that were added or left out.

        ValueError as for MakeRecords, and for headers larger than a column can hold. Nothing is
        added then. Unwanted headers are not checked."""

    def take(self) -> Taken:
        """Returns the columns and empties them. The result keeps nothing of a source, and does not
        change."""
