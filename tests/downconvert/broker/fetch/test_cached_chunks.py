"""The cache of converted chunks: what it keeps, which chunk it evicts first, and which clients it
remembers."""

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from random import Random

import pytest

from downconvert import ConversionPolicy
from downconvert.broker.fetch.contribution import RECORDS_SIZE_MAX
from downconvert.broker.fetch.conversion_cache import ASKED_MAX, PLAIN_REACH, ConversionCache
from downconvert.broker.fetch.converted_chunk import Chunk, ChunkKey, Converting, Place
from downconvert.broker.fetch.shared_range import Asker, Ends, SharedRange, take
from downconvert.serving.planning_slots import Wake
from records import Codec, FileRecords
from records.budget import MemoryBudget
from tests.downconvert.storage.logs import batch

KiB, MiB = 1 << 10, 1 << 20
POLICY = ConversionPolicy()
ROOM = 40 * KiB  # for three chunks, and not for four


def logs_of(path: Path, count: int, size: int = 10 * KiB) -> list[FileRecords]:
    """Files of one batch each."""
    found = []
    for number in range(count):
        file = path / str(number)
        file.write_bytes(batch(0, size=size))
        found.append(FileRecords.open(file))
    return found


def asked(cache: ConversionCache, records: FileRecords, client: int = 1) -> SharedRange:
    """A fetch at the tail of a log."""
    return take(cache, records, Asker(client, 1, 0, POLICY), is_tail=True)


def kept(cache: ConversionCache, records: FileRecords) -> SharedRange:
    """A fetch by the second client of these records."""
    asked(cache, records, 98).close()
    return asked(cache, records, 99)


def is_cached(cache: ConversionCache, records: FileRecords) -> bool:
    before = cache.hits
    asked(cache, records).close()
    return cache.hits > before


def place(number: int, *, magic: int = 1, file: int = 1) -> Place:
    return Place(file, number, magic, POLICY)


def test_the_least_recently_used_chunk_goes_first(tmp_path: Path) -> None:
    a, b, c, d = logs_of(tmp_path, 4)
    cache = ConversionCache(MemoryBudget(3 * ROOM * PLAIN_REACH))
    assert cache.budget.take(cache.budget.size - ROOM)
    for one in (a, b, c):
        kept(cache, one).close()
    assert (len(cache), cache.evictions, cache.hits) == (3, 0, 0)
    asked(cache, a).close()
    kept(cache, d).close()
    assert (len(cache), cache.evictions, cache.hits) == (3, 1, 1)
    assert [is_cached(cache, one) for one in (a, c, d)] == [True] * 3
    assert not is_cached(cache, b)


def test_a_chunk_that_is_being_sent_stays(tmp_path: Path) -> None:
    a, b, c, d = logs_of(tmp_path, 4)
    cache = ConversionCache(MemoryBudget(3 * ROOM * PLAIN_REACH))
    assert cache.budget.take(cache.budget.size - ROOM)
    sending = kept(cache, a)
    for one in (b, c, d):
        kept(cache, one).close()
    assert cache.evictions == 1
    assert is_cached(cache, a)
    held = cache.budget.held
    sending.close()
    assert cache.budget.held == held
    assert not is_cached(cache, b)


def test_memory_is_given_back_with_the_last_user_of_a_chunk(tmp_path: Path) -> None:
    (one,) = logs_of(tmp_path, 1)
    cache = ConversionCache(MemoryBudget(MiB))
    first, second = kept(cache, one), asked(cache, one)
    assert 10 * KiB < cache.budget.held < 13 * KiB
    first.close()
    cache.note_asked([], client=3, size=MiB + 1)
    assert len(cache) == 1, "it is being sent"
    second.close()
    cache.note_asked([], client=3, size=MiB + 1)
    assert (len(cache), cache.budget.held, cache.evictions) == (0, 0, 1)


@pytest.mark.parametrize("seed", range(4))
def test_the_cache_agrees_with_a_simple_model(tmp_path: Path, seed: int) -> None:
    """The model: each entry has its last use, counted in bytes that all clients have fetched."""
    random, logs = Random(seed), logs_of(tmp_path, 8)
    size = logs[0].size
    reach = 5 * size
    cache = ConversionCache(MemoryBudget(reach * PLAIN_REACH))
    chunks, first_clients = dict[int, int](), dict[int, tuple[int, int]]()
    hits = misses = evictions = fetched = 0
    for _ in range(400):
        number, client = (
            random.choice((random.randrange(3), random.randrange(8))),
            random.randrange(3),
        )
        asked(cache, logs[number], client).close()
        first, last_use = first_clients.get(number, (client, fetched))
        is_wanted = first != client and fetched - last_use <= reach
        if number in chunks:
            hits += 1
            del chunks[number]
            chunks[number] = fetched + size
        fetched += size
        for unused in [n for n, used in chunks.items() if used + reach < fetched]:
            evictions += 1
            del chunks[unused]
        if cache.hits < hits or number not in chunks:
            misses += 1
            if is_wanted:
                chunks[number] = fetched
            else:
                first_clients[number] = first, fetched
        found = cache.hits, cache.misses, cache.evictions, len(cache)
        assert found == (hits, misses, evictions, len(chunks))
    assert min(hits, evictions) > 20


