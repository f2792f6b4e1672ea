"""The rules for records of a batch and entries of a message.

Not here: reading a record or message (items.py), the rules for its order (account.py)."""

from records.formats import (
    ATTRIBUTES_AT_LEGACY,
    CODEC_MASK,
    MAGIC_AT,
    MESSAGE_SIZE_MIN,
    PREFIX,
    V0,
    V1,
    TimestampType,
)
from records.kernel import UNKNOWN, Outcome

from . import items, writing
from .call import Call, Damaged, Stop, Window
from .items import Item
from .places import Batch, Entries, Inside, wrapped
from .state import State


def take_record(state: State, call: Call, batch: Batch) -> None:
    window = call.window
    if _is_read(batch):  # 1
        if batch.bytes_left == UNKNOWN:
            raise Stop(Outcome.END)
        state.place = None
        return
    head, payload = items.record(window, batch.bytes_left)  # 2, 3
    offset, timestamp = batch.offset_and_timestamp(head)  # 4
    if not state.drops(batch, offset):
        kind = TimestampType(batch.append_time is not None)
        _put(state, call, batch, Item(offset, timestamp, kind, payload))  # 5, 6, 7
    batch.pass_record(head.end - window.at)
    window.at = head.end


def _is_read(batch: Batch) -> bool:
    """Rule 1 of records: whether all records of the batch have been read."""
    if batch.records_left:
        return False
    if batch.bytes_left not in (0, UNKNOWN):
        raise Damaged("bytes left after the last record")
    return True


def take_inner_entry(state: State, call: Call, entries: Entries) -> None:
    window = call.window
    if window.remaining < PREFIX.size:
        raise Stop(Outcome.END)
    window.need(PREFIX.size)
    size = PREFIX.unpack_from(window.source, window.at)[1]
    if size < MESSAGE_SIZE_MIN:
        raise Damaged("entry is smaller than a message header")
    size += PREFIX.size
    if size > window.remaining:
        raise Stop(Outcome.END)
    window.need(size)
    magic = window.source[window.at + MAGIC_AT]
    if magic not in (V0, V1):
        raise Damaged("unknown magic")
    if window.source[window.at + ATTRIBUTES_AT_LEGACY] & CODEC_MASK:
        raise Damaged("compressed message inside a compressed message")
    payload = items.message(window, magic, size)
    offset, timestamp = items.offset_and_timestamp(window, magic)
    offset = wrapped(offset + entries.offset_delta)
    kind = TimestampType.CREATE if magic == V1 else TimestampType.NONE
    if entries.append_time is not None:
        timestamp, kind = entries.append_time, TimestampType.LOG_APPEND
    if not state.drops(entries, offset):
        _put(state, call, entries, Item(offset, timestamp, kind, payload))
    window.at += size


def _put(state: State, call: Call, place: Inside, item: Item) -> None:
    """Rules 5 to 7 of records. Only rule 7 applies to rows."""
    if call.wants_rows:
        call.target.put(writing.row(item))
        return
    account, payload = state.account, item.payload
    account.check(place, item.offset, item.timestamp, payload.key_size, payload.value_size)
    split_at_gaps = state.recodes.split_at_gaps
    message = writing.message(
        place.to_magic,
        account.offset_in(place, item.offset, split_at_gaps=split_at_gaps),
        item.timestamp,
        place.append_time is not None,
        *payload.contents(call.window.source),
    )
    call.target.put(message)
    account.keep(place, item.offset, item.timestamp, len(message))


def record_head(state: State, window: Window, batch: Batch) -> tuple[int, int, int, int, int]:
    """Applies rules 1 to 5 of records to the beginning of a record."""
    if _is_read(batch):
        raise Stop(Outcome.END)
    head = items.record_head(items.record_body(window, batch.bytes_left))
    offset, timestamp = batch.offset_and_timestamp(head)
    if not state.drops(batch, offset):
        state.account.check(batch, offset, timestamp, head.key_size, 0)
    return (
        offset,
        timestamp,
        head.end - window.at,
        head.key_at - window.at,
        head.key_size,
    )
