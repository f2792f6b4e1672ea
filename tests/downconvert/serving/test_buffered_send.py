"""Converted bytes that are kept: the same bytes, once, and only so many of them."""

from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords
from downconvert.serving import buffered_send
from downconvert.serving.buffered_send import (
    BufferedConversion,
    BufferedSend,
    NoMemoryError,
)
from records import Codec, MemoryRecords, RecordsError
from records.budget import MemoryBudget
from records.formats import BATCH_HEADER_SIZE
from tests.damage import spliced
from tests.downconvert.broker.fetching import OLD_VERSIONS, broker_of, fetch, records_of
from tests.downconvert.storage.logs import batch

POLICY = ConversionPolicy()
BATCHES = b"".join(batch(*range(n, n + 50), codec=Codec.LZ4, size=90) for n in (0, 50))


def kept_of(
    records: Any, room: MemoryBudget, magic: int = 1, first_offset: int = 0, **policy: Any
) -> BufferedSend:
    keeping = BufferedConversion(records, magic, first_offset, ConversionPolicy(**policy), room)
    keeping.run()
    kept = keeping.kept()
    return BufferedSend(kept, kept.stats)


def written(send: BufferedSend) -> bytes:
    channel = BytesIO()
    while not send.completed:
        send.write_to(channel)
    return channel.getvalue()


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("first_offset", [0, 30, 70])
def test_kept_bytes_equal_a_lazy_conversion(magic: int, first_offset: int) -> None:
    room = MemoryBudget(1_000_000)
    records = MemoryRecords(BATCHES)
    kept = kept_of(records, room, magic, first_offset)
    lazy = LazyDownConvertRecords(records, magic, first_offset, POLICY).to_send()
    channel = BytesIO()
    while not lazy.completed:
        lazy.write_to(channel)
    assert written(kept) == channel.getvalue()
    assert kept.stats.records_converted == lazy.stats.records_converted
    assert room.left == 1_000_000


def test_nothing_is_kept_where_there_is_no_room() -> None:
    room = MemoryBudget(100)
    with pytest.raises(NoMemoryError):
        kept_of(MemoryRecords(BATCHES), room)
    assert room.left == 100


class FailingRecords:
    """Records on a disk that fails after some reads."""

    def __init__(self, data: bytes, reads: int) -> None:
        self._records = MemoryRecords(data)
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    @property
    def view(self) -> None:
        return None

    def read_into(self, target: memoryview, position: int) -> int:
        if not self._reads:
            raise OSError("the disk is gone")
        self._reads -= 1
        return self._records.read_into(target, position)


def test_room_comes_back_when_the_disk_fails() -> None:
    batches = b"".join(batch(*range(n, n + 50), size=90) for n in range(0, 1000, 50))
    took = []

    class Watched(MemoryBudget):
        def take(self, size: int) -> bool:
            took.append(size)
            return super().take(size)

    room = Watched(1_000_000)
    with pytest.raises(OSError, match="disk is gone"):
        kept_of(FailingRecords(batches, 3), room, chunk_size=4096)
    assert took, "something had been kept by then"
    assert room.left == 1_000_000


def test_unsent_bytes_return_to_the_budget_at_once() -> None:
    room = MemoryBudget(1_000_000)
    kept = kept_of(MemoryRecords(BATCHES), room)
    kept.close()
    kept.close()
    assert room.left == 1_000_000


def test_room_comes_back_when_a_connection_ends() -> None:
    room = MemoryBudget(1_000_000)
    kept = kept_of(MemoryRecords(BATCHES), room)
    assert room.left < 1_000_000
    del kept
    assert room.left == 1_000_000


