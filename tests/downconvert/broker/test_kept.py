"""Converted bytes that are kept: the same bytes, once, and only so many of them."""

from io import BytesIO
from pathlib import Path

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords
from downconvert.broker.kept import KeepRoom, KeptSend
from downconvert.broker.wire.schemas import ApiKey
from records import Codec, MemoryRecords, RecordsError
from records.formats import BATCH_HEADER_SIZE
from tests.damage import spliced
from tests.downconvert.storage.logs import batch

from .asking import begin, sent
from .fetching import OLD_VERSIONS, broker_of, fetch, records_of, request

POLICY = ConversionPolicy()
BATCHES = b"".join(batch(*range(n, n + 50), codec=Codec.LZ4, size=90) for n in (0, 50))


def written(send: KeptSend) -> bytes:
    channel = BytesIO()
    while not send.completed:
        send.write_to(channel)
    return channel.getvalue()


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("first_offset", [0, 30, 70])
def test_what_is_kept_is_what_would_have_been_converted_lazily(
    magic: int, first_offset: int
) -> None:
    room = KeepRoom(1_000_000)
    records = MemoryRecords(BATCHES)
    kept = KeptSend.of(records, magic, first_offset, POLICY, room)
    assert kept is not None
    lazy = LazyDownConvertRecords(records, magic, first_offset, POLICY).to_send()
    channel = BytesIO()
    while not lazy.completed:
        lazy.write_to(channel)
    assert written(kept) == channel.getvalue()
    assert kept.stats.records_converted == lazy.stats.records_converted
    assert room.left == 1_000_000


def test_nothing_is_kept_where_there_is_no_room() -> None:
    room = KeepRoom(100)
    assert KeptSend.of(MemoryRecords(BATCHES), 1, 0, POLICY, room) is None
    assert room.left == 100


def test_room_comes_back_when_a_connection_ends() -> None:
    room = KeepRoom(1_000_000)
    kept = KeptSend.of(MemoryRecords(BATCHES), 1, 0, POLICY, room)
    assert room.left < 1_000_000
    del kept
    assert room.left == 1_000_000


def test_what_is_good_in_front_of_damage_is_kept() -> None:
    bad = spliced(batch(2, codec=Codec.LZ4), BATCH_HEADER_SIZE, b"no lz4.", drop=7)
    room = KeepRoom(1_000_000)
    kept = KeptSend.of(MemoryRecords(batch(0, 1, codec=Codec.LZ4) + bad), 1, 0, POLICY, room)
    assert kept is not None
    assert kept.size
    assert kept.damage is not None
    with pytest.raises(RecordsError):
        KeptSend.of(MemoryRecords(bad), 1, 0, POLICY, room)


@pytest.mark.parametrize("room", [0, 16_000_000])
@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_clients_get_the_same_with_and_without_room(
    version: int, room: int, tmp_path: Path
) -> None:
    segments = {0: [BATCHES], 100: [batch(100, codec=Codec.GZIP), batch(101)]}
    with broker_of(tmp_path, {"events": segments}, conversions_kept_bytes=room) as broker:
        found = records_of(fetch(broker, version, "events", 33))
        assert [one.offset for one in found] == list(range(33, 102))


def test_a_broker_keeps_no_more_than_it_has_room_for(tmp_path: Path) -> None:
    topics = {f"t{i}": {0: [BATCHES]} for i in range(6)}
    room = 2 * len(BATCHES)
    with broker_of(tmp_path, topics, conversions_kept_bytes=room) as broker:
        exchange = begin(broker, ApiKey.Fetch, 3, request(broker, dict.fromkeys(topics, 0)))
        assert 0 <= broker.keep_room.left < room
        assert len(sent(exchange)) > 6 * len(BATCHES) // 2
        assert broker.keep_room.left == room
