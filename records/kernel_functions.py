"""What a kernel does besides its `Transcoder`: the rest of the contract that both kernels keep.

*encode* goes from columns to records. *read_entries* and *make_records* make Python's records,
`ArrowColumns` columns of Arrow's. They read by the rules of kernel.py. *file_stamps* looks at files
without opening them.

Not here: those rules, and what outcomes and rows are (kernel.py)."""

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from .kernel import Buffer, Progress

if TYPE_CHECKING:
    from .python_record import Record


STAMP_SIZE: Final = 24  # bytes of `FileStamps` for a path


class Encode(Protocol):
    """Writes rows (layout of `columns`) as records of a v2 batch, or as v0 or v1 messages.

    v2: offset and timestamp deltas against the bases, headers copied as they are in the source. v0,
    v1: offset minus base offset (0 for absolute ones), v1 attributes 0x08 where the row's timestamp
    type is 1, headers left out. `consumed` counts bytes of rows. Comes back with END after the last
    row, or TARGET. Negative key and value sizes are null, and then their positions do not matter.
    Differences of timestamps wrap, and so do offsets in v0 and v1. ValueError: a magic that is not
    0, 1 or 2; indices outside of their buffers; rows that are not whole; a position outside of the
    source (that of headers matters in v2 alone, also where there are none); in v2 an offset delta
    or header count that is no 32-bit integer, or a negative count; a record or message of more than
    2**31 - 1 bytes after its size field. Then what is in the target is undefined."""

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
    """Of each path: when the file was changed last, in nanoseconds since the epoch, its size in
    bytes, and its inode; three 64-bit integers, little-endian, STAMP_SIZE bytes. All bits are set
    where nothing can be found out about it. Links are followed. Paths are the system's bytes.

    One call for all of them, so that whoever looks at thousands of files waits for the interpreter
    once."""

    def __call__(self, paths: list[bytes]) -> bytes: ...


class ReadEntries(Protocol):
    """Reads the entries of a log that are whole in `source[start:end]`, and makes their records: of
    as many entries as are ordinary, one after the other, and then of no more for now. Returns
    records, and the bytes of source that they and the entries without records took.

    It may leave any entry to its caller, who reads it step by step and finds the same records. It
    leaves what is damaged (with `verify` its checksum is compared), what decompresses to more than
    `size_max` bytes, large batches and compressed messages. Records of control batches are left
    out, unless `control`. What is made at once is bounded: after some hundred records, or
    `size_max` decompressed bytes, no other batch is begun. ValueError: indices outside of the
    source."""

    def __call__(
        self, source: Buffer, start: int, end: int, verify: bool, control: bool, size_max: int
    ) -> "tuple[list[Record], int]": ...


class MakeRecords(Protocol):
    """Makes records of the rows `rows[rows_start:rows_end]`, which point into `source`.

    `base_sequence` is the sequence number at `base_offset`, or -1: then records have none. What is
    made keeps nothing of the source. ValueError: indices outside of their buffers, rows that are
    not whole, a position outside of the source, a timestamp type that does not exist, headers that
    are none (at the latest where they are looked at)."""

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
    """As MakeRecords, of messages inside of a compressed one, which lie in the source one after the
    other from `at` on.

    Their timestamps are of the compressed message's `timestamp_type`, but for those of v0, which
    have none. With `verify` checksums are compared: records come from the messages before the first
    one that is wrong. Also returns where that one is, or where the messages end. ValueError also
    where there is no message for a row."""

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


# A column of bytes: how many rows are null, a bit for each row that is not (lowest first; None:
# all of them), where each row ends after a zero (32-bit integers), and the bytes of all rows.
Binary: TypeAlias = tuple[int, Buffer | None, Buffer, Buffer]
# Headers: how many rows have any, a bit for each row that has (None: no row), where each row's end
# among all headers after a zero (32-bit integers), keys, values. Keys are text: bytes that are no
# UTF-8 have become U+FFFD, as in Kafka's consumer.
HeaderLists: TypeAlias = tuple[int, Buffer | None, Buffer, Binary, Binary]
# How many rows there are, offsets, timestamps in milliseconds (64-bit integers), timestamp types
# (32-bit integers, as in rows), keys, values, headers. What is not wanted is None.
Taken: TypeAlias = tuple[
    int, Buffer, Buffer, Buffer, Binary | None, Binary | None, HeaderLists | None
]


class ArrowColumns(Protocol):
    """Columns as Arrow has its arrays, filled record by record, and then taken.

    A record outside of the bounds is left out. A record that does not fit ends a call: there are
    `rows_max` rows, or it would be more than `bytes_max` bytes of keys, values and headers. A
    single one may have more."""

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
        """`keys`, `values`, `headers`: whether they are wanted. `offsets`, `timestamps`: the first
        and the last that are, timestamps in milliseconds.

        ValueError: no row, or more bytes than a column has (2**31 - 1)."""

    def __len__(self) -> int:
        """How many rows there are."""

    def add_entries(
        self,
        source: Buffer,
        start: int,
        end: int,
        verify: bool,
        transactional: bool,
        size_max: int,
    ) -> tuple[int, bool]:
        """Adds the records of entries of a log that are whole in `source[start:end]`, one entry
        after the other. Returns the bytes of source that these entries took, and whether it ended
        because the next one does not fit after these rows: then they are to be taken first.

        It may leave any entry to its caller, who adds its rows and gets the same columns. It leaves
        what is damaged (with `verify` its checksum is compared), what does not fit or decompresses
        to more than `size_max` bytes, compressed messages, and transactional batches unless
        `transactional`. Control batches have no records here. ValueError: indices outside
        of the source."""

    def add_rows(self, rows: Buffer, start: int, end: int, source: Buffer) -> int:
        """Adds the rows `rows[start:end]`, which point into `source`. Returns the bytes of those
        that were added, or left out.

        ValueError, and nothing added: as MakeRecords, and headers that would be more than a column
        has. Headers that are not wanted are not looked at."""

    def take(self) -> Taken:
        """The columns, which are empty then. What is taken keeps nothing of a source, and stays as
        it is."""