@pytest.mark.parametrize(("codec", "reach"), [(Codec.NONE, MiB // PLAIN_REACH), (Codec.GZIP, MiB)])
def test_a_chunk_stays_while_clients_fetch_as_much_as_its_reach(
    tmp_path: Path, codec: Codec, reach: int
) -> None:
    file = tmp_path / "log"
    file.write_bytes(batch(*range(9), size=100, codec=codec))
    records = FileRecords.open(file)
    cache = ConversionCache(MemoryBudget(MiB))
    asked(cache, records, 98).close()
    for _ in range(2):  # a hit counts as a use
        asked(cache, records).close()
        cache.note_asked([], client=3, size=reach - records.size)
        assert len(cache) == 1
    cache.note_asked([], client=3, size=2 * records.size + 1)
    assert len(cache) == 0


@pytest.mark.parametrize(
    ("policy", "budget", "expected"),
    [
        (POLICY, MiB, True),
        (POLICY, 0, False),
        (replace(POLICY, size="estimate"), MiB, False),
        (replace(POLICY, trim_compressed=False), MiB, False),
        (replace(POLICY, isolation="read_committed"), MiB, False),
    ],
)
def test_only_chunks_that_are_the_same_for_all_are_kept(
    policy: ConversionPolicy, budget: int, expected: bool
) -> None:
    assert ConversionCache(MemoryBudget(budget)).keeps(policy) is expected


def test_a_file_that_is_opened_again_is_another(tmp_path: Path) -> None:
    cache = ConversionCache(MemoryBudget(MiB))
    one, other = logs_of(tmp_path, 2)
    again = FileRecords.open(tmp_path / "0")
    numbers = [cache.number_of(each) for each in (one, other, again, one.slice(0, 10), other)]
    assert len(set(numbers[:3])) == 3
    assert numbers[3:] == numbers[:2]
    kept(cache, one).close()
    assert not is_cached(cache, again)


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_place_is_wanted_by_another_client_within_its_reach(is_plain: bool) -> None:
    reach = MiB // PLAIN_REACH if is_plain else MiB
    cache = ConversionCache(MemoryBudget(MiB))

    def wanted(number: int, client: int) -> bool:
        return cache.is_asked_again(place(number), client, is_plain=is_plain)

    cache.note_asked([place(1), place(2)], client=7, size=100)
    assert [wanted(number, client) for number, client in ((1, 7), (1, 8), (2, 8), (3, 8))] == [
        False,
        True,
        True,
        False,
    ]
    assert not cache.is_asked_again(place(1, magic=0), 8, is_plain=is_plain)
    cache.note_asked([], client=9, size=reach)
    assert wanted(1, 8)
    cache.note_asked([place(2)], client=8, size=1)  # the first client stays the first
    assert not wanted(1, 8)
    assert (wanted(2, 7), wanted(2, 8)) == (False, True)
    assert cache.misses == 3


def test_only_so_many_places_are_remembered() -> None:
    cache = ConversionCache(MemoryBudget(MiB))
    cache.note_asked(map(place, range(ASKED_MAX)), client=1, size=0)
    cache.note_asked([place(0)], client=2, size=0)  # used again, so it stays
    cache.note_asked([place(ASKED_MAX)], client=1, size=0)
    wanted = [
        cache.is_asked_again(place(number), 3, is_plain=True) for number in (0, 1, 2, ASKED_MAX)
    ]
    assert wanted == [True, False, True, True]


def appended(cache: ConversionCache, path: Path, count: int) -> FileRecords:
    """A log whose batches were converted one by one, as they came."""
    file = path / "log"
    made = [batch(number, size=100) for number in range(count)]
    file.write_bytes(b"".join(made))
    records = FileRecords.open(file)
    for number in range(count):
        one = records.slice(number * len(made[0]), len(made[0]))
        for client in (98, 99):
            take(cache, one, Asker(client, 1, number, POLICY), is_tail=True).close()
    return records


@pytest.mark.parametrize(
    ("room", "count", "ends"),
    [
        (lambda _: 1, 1, Ends.LATER),
        (lambda size: size, 1, Ends.LATER),
        (lambda size: 2 * size - 1, 1, Ends.LATER),
        (lambda size: 2 * size, 2, Ends.LATER),
        (lambda size: 3 * size, 3, Ends.ALL),
        (lambda _: RECORDS_SIZE_MAX, 3, Ends.ALL),
    ],
)
def test_a_response_has_the_whole_chunks_that_it_has_room_for(
    tmp_path: Path, room: Callable[[int], int], count: int, ends: Ends
) -> None:
    cache = ConversionCache(MemoryBudget(MiB))
    records = appended(cache, tmp_path, 3)
    whole = asked(cache, records)
    size = whole.sends[0].size
    whole.close()
    taken = take(cache, records, Asker(1, 1, 0, POLICY, room(size)), is_tail=True)
    assert (len(taken.sends), taken.size, taken.ends) == (count, count * size, ends)
    taken.close()
    cache.note_asked([], client=3, size=MiB + 1)
    assert (len(cache), cache.budget.held) == (0, 0)


def test_a_chunk_that_reaches_beyond_the_range_is_not_sent(tmp_path: Path) -> None:
    cache = ConversionCache(MemoryBudget(MiB))
    (one,) = logs_of(tmp_path, 1)
    kept(cache, one).close()
    part = take(cache, one.slice(0, one.size - 1), Asker(2, 1, 0, POLICY), is_tail=False)
    assert (part.sends, part.source_size) == ([], 0)
    cache.note_asked([], client=3, size=MiB + 1)
    assert cache.budget.held == 0


def test_an_error_of_the_disk_leaves_no_chunk_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ConversionCache(MemoryBudget(MiB))
    records = appended(cache, tmp_path, 3)
    find, left = cache.find, [1, 1]

    def fail(key: ChunkKey) -> Chunk | None:
        if not left:
            raise OSError(5, "Input/output error")
        left.pop()
        return find(key)

    with monkeypatch.context() as patched:
        patched.setattr(cache, "find", fail)
        with pytest.raises(OSError, match="Input"):
            asked(cache, records)
    cache.note_asked([], client=3, size=MiB + 1)
    assert (len(cache), cache.budget.held) == (0, 0)


def test_a_chunk_that_another_thread_finishes_first_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one has its turn between the look for the conversion and this one's turn."""
    (one,) = logs_of(tmp_path, 1)
    cache = ConversionCache(MemoryBudget(MiB))
    begin_turn, faster = Converting.begin_turn, [2]
    chunks: list[SharedRange] = []

    def begin_late(converting: Converting, wake: Wake) -> bool:
        if faster:
            chunks.append(asked(cache, one, faster.pop()))
        return begin_turn(converting, wake)

    asked(cache, one, 3).close()
    monkeypatch.setattr(Converting, "begin_turn", begin_late)
    chunks.append(asked(cache, one))
    assert [taken.ends for taken in chunks] == [Ends.ALL] * 2
    assert written(chunks[0]) == written(chunks[1])
    for taken in chunks:
        taken.close()
    assert (len(cache), cache.misses, cache.hits) == (1, 2, 1)
    cache.note_asked([], client=3, size=MiB + 1)
    assert (cache.under_way, cache.budget.held) == (0, 0)


def test_records_sent_from_the_cache_count_as_fetched(tmp_path: Path) -> None:
    one, other = logs_of(tmp_path, 2)
    cache = ConversionCache(MemoryBudget(MiB))
    kept(cache, other).close()
    kept(cache, one).close()
    times = MiB // PLAIN_REACH // one.size
    for _ in range(times - 2):
        asked(cache, one).close()
    assert len(cache) == 2
    for _ in range(3):
        asked(cache, one).close()
    assert (len(cache), cache.evictions) == (1, 1)
    assert is_cached(cache, one)


def test_a_range_may_be_cut_anywhere_and_closed_twice(tmp_path: Path) -> None:
    cache = ConversionCache(MemoryBudget(MiB))
    records = appended(cache, tmp_path, 3)
    held = cache.budget.held
    whole = asked(cache, records)
    assert len(whole.sends) == 3
    data = written(whole)
    whole.close()
    for size in (len(data), len(data) - 1, 2 * len(data) // 3, len(data) // 2, 1):
        taken = asked(cache, records, 2)
        taken.cut(size)
        assert (taken.size, written(taken)) == (size, data[:size])
        taken.close()
        taken.close()
        assert cache.budget.held == held
    cache.note_asked([], client=3, size=MiB + 1)
    assert cache.budget.held == 0


def written(taken: SharedRange) -> bytes:
    channel = BytesIO()
    for send in taken.sends:
        while not send.completed:
            send.write_to(channel)
    return channel.getvalue()


def test_a_chunk_that_was_sent_for_long_has_its_whole_reach_afterwards(tmp_path: Path) -> None:
    """While a slow client holds it, its memory is not freed, so it is not evicted."""
    (one,) = logs_of(tmp_path, 1)
    cache = ConversionCache(MemoryBudget(MiB))
    reach = MiB // PLAIN_REACH
    sending = kept(cache, one)
    cache.note_asked([], client=3, size=5 * reach)
    sending.close()
    cache.note_asked([], client=3, size=reach)
    assert len(cache) == 1
    cache.note_asked([], client=3, size=1)
    assert (len(cache), cache.budget.held) == (0, 0)


def test_records_converted_for_the_cache_count_as_fetched(tmp_path: Path) -> None:
    """Clients at the tails of many logs evict each other's chunks, even if there is room."""
    cache = ConversionCache(MemoryBudget(MiB))
    first, *others = logs_of(tmp_path, 2 + MiB // PLAIN_REACH // (10 * KiB) // 2)
    kept(cache, first).close()
    *others, last = others
    for records in others:
        kept(cache, records).close()
    assert (len(cache), cache.evictions) == (1 + len(others), 0)
    kept(cache, last).close()
    assert (len(cache), cache.evictions) == (1 + len(others), 1)
    assert not is_cached(cache, first)