def test_batches_before_damage_are_kept() -> None:
    bad = spliced(batch(2, codec=Codec.LZ4), BATCH_HEADER_SIZE, b"no lz4.", drop=7)
    room = MemoryBudget(1_000_000)
    records = MemoryRecords(batch(0, 1, codec=Codec.LZ4) + bad)
    keeping = BufferedConversion(records, 1, 0, POLICY, room)
    keeping.run()
    assert keeping.damage is not None
    assert keeping.kept().data
    with pytest.raises(RecordsError):
        kept_of(MemoryRecords(bad), room)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_each_call_does_about_the_work_that_it_is_given(codec: Codec) -> None:
    """The last calls, too, after which much has been done."""
    batches = b"".join(batch(*range(n, n + 50), codec=codec, size=90) for n in range(0, 4000, 50))
    once = BufferedConversion(
        MemoryRecords(batches), 1, 0, ConversionPolicy(chunk_size=4096), MemoryBudget(10_000_000)
    )
    once.run()
    assert once.work_done > 300_000
    for work in (30_000, 100_000):
        room = MemoryBudget(10_000_000)
        policy = ConversionPolicy(chunk_size=4096)
        keeping = BufferedConversion(MemoryRecords(batches), 1, 0, policy, room)
        done = [0]
        while True:
            left = keeping.run(work)
            done.append(keeping.work_done)
            assert left == work - (done[-1] - done[-2])
            if left > 0:
                break
            assert done[-1] - done[-2] >= work
        assert bytes(keeping.kept().data) == bytes(once.kept().data)
        assert len(done) - 2 <= once.work_done / work


@pytest.mark.parametrize("room", [0, 16_000_000])
@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_clients_get_the_same_with_and_without_room(
    version: int, room: int, tmp_path: Path
) -> None:
    segments = {0: [BATCHES], 100: [batch(100, codec=Codec.GZIP), batch(101)]}
    with broker_of(tmp_path, {"events": segments}, conversions_kept_bytes=room) as broker:
        found = records_of(fetch(broker, version, "events", 33))
        assert [one.offset for one in found] == list(range(33, 102))


@pytest.mark.parametrize("more", [-1000, -1, 0, 1])
@pytest.mark.parametrize("sent_before", [0, 1, 500])
def test_a_cut_send_is_the_beginning_of_the_whole(more: int, sent_before: int) -> None:
    """`sent_before`: bytes that went out together with the response's header."""
    room = MemoryBudget(1_000_000)
    whole = written(kept_of(MemoryRecords(BATCHES), room))
    send = kept_of(MemoryRecords(BATCHES), room)
    send.cut(len(whole) + more)
    expected = whole[: len(whole) + more]
    assert send.size == len(expected)
    copied = bytearray(send.size)
    assert send.copy_to(memoryview(copied))
    send.skip(sent_before)
    assert copied == expected == expected[:sent_before] + written(send)
    assert room.left == 1_000_000


@pytest.mark.parametrize("holders", [1, 2, 5])
def test_bytes_with_several_holders_are_kept_until_the_last_release(holders: int) -> None:
    room = MemoryBudget(1_000_000)
    keeping = BufferedConversion(MemoryRecords(BATCHES), 1, 0, POLICY, room)
    keeping.run()
    assert room.take(70)
    kept = keeping.kept(overhead=70)
    whole, held = bytes(kept.data), room.held
    assert held == len(whole) + 70
    for _ in range(holders - 1):
        assert kept.hold() is kept
    for left in range(holders, 0, -1):
        assert kept.is_shared is (left > 1)
        assert (kept.data, room.held) == (whole, held)
        kept.release()
    assert (kept.data, room.held) == (b"", 0)


@pytest.mark.parametrize("excess", [0, 1])
def test_all_pieces_of_a_range_together_have_a_limit(
    monkeypatch: pytest.MonkeyPatch, excess: int
) -> None:
    room = MemoryBudget(10_000_000)
    records = MemoryRecords(b"".join(batch(n, size=30_000) for n in range(20)))
    size = kept_of(records, room).size
    assert size > 500_000, "of many pieces"
    monkeypatch.setattr(buffered_send, "BUFFERED_SIZE_MAX", size - excess)
    if not excess:
        assert kept_of(records, room).size == size
        return
    with pytest.raises(NoMemoryError) as raised:
        kept_of(records, room)
    assert raised.value.is_large
    assert room.left == 10_000_000
