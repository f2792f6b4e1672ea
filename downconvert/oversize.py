"""What a window of the log does not hold: entries that are copied in pieces, large records and
messages.

Not here: how a large record is read (large.py), large records in compressed batches
(compressed.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from records.errors import CorruptRecordsError, RecordTooLargeError
from records.formats import MAGIC_AT, MESSAGE_HEAD, NO_TIMESTAMP, PREFIX, SIZE_FIELD

from .cursors import FileCursor
from .large import LargeMessage, MessageStart, scan_message, scan_record

if TYPE_CHECKING:
    from .converter import Converter


class Oversize:
    """Takes over where the walk stands before something larger than its window."""

    def __init__(self, walk: Converter) -> None:
        self._walk = walk
        self.copied_bytes = 0
        self.messages = 0  # large v1 messages converted

    def convert(self, left: int) -> Iterator[int]:
        """The record or entry at the walk's position, `left` bytes before the end of the range."""
        walk = self._walk
        if walk.transcoder.in_batch:
            yield from self._record(left)
            return
        offset, size = PREFIX.unpack_from(walk.source)
        magic = walk.source[MAGIC_AT]
        if magic <= walk.to_magic:
            yield from self._copy(size + PREFIX.size)
        else:
            yield from self._message(offset, size + PREFIX.size, magic)

    def _copy(self, size: int) -> Iterator[int]:
        """An entry that goes out as it is."""
        walk = self._walk
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
        self._passed(size)

    def _record(self, left: int) -> Iterator[int]:
        """A record of an uncompressed v2 batch."""
        walk, transcoder = self._walk, self._walk.transcoder
        head = transcoder.record_head(walk.source, 0, walk.filled, left)
        if head is None:
            raise walk.damage()
        offset, timestamp, size, before_key, key_size = head
        self._check(size)
        message = scan_record(
            FileCursor(walk.records, walk.position),
            size,
            before_key,
            key_size,
            MessageStart(walk.to_magic, offset, timestamp, transcoder.append_time is not None),
            self._scratch,
            self._damage,
        )
        kept = offset >= walk.first_offset
        transcoder.handled(size, offset, timestamp, message.size if kept else 0)
        if kept:
            yield from self._pieces(message)
        self._passed(size)

    def _message(self, offset: int, size: int, magic: int) -> Iterator[int]:
        """An uncompressed v1 message, for a client that reads v0."""
        walk = self._walk
        before_key = MESSAGE_HEAD[magic].size + SIZE_FIELD.size
        timestamp = MESSAGE_HEAD[magic].unpack_from(walk.source)[5]
        self._check(size)
        message = scan_message(
            FileCursor(walk.records, walk.position),
            size,
            before_key,
            MessageStart(walk.to_magic, offset, timestamp, log_append=False),
            self._scratch,
            self._damage,
        )
        if offset >= walk.first_offset:
            if timestamp < NO_TIMESTAMP:
                raise self._damage("negative timestamp")
            self.messages += 1
            self.copied_bytes += size + message.size
            yield from self._pieces(message)
        self._passed(size)

    def _pieces(self, message: LargeMessage) -> Iterator[int]:
        walk = self._walk
        if walk.measuring:
            yield message.size
        else:
            yield from message.pieces(FileCursor(walk.records, walk.position), walk.target)

    @property
    def _scratch(self) -> memoryview | None:
        return None if self._walk.measuring else self._walk.target

    def _passed(self, size: int) -> None:
        self._walk.position += size
        self._walk.in_hand = 0

    def _check(self, size: int) -> None:
        self._walk.in_hand = size
        limit = self._walk.policy.record_size_max
        if limit is not None and size > limit:
            walk = self._walk
            raise RecordTooLargeError(size, limit, walk.records.origin + walk.position)

    def _damage(self, reason: str) -> CorruptRecordsError:
        return CorruptRecordsError(reason, self._walk.records.origin + self._walk.position)
