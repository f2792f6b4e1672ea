"""The contract of a kernel. The native kernel and its Python twin both keep it.

A kernel turns bytes into bytes. It opens neither files nor sockets. Its caller reads windows of a
log into a buffer, decompresses data that is too large to be decompressed at once, and makes the
decisions that depend on a policy. One parser serves every job: *transcode* writes older messages,
*measure* adds up the bytes that transcode would write, *columns* notes the positions of keys and
values, *recode* makes compressed messages of a compressed batch. *encode* goes the other way, from
columns to records. *advance* converts from a file, chunk after chunk, until a decision is needed.
It writes to a channel or to memory, or only counts. The functions that make Python records and
Arrow columns are in kernel_functions.py.

Everything is resumable on both sides. A call takes as many whole items as the source window holds
and the target window has room for. It reports its progress and, as an `Outcome`, the reason for its
return.

Windows are index ranges of a buffer (`source[start:end]`), so that no slice is made for a call.
`remaining` is the number of bytes from `start` on, in the window and after it, or `UNKNOWN`. An
item that is incomplete in the window but not in `remaining` asks for more (`SOURCE`). One longer
than `remaining` is torn or damaged. Bytes of a window after `remaining` are ignored.

A call runs without the interpreter's lock. Meanwhile its caller keeps the named descriptors open,
and no other thread writes to the buffers passed, nor to a file that one of them maps. A write
during a call is undefined behaviour of the native kernel, not just other bytes: it may rely on
bytes that it has already read. Each compressed byte is read only once.

Not here: its functions, and objects made of records (kernel_functions.py), choosing the
implementation (backend.py), the byte layouts (formats.py)."""

from enum import IntEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

UNKNOWN: Final = 2**63 - 1  # `remaining` of a stream whose end is not known yet


class Outcome(IntEnum):
    """Why a call returned. A call also reports its progress before that."""

    SOURCE = 0  # the next item is not whole in the window
    TARGET = 1  # the next item does not fit in the rest of the target
    BATCH = 2  # the batch at the position reached needs a decision (codec, control, transaction)
    END = 3  # log: no further whole entry in `remaining`; batch, entries: all have been read
    GAP = 4  # the next offset does not follow the wrapper's last one
    DAMAGE = 5  # the next item is damaged: see `Transcoder.damage`
    CHANNEL = 6  # advance: the channel took less than it was given
    LIMIT = 7  # advance: the budget is used up


Buffer: TypeAlias = bytes | bytearray | memoryview
Progress: TypeAlias = tuple[int, int, int]  # bytes consumed, bytes produced, Outcome
# Bytes consumed, bytes that the target took, Outcome, bytes (the part of a chunk that the channel
# did not take, or all bytes made for memory), and the channel's error (errno) or 0.
Advanced: TypeAlias = tuple[int, int, int, bytes | None, int]

# Targets of `advance` in place of a channel's descriptor.
MEMORY: Final = -1  # the bytes made are in the result
COUNTER: Final = -2  # messages are only measured

PLAIN: Final = 255  # in place of a target codec: leave messages uncompressed


class Recodes(NamedTuple):
    """How to convert compressed entries to compressed messages. By default all are left to the
    caller.

    codecs: the target codec for each codec of a v2 batch that `advance` meets (PLAIN: uncompressed
    messages; 0 or missing: return for a decision). fast: compress at the level "fast", else
    "kafka". trim: records below first_offset are dropped, in uncompressed messages always.
    split_at_gaps: another wrapper begins at each gap. body_size_max: bytes that an entry may
    decompress to. inner_size_max: bytes of messages in one wrapper, or of uncompressed ones."""

    codecs: bytes = b""
    fast: bool = True
    trim: bool = True
    split_at_gaps: bool = False
    body_size_max: int = 0
    inner_size_max: int = 0


# One row of `columns`: ten signed 64-bit integers in the machine's byte order. Positions index the
# source buffer; a size of -1 is null, and its position is where its bytes would be. `headers_at` is
# after the header count. Messages have no headers: size and count are 0, and `headers_at` is where
# the value ends.
ROW_FIELDS: Final = (
    "offset",
    "timestamp",
    "timestamp_type",  # 0 CreateTime, 1 LogAppendTime, -1 none (v0)
    "key_at",
    "key_size",
    "value_at",
    "value_size",
    "headers_at",
    "headers_size",
    "headers_count",
)
ROW_SIZE: Final = 8 * len(ROW_FIELDS)


