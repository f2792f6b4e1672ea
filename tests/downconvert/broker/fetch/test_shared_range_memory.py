"""Chunks of a shared range are held while they are sent, and released in every other case."""

from pathlib import Path

import pytest

from downconvert import ConversionPolicy
from downconvert.broker.fetch import shared_range
from downconvert.broker.fetch.conversion_cache import ConversionCache
from downconvert.broker.fetch.converted_chunk import Chunk, ChunkKey
from downconvert.broker.fetch.shared_range import Asker, take
from records import Codec, FileRecords
from records.budget import MemoryBudget
from records.formats import V1
from tests.downconvert.storage.logs import batch

from .test_shared_range import log_of

MiB = 1 << 20
POLICY = ConversionPolicy()
PLAIN = [batch(n, n + 1, size=200) for n in range(0, 20, 2)]


pytestmark = pytest.mark.usefixtures("small_chunks")


def known(records: FileRecords) -> ConversionCache:
    """A cache that caches what the next client fetches of these records."""
    cache = ConversionCache(MemoryBudget(MiB))
    assert take(cache, records, Asker(9, 1, 0, POLICY), is_tail=True).sends == []
    return cache


def filled(records: FileRecords) -> ConversionCache:
    """A cache with all chunks of these records."""
    cache = ConversionCache(MemoryBudget(MiB))
    for client in (1, 2):
        take(cache, records, Asker(client, 1, 0, POLICY), is_tail=True).close()
    assert len(cache) > 0
    return cache


def check_nothing_is_held(cache: ConversionCache) -> None:
    """Each cached chunk can be evicted, because nobody sends it."""
    cache.note_asked([], client=9, size=2 * MiB)
    assert (len(cache), cache.budget.held) == (0, 0)


def test_chunks_without_room_in_the_response_are_released(tmp_path: Path) -> None:
    """A chunk that is left for the next fetch is not held for this one."""
    cache = filled(records := log_of(tmp_path, *PLAIN))
    taken = take(cache, records, Asker(3, 1, 0, POLICY, room=1), is_tail=True)
    assert len(taken.sends) == 1
    taken.close()
    check_nothing_is_held(cache)


def test_a_chunk_longer_than_the_range_is_released_and_not_sent(tmp_path: Path) -> None:
    """A client gets no records after the range that it asked for."""
    cache = filled(records := log_of(tmp_path, *PLAIN))
    taken = take(cache, records.slice(0, len(PLAIN[0])), Asker(3, 1, 0, POLICY), is_tail=False)
    assert (taken.sends, taken.ends) == ([], shared_range.Ends.UNCACHED)
    check_nothing_is_held(cache)


def test_a_chunk_without_records_for_the_client_is_released(tmp_path: Path) -> None:
    """A client that begins after a chunk's last message is sent nothing of it."""
    cache = filled(records := log_of(tmp_path, *PLAIN[:1]))
    taken = take(cache, records, Asker(3, 1, 2, POLICY), is_tail=True)
    assert (taken.sends, taken.size, taken.source_size) == ([], 0, records.size)
    check_nothing_is_held(cache)


def test_a_chunk_that_depends_on_the_offset_replaces_the_shared_one(tmp_path: Path) -> None:
    """The shared chunk of a compressed batch is released when the client needs its own."""
    packed = batch(*range(20), size=90, codec=Codec.GZIP)
    cache = filled(records := log_of(tmp_path, packed))
    taken = take(cache, records, Asker(3, 1, 5, POLICY), is_tail=True)
    assert taken.size > 0
    taken.close()
    check_nothing_is_held(cache)


def test_chunks_are_released_when_the_disk_fails_after_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fetch that fails holds no chunk that it had taken before."""
    cache = filled(records := log_of(tmp_path, *PLAIN))
    find = cache.find

    def fail_later(key: ChunkKey) -> Chunk | None:
        if key.position:
            raise OSError("the disk failed")
        return find(key)

    monkeypatch.setattr(cache, "find", fail_later)
    with pytest.raises(OSError, match="the disk failed") as caught:
        take(cache, records, Asker(3, 1, 0, POLICY), is_tail=True)
    check_nothing_is_held(cache)
    assert caught.value is not None  # until here its frames keep what the fetch had taken


def test_a_second_client_counts_only_its_own_bytes(tmp_path: Path) -> None:
    """The statistics of one response are not changed by another client's."""
    records = log_of(tmp_path, *PLAIN[:1])
    cache = known(records)
    first = take(cache, records, Asker(1, 1, 0, POLICY), is_tail=True)
    size = first.sends[0].stats.bytes_out
    second = take(cache, records, Asker(2, 1, 1, POLICY), is_tail=True)
    assert second.sends[0].stats.bytes_out < size
    assert first.sends[0].stats.bytes_out == size
    assert [send.stats.records_converted for send in first.sends + second.sends] == [2, 1]
    third = take(cache, records, Asker(3, 1, 0, POLICY), is_tail=True)
    assert third.sends[0].stats.records_converted == 2


def test_the_first_client_inside_a_batch_does_not_change_the_count_of_the_next(
    tmp_path: Path,
) -> None:
    """The client that has a chunk converted may begin in its middle."""
    records = log_of(tmp_path, *PLAIN[:1])
    cache = known(records)
    inside = take(cache, records, Asker(1, 1, 1, POLICY), is_tail=True)
    whole = take(cache, records, Asker(2, 1, 0, POLICY), is_tail=True)
    assert [one.sends[0].stats.records_converted for one in (inside, whole)] == [1, 2]


def test_a_compressed_message_of_v1_may_begin_before_the_fetch_offset(tmp_path: Path) -> None:
    """A v1 message states its last offset only, so the messages before the fetch offset go."""
    old = batch(*range(4), size=90, codec=Codec.GZIP, magic=V1)
    records = log_of(tmp_path, old)
    cache = ConversionCache(MemoryBudget(MiB))
    take(cache, records, Asker(9, 0, 0, POLICY), is_tail=True)
    sizes = []
    for client, offset in ((1, 0), (2, 3)):
        taken = take(cache, records, Asker(client, 0, offset, POLICY), is_tail=True)
        sizes.append(sum(send.stats.records_converted for send in taken.sends))
        taken.close()
    assert sizes == [4, 1]


def test_the_last_chunk_of_a_log_is_sent_with_those_before_it(tmp_path: Path) -> None:
    """At the tail of a log, one response has everything up to the end."""
    records = log_of(tmp_path, *PLAIN)
    cache = ConversionCache(MemoryBudget(MiB))
    for client, ends in ((1, shared_range.Ends.UNCACHED), (2, shared_range.Ends.ALL)):
        taken = take(cache, records, Asker(client, 1, 0, POLICY), is_tail=True)
        assert taken.ends is ends
    assert len(taken.sends) > 1
    assert taken.source_size == records.size
