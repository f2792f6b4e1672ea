"""The rules of a log: which entries are passed, dropped, copied or entered.

Not here: the records of an entered batch (inside.py)."""

from typing import Final

from records.formats import (
    ATTRIBUTES_AT_LEGACY,
    BATCH_HEADER_SIZE,
    BATCH_SIZE_MIN,
    CODEC_MASK,
    CONTROL,
    ENTRY_HEAD_SIZE,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MESSAGE_SIZE_MIN,
    PREFIX,
    RECORD_SIZE_MIN,
    TRANSACTIONAL,
    V0,
    V1,
    V2,
    TimestampType,
)
from records.kernel import Outcome

from . import writing
from .account import check_timestamp
from .call import Call, Damaged, Stop
from .items import Item, message, offset_and_timestamp
from .places import Batch, Header
from .state import State

LEGACY_HEAD_SIZE: Final = ATTRIBUTES_AT_LEGACY + 1  # in both formats, up to the attributes


def take_entry(state: State, call: Call) -> None:
    """Takes the entry at the call's position: passes it whole, or enters it to read its records."""
    window = call.window
    if window.remaining <= ENTRY_HEAD_SIZE:  # 1
        raise Stop(Outcome.END)
    window.need(LEGACY_HEAD_SIZE)
    size = PREFIX.unpack_from(window.source, window.at)[1]  # 2
    if size < MESSAGE_SIZE_MIN:
        raise Damaged("entry is smaller than a message header")
    magic = window.source[window.at + MAGIC_AT]
    if magic not in (V0, V1, V2):
        raise Damaged("unknown magic")
    size += PREFIX.size
    if size > window.remaining:
        raise Stop(Outcome.END)
    if magic == V2:  # 3
        if size < BATCH_HEADER_SIZE:
            raise Damaged("batch is smaller than its header")
        window.need(BATCH_HEADER_SIZE)
        attributes = Header.read(window.source, window.at).attributes
    else:
        attributes = window.source[window.at + ATTRIBUTES_AT_LEGACY]
    codec = attributes & CODEC_MASK
    if magic <= state.to_magic and not call.wants_rows:  # 4
        _copy(state, call, size, codec)
    elif magic == V2:  # 5
        _take_batch(state, call, size, codec)
    else:  # 6
        _take_message(state, call, magic, size, attributes)


def _copy(state: State, call: Call, size: int, codec: int) -> None:
    window = call.window
    if not state.pass_codecs >> codec & 1 and not state.is_accepted:
        raise Stop(Outcome.BATCH)
    window.need(size)
    call.target.put(bytes(window.source[window.at : window.at + size]))
    state.account.temporary_bytes += size
    _pass_entry(state, call, size)


def _take_batch(state: State, call: Call, size: int, codec: int) -> None:
    header = Header.read(call.window.source, call.window.at)
    if header.records_count < 0:  # a
        raise Damaged("negative record count")
    if header.attributes & CONTROL:  # b
        if (state.stop_transactional or call.wants_rows) and not state.is_accepted:
            raise Stop(Outcome.BATCH)
        if not call.wants_rows:
            _pass_entry(state, call, size)
            return
    if codec:  # c
        raise Stop(Outcome.BATCH)
    is_transactional = header.attributes & TRANSACTIONAL
    if is_transactional and state.stop_transactional and not state.is_accepted:  # d
        raise Stop(Outcome.BATCH)
    if header.records_count == 0 or header.ends_before(state.first_offset):  # e
        _pass_entry(state, call, size)
        return
    if header.records_count > (header.size - BATCH_SIZE_MIN) // RECORD_SIZE_MIN:  # f
        raise Damaged("more records than bytes")
    _pass_entry(state, call, BATCH_HEADER_SIZE)  # g
    state.place = Batch.of(header, state.to_magic, is_wrapper=False, in_log=True)
    state.account.start_batch()


def _take_message(state: State, call: Call, magic: int, size: int, attributes: int) -> None:
    window = call.window
    if attributes & CODEC_MASK:
        raise Stop(Outcome.BATCH)
    window.need(size)
    payload = message(window, magic, size)
    offset, timestamp = offset_and_timestamp(window, magic)
    if offset < state.first_offset:
        _pass_entry(state, call, size)
        return
    if call.wants_rows:
        kind = TimestampType.NONE
        if magic == V1:
            kind = TimestampType(bool(attributes & LOG_APPEND_TIME))
        call.target.put(writing.row(Item(offset, timestamp, kind, payload)))
    else:
        check_timestamp(timestamp)
        contents = payload.contents(window.source)
        older = writing.message(state.to_magic, offset, timestamp, False, *contents)
        call.target.put(older)
        state.account.keep_message(size, len(older))
    _pass_entry(state, call, size)


def _pass_entry(state: State, call: Call, size: int) -> None:
    call.window.at += size
    state.is_accepted = False