class Transcoder(Protocol):
    """Reads entries of a log, or records of one decompressed batch, and converts them.

    A transcoder is in one of three places. In a *log* (at first, and after `leave`) the source has
    entries as in a segment. In the *records of a v2 batch* (`enter_batch`) and in the *entries of a
    compressed v0 or v1 message* (`enter_entries`) the source has decompressed bytes.

    In a log, uncompressed batches are read across as many batches as the windows hold.
    These rules apply to each entry, in this order (as in Kafka's FileLogInputStream and
    RecordsUtil.downConvert):

    1. `remaining` <= 17: END (Kafka ignores a tail of up to 17 bytes). Window < 18 bytes: SOURCE.
    2. size < 14: damage "entry is smaller than a message header". Magic not 0, 1, 2: damage
       "unknown magic". 12 + size > `remaining`: END (a torn tail).
    3. v2: size < 49: damage "batch is smaller than its header". Less than 61 bytes in the window:
       SOURCE.
    4. magic <= to_magic (not for columns): codec (attribute bits 0-2) not in `pass_codecs`, a bit
       mask of codec ids: BATCH, unless allowed; else the entry is copied as it is, when it is
       whole in the window (SOURCE) and fits (TARGET).
    5. v2 otherwise:
       a. record count < 0: damage "negative record count".
       b. control batch: if `stop_transactional`, or for columns: BATCH, unless allowed. Transcode
          and measure drop it, allowed or not; columns reads it when allowed.
       c. codec != 0: BATCH, allowed or not.
       d. transactional and `stop_transactional`: BATCH, unless allowed.
       e. count = 0, or base offset + last offset delta < first_offset: the batch is dropped. The
          sum does not wrap: compaction keeps a last offset that no record has.
       f. count > (size - 49) // 7: damage "more records than bytes".
       g. else it is entered: its records follow.
    6. v0, v1 otherwise: codec != 0: BATCH, allowed or not. Not whole in the window: SOURCE. v1 and
       size < 22: damage "message is smaller than its header". Then keys and values are checked:
       "key runs past its message", "value runs past its message" (also where fewer than four bytes
       are left for the value's size); bytes after the value are ignored. Offset < first_offset:
       dropped.

    Dropping consumes the whole entry at once, even if the entry ends after the window. `consumed`
    may then exceed the window, but never `remaining`.

    These rules apply to each record of a v2 batch, in this order (positions name the record's first
    byte):

    1. no record left by the batch's count: bytes left in a batch of a log: damage "bytes left after
       the last record"; else the batch is done (log: next entry; entered batch: END).
    2. size varint: not whole in the window: SOURCE; not whole in `remaining` (or in the batch):
       damage "batch ends before its last record"; a fifth byte with its top bit set: damage "varint
       is too long". Size < 0: damage "negative record size". Size more than what is left of the
       batch or `remaining`: damage "record runs past its batch". Body not whole in the window:
       SOURCE.
    3. in the body: attributes (ignored), timestamp delta (varlong), offset delta, key, value,
       header count, headers. A varint that leaves the body: "record ends before its fields"; too
       long ones as above (varlong: an eleventh byte); key or value size < 0 is null, more than what
       is left of the body: "key runs past its record", "value runs past its record". Negative
       header count: "negative header count"; more than the bytes left: "more headers than bytes".
       Header key size < 0: "header key is null"; too long: "header key runs past its record"; value
       size < 0 is null; too long: "header value runs past its record". Bytes left in the body:
       "bytes left after the record's fields".
    4. offset = base offset + delta; timestamp = base timestamp + delta, or the batch's maximum
       under LogAppendTime (all sums wrap). An offset below first_offset is dropped: in a log
       always, in an entered batch unless it becomes a wrapper without `trim`.
    5. transcode and measure, for each record kept: timestamp < -1: damage "negative timestamp";
       offset not above the last one kept in this batch: "offset does not increase"; 2**31 or more
       above the first one kept: "offset delta is too large"; 22 (v0: 14) + key + value of 2**31 or
       more: "record is too large for a message". Neither difference nor sum wraps.
    6. transcode and measure, in a wrapper with `split_at_gaps`, messages of magic 1, not the
       wrapper's first: offset != the wrapper's last + 1: GAP.
    7. no room for the message (26 or 34 + key + value) or row: TARGET.

    These rules apply to each entry of a compressed message, in this order: `remaining` < 12: END;
    window < 12: SOURCE. Size < 14: damage "entry is smaller than a message header". 12 + size >
    `remaining`: END. Not whole in the window: SOURCE. Magic not 0 or 1: damage "unknown magic".
    Codec != 0: damage "compressed message inside a compressed message". Then as in rule 6 of a log;
    the offset is the entry's plus `offset_delta` (wraps); dropped below first_offset as in 4; then
    5-7 above.

    Uncompressed messages in a log are batches of one: of 5 only "negative timestamp" applies.

    An item is checked completely before its room in the target is. A call that meets damage after
    progress reports both. A repeated call at the same place reports the damage again, and no
    progress. The damaged item always begins at the position reached.

    A message written: offset (v1 in a wrapper: minus the wrapper's first offset), size, CRC-32 over
    what follows, magic, attributes (v1 under LogAppendTime: 0x08, else 0), v1: timestamp (from v0:
    -1), key, value. Null is -1."""

    def __init__(
        self,
        to_magic: int,
        first_offset: int,
        pass_codecs: int,
        stop_transactional: bool,
        recodes: Recodes | None = None,
    ) -> None:
        """`to_magic` 0, 1 or 2 (2: everything passes). Raises ValueError for any other value, for
        more than eight codecs, and for a negative size."""

    def enter_batch(self, header: Buffer, at: int, is_wrapper: bool = False) -> None:
        """Moves to the decompressed records of the v2 batch whose 61-byte header is at `at`.
        `is_wrapper`: the caller will compress the messages into one.

        A negative record count means no records. ValueError if the header is not whole in the
        buffer."""

    def enter_entries(
        self, to_magic: int, offset_delta: int, append_time: int | None, is_wrapper: bool = False
    ) -> None:
        """Moves to the decompressed entries of a v0 or v1 message. Messages written have format
        `to_magic`.

        `append_time`: the wrapper's timestamp under LogAppendTime. It then replaces those of all
        entries, including v0. Without it v1 entries have CreateTime, regardless of their
        attributes. ValueError if `to_magic` is not 0 or 1."""

    def start_wrapper(self) -> None:
        """The next record kept is the first of a new wrapper (entering also starts one)."""

    def accept_next_entry(self) -> None:
        """The next entry of the log needs no decision (rules 4, 5b, 5d). This lasts until that
        entry has been passed. `enter_batch`, `enter_entries` and `leave` end it."""

    def leave(self) -> None:
        """Returns to the log, at an entry's start."""

    def transcode(
        self,
        source: Buffer,
        start: int,
        end: int,
        remaining: int,
        target: Buffer,
        at: int,
        limit: int,
    ) -> Progress:
        """Converts `source[start:end]` into `target[at:limit]`.

        ValueError: indices outside of their buffers, a negative `remaining`, buffers that overlap,
        or (measure and record_head, too) records of a v2 batch where `to_magic` is 2."""

    def measure(self, source: Buffer, start: int, end: int, remaining: int, room: int) -> Progress:
        """Like transcode into a target of `room` bytes, without one."""

    def columns(
        self,
        source: Buffer,
        start: int,
        end: int,
        remaining: int,
        target: Buffer,
        at: int,
        limit: int,
    ) -> Progress:
        """Writes a row for each record (`ROW_FIELDS`). Drops only records below first_offset.

        These records do not count in `totals`, `wrapper` and `last_offset`."""

    def advance(
        self,
        source: int | Buffer,
        position: int,
        end: int,
        chunk_size: int,
        target: int,
        is_socket: bool,
        room: int,
        budget: int,
    ) -> Advanced:
        """Converts from `position` of a file, up to `end`, into a target of `room` bytes, chunk
        after chunk, without returning for each.

        The transcoder must be in a log, or in an uncompressed batch of one. `source` is the file's
        descriptor, or a buffer of its bytes, which may end before `end`. `target` is the
        descriptor of a plain socket (`is_socket`) or of a pipe or file, or MEMORY or COUNTER. A
        chunk is made by transcode from up to `chunk_size` bytes of source, into twice that or the
        rest of `room`; COUNTER measures it. One system call writes one chunk, or several if a
        socket reports room for more. The buffers belong to the thread.

        Returns CHANNEL if the channel did not take all bytes. The result has the rest, which the
        caller must send, and the channel's error, unless the channel would only have blocked.
        (EINTR counts as an error: the caller calls again.) Returns LIMIT after `room` bytes, after
        `budget` bytes have been consumed or made, or after eight times as many have been
        decompressed: no other chunk is begun then. Returns END at `end`. Otherwise returns the
        outcome of transcode that needs the caller: BATCH, DAMAGE, END, SOURCE for an item of more
        than two chunks (one, if chunks are of 64 KiB or more) or at the end of the buffer, TARGET
        for a message that does not fit. Also returns SOURCE if nothing can be read or there is no
        memory. It does not return BATCH if the batch can become messages at once (as `recode` makes
        them, or uncompressed) that fit into the rest of `room`. These messages are one chunk. For
        that, a batch of up to `body_size_max` bytes is read, whatever the size of chunks. With
        COUNTER this is not done for compressed messages: their size is unknown before they are
        made.

        With MEMORY the result has all bytes made. Memory takes everything.

        After DAMAGE, `damage` has the position in the file.

        ValueError: the caller has entered a batch or message, `to_magic` is 2 in a batch, a number
        is negative, `chunk_size` is 0, the target is unknown, or the position is after `end` or
        after the buffer."""

    def recode(self, source: Buffer, start: int, end: int, codec: int) -> bytes | None:
        """Makes messages compressed with `codec` from the whole compressed entry
        `source[start:end]`: decompresses, converts and compresses at once.

        The transcoder must be in a log, before that entry. Records become messages as in a wrapper
        after `enter_batch` or `enter_entries`. The same entry always becomes the same bytes. The
        result is empty if no record is kept. The caller then continues after the entry. `totals`
        include the entry's size and the wrappers' own bytes.

        Returns None if the entry has to be read as a stream (`enter_batch`, `enter_entries`);
        nothing has changed then. The reasons: the entry is damaged (the CRC is not compared), it
        decompresses to more than `body_size_max` bytes, the messages in one wrapper would be more
        than `inner_size_max`, or its compressed data is not of the usual kind that a kernel
        decompresses at once. Also returns None for a v2 batch if `to_magic` is 2, and for an entry
        that is not compressed.

        ValueError: the transcoder is not in a log, the codec is not 1 to 3, or indices are outside
        of the buffer."""

    def record_head(
        self, source: Buffer, start: int, end: int, remaining: int
    ) -> tuple[int, int, int, int, int] | None:
        """The head of the v2 record at `start`. The record's body need not be in the window.

        Returns offset, timestamp, record size with its size varint, bytes before the key, and key
        size (-1: null). The available fields are checked by rules 1-5 above, as if the value were
        empty; rule 5 applies only to a record that rule 4 does not drop. None if no record is left,
        if the window ends before the key's size does (31 bytes always suffice), or if the head is
        damaged: then `damage` is set. ValueError outside of a v2 batch."""

    def record_converted(
        self, source_size: int, offset: int, timestamp: int, message_size: int
    ) -> None:
        """Tells the transcoder that the caller has converted the item at the position reached: a v2
        record, or an entry of a compressed message. The item had `source_size` bytes. It became a
        message of `message_size` bytes, or was dropped (0). ValueError for a negative size, in a
        log, if no record is left, or if the batch has fewer bytes left."""

    @property
    def damage(self) -> tuple[str, int] | None:
        """The error of the last call, and the index of the damaged item in the source buffer. None
        if there was none."""

    @property
    def in_batch(self) -> bool:
        """Whether the transcoder is in a v2 batch (of a log, or entered) and a record is next."""

    @property
    def append_time(self) -> int | None:
        """In a batch or entries under LogAppendTime: the timestamp of all its records."""

    @property
    def totals(self) -> tuple[int, int, int, int]:
        """Since the beginning: records converted, batches converted, temporary bytes, and
        decompressed bytes of entries recoded by `recode` and `advance`. Measuring counts as well.

        Temporary bytes are those of converted batches in the source, of messages produced and of
        entries copied unchanged. A batch counts with all its bytes when its first record is kept.
        An uncompressed message is a batch. An entered batch also counts, but without its source
        bytes, which only the caller knows."""

    @property
    def wrapper(self) -> tuple[int, int, int, int]:
        """The wrapper so far: records, first offset, last offset, maximum timestamp.

        (0, -1, -1, -1) if it is empty, and always if the entered data makes no wrapper. Only
        `enter_batch`, `enter_entries` and `start_wrapper` empty it."""

    @property
    def last_offset(self) -> int:
        """The offset of the last record or entry kept in this batch, or -1. It stays until the next
        batch is entered. Messages of a log do not change it."""
