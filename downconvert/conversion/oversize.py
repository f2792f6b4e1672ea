"""What a window of the log does not hold: entries that are copied in pieces, large records and
messages.

Not here: how a large record is read (large.py), large records in compressed batches
(compressed.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from records.errors import RecordTooLargeError
from records.formats import MAGIC_AT, MESSAGE_HEAD, NO_TIMESTAMP, PREFIX, SIZE_FIELD

from .cursors import FileCursor
from .large import LargeMessage, MessageStart, scan_message, scan_record

if TYPE_CHECKING:
    from .converter import Converter


class Oversize:
    """Takes over where the walk stands before something larger than its window."""

    def __init__(self) -> None:
        self.copied_bytes = 0
        self.messages = 0  # large v1 messages converted

    def convert(self, walk: Converter, left: int) -> Iterator[int]:
        """The record or entry at the walk's position, `left` bytes before the end of the range."""
        if walk.transcoder.in_batch:
            yield from self._record(walk, left)
            return
        offset, size = PREFIX.unpack_from(walk.source, walk.start)
        magic = walk.source[walk.start + MAGIC_AT]
        if magic <= walk.to_magic:
            yield from self._copy(walk, size + PREFIX.size)
        else:
            yield from self._message(walk, offset, size + PREFIX.size, magic)

    def _copy(self, walk: Converter, size: int) -> Iterator[int]:
        """An entry that goes out as it is."""
        self.copied_bytes += size
        walk.in_hand = size
        if walk.measuring:
            yield size
        else:
            cursor, left = FileCursor(walk.records, walk.position), size
            while left:
                count = cursor.read_into(walk.target[: min(left, len(walk.target))])
                left -= count
                yield count
        walk.transcoder.leave()  # if it was admitted, the next entry is not
        self._passed(walk, size)

    def _record(self, walk: Converter, left: int) -> Iterator[int]:
        """A record of an uncompressed v2 batch."""
        transcoder = walk.transcoder
        head = transcoder.record_head(walk.source, walk.start, walk.filled, left)
        if head is None:
            raise walk.damage()
        offset, timestamp, size, before_key, key_size = head
        self._check(walk, size)
        message = scan_record(
            FileCursor(walk.records, walk.position),
            size,
            before_key,
            key_size,
            MessageStart(walk.to_magic, offset, timestamp, transcoder.append_time is not None),
            None if walk.measuring else walk.target,
            walk.damaged,
        )
        kept = offset >= walk.first_offset
        transcoder.handled(size, offset, timestamp, message.size if kept else 0)
        if kept:
            yield from self._pieces(walk, message)
        self._passed(walk, size)

    def _message(self, walk: Converter, offset: int, size: int, magic: int) -> Iterator[int]:
        """An uncompressed v1 message, for a client that reads v0."""
        before_key = MESSAGE_HEAD[magic].size + SIZE_FIELD.size
        timestamp = MESSAGE_HEAD[magic].unpack_from(walk.source, walk.start)[5]
        self._check(walk, size)
        message = scan_message(
            FileCursor(walk.records, walk.position),
            size,
            before_key,
            MessageStart(walk.to_magic, offset, timestamp, log_append=False),
            None if walk.measuring else walk.target,
            walk.damaged,
        )
        if offset >= walk.first_offset:
            if timestamp < NO_TIMESTAMP:
                raise walk.damaged("negative timestamp")
            self.messages += 1
            self.copied_bytes += size + message.size
            yield from self._pieces(walk, message)
        self._passed(walk, size)

    def _pieces(self, walk: Converter, message: LargeMessage) -> Iterator[int]:
        if walk.measuring:
            yield message.size
        else:
            yield from message.pieces(FileCursor(walk.records, walk.position), walk.target)

    def _passed(self, walk: Converter, size: int) -> None:
        walk.position += size
        walk.in_hand = 0

    def _check(self, walk: Converter, size: int) -> None:
        walk.in_hand = size
        limit = walk.policy.record_size_max
        if limit is not None and size > limit:
            raise RecordTooLargeError(size, limit, walk.records.origin + walk.position)
