"""Which chunks are converted for the cache, and how much of that is done in one turn."""

from collections.abc import Callable
from pathlib import Path

import pytest

from downconvert import ConversionPolicy
from downconvert.broker.fetch import shared_range
from downconvert.broker.fetch.conversion_cache import PLAIN_REACH, ConversionCache
from downconvert.broker.fetch.shared_range import Asker, Ends, take
from downconvert.serving.buffered_send import BufferedConversion
from records import Codec, FileRecords
from records.budget import MemoryBudget
from records.formats import BATCH_HEADER_SIZE
from tests.damage import spliced
from tests.downconvert.storage.logs import batch

from .test_shared_range import log_of

MiB = 1 << 20
POLICY = ConversionPolicy()
CHUNK_SIZE = 1000
PLAIN = [batch(n, n + 1, size=200) for n in range(0, 40, 2)]  # two of them make a chunk
LARGE = batch(*range(80), size=90)
PACKED = batch(*range(200), size=90, codec=Codec.GZIP)
assert CHUNK_SIZE < len(PACKED) < len(LARGE)

pytestmark = pytest.mark.usefixtures("small_chunks")


@pytest.fixture
def only_asked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Whether the first chunk of a range is to be converted for the cache. Nothing is converted."""

    def is_wanted(
        cache: ConversionCache, records: FileRecords, client: int, *, is_tail: bool, magic: int = 1
    ) -> bool:
        with monkeypatch.context() as patched:
            patched.setattr(shared_range, "WORK_A_TURN", 0)
            taken = take(cache, records, Asker(client, magic, 0, POLICY), is_tail=is_tail)
        assert taken.sends == []
        assert taken.ends in (Ends.LATER, Ends.UNCACHED)
        return taken.ends is Ends.LATER

    return is_wanted


@pytest.mark.parametrize("is_tail", [False, True])
@pytest.mark.parametrize("batches", [PLAIN, PLAIN[:1], [LARGE]])
def test_a_chunk_is_wanted_by_the_second_client(
    tmp_path: Path, only_asked: Callable[..., bool], is_tail: bool, batches: list[bytes]
) -> None:
    records = log_of(tmp_path, *batches)
    cache = ConversionCache(MemoryBudget(MiB))
    found = [only_asked(cache, records, client, is_tail=is_tail) for client in (1, 1, 2, 1)]
    assert found == [False, False, True, False]


@pytest.mark.parametrize("begin", [0, 3, 7, 10, 11, 15])
def test_a_range_makes_all_its_places_known(
    tmp_path: Path, only_asked: Callable[..., bool], begin: int
) -> None:
    """The second client need not begin where the first one did."""
    records = log_of(tmp_path, *PLAIN)
    first = records.slice(0, 10 * len(PLAIN[0]))
    cache = ConversionCache(MemoryBudget(MiB))
    assert not only_asked(cache, first, 1, is_tail=False)
    at = begin * len(PLAIN[0])
    rest = records.slice(at, records.size - at)
    is_known = at // CHUNK_SIZE <= (first.size - 1) // CHUNK_SIZE
    assert only_asked(cache, rest, 2, is_tail=False) is is_known


@pytest.mark.parametrize(("places_max", "known"), [(1, 1), (3, 3), (100, 8)])
def test_a_huge_range_makes_only_so_many_places_known(
    tmp_path: Path,
    only_asked: Callable[..., bool],
    monkeypatch: pytest.MonkeyPatch,
    places_max: int,
    known: int,
) -> None:
    """Each takes memory, and others are forgotten for it."""
    monkeypatch.setattr(shared_range, "PLACES_MAX", places_max)
    aligned = [batch(n, size=CHUNK_SIZE - len(batch(n, size=0)) - 2) for n in range(8)]
    assert {len(one) for one in aligned} == {CHUNK_SIZE}
    records = log_of(tmp_path, *aligned)
    cache = ConversionCache(MemoryBudget(MiB))
    assert not only_asked(cache, records, 1, is_tail=False)
    found = [
        only_asked(cache, records.slice(at, CHUNK_SIZE), 2, is_tail=False)
        for at in range(0, records.size, CHUNK_SIZE)
    ]
    assert found == [True] * known + [False] * (len(aligned) - known)


def test_the_place_after_a_range_is_not_known(
    tmp_path: Path, only_asked: Callable[..., bool]
) -> None:
    """A range that ends where a chunk ends says nothing of the next one."""
    pair = batch(0, size=CHUNK_SIZE - len(batch(0, size=0)) - 2), PLAIN[1]
    assert len(pair[0]) == CHUNK_SIZE
    records = log_of(tmp_path, *pair)
    cache = ConversionCache(MemoryBudget(MiB))
    assert not only_asked(cache, records.slice(0, CHUNK_SIZE), 1, is_tail=False)
    rest = records.slice(CHUNK_SIZE, len(PLAIN[1]))
    assert not only_asked(cache, rest, 2, is_tail=False)


@pytest.mark.parametrize(("beyond", "is_wanted"), [(0, True), (1, False)])
def test_all_bytes_of_a_range_count_as_fetched(
    tmp_path: Path, only_asked: Callable[..., bool], beyond: int, is_wanted: bool
) -> None:
    """A place is forgotten once clients have fetched its reach elsewhere."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here, there = (log_of(tmp_path / name, *PLAIN) for name in ("here", "there"))
    cache = ConversionCache(MemoryBudget(PLAIN_REACH * (there.size - beyond)))
    assert not only_asked(cache, here, 1, is_tail=False)
    assert not only_asked(cache, there, 1, is_tail=False)
    assert only_asked(cache, here, 2, is_tail=False) is is_wanted


@pytest.mark.parametrize(
    ("data", "chunk_size", "size_max", "left", "is_wanted"),
    [
        (PACKED, len(PACKED) - 1, 2 * len(PACKED), 2 * len(PACKED), True),
        (PACKED, len(PACKED), 2 * len(PACKED), 2 * len(PACKED), False),
        (PACKED, len(PACKED) - 1, 2 * len(PACKED) - 1, 2 * len(PACKED), False),
        (PACKED, len(PACKED) - 1, 2 * len(PACKED), 2 * len(PACKED) - 1, False),
        (LARGE, len(LARGE) - 1, 2 * len(LARGE), 2 * len(LARGE), False),
    ],
    ids=["large", "usual", "too large", "no room", "uncompressed"],
)
def test_a_large_compressed_batch_is_wanted_by_one_client_if_there_is_room_for_it(
    tmp_path: Path,
    only_asked: Callable[..., bool],
    monkeypatch: pytest.MonkeyPatch,
    data: bytes,
    chunk_size: int,
    size_max: int,
    left: int,
    is_wanted: bool,
) -> None:
    """Its conversion takes turns, and a slot for planning does not hold what it has made."""
    monkeypatch.setattr(shared_range, "CHUNK_SIZE", chunk_size)
    monkeypatch.setattr(shared_range, "BUFFERED_SIZE_MAX", size_max)
    cache = ConversionCache(MemoryBudget(MiB))
    assert cache.budget.take(MiB - left)
    assert only_asked(cache, log_of(tmp_path, data), 1, is_tail=False) is is_wanted


@pytest.mark.parametrize("is_tail", [False, True])
@pytest.mark.parametrize("size_max", [len(LARGE), len(LARGE) - 1])
def test_a_chunk_that_cannot_be_kept_is_not_wanted(
    tmp_path: Path,
    only_asked: Callable[..., bool],
    monkeypatch: pytest.MonkeyPatch,
    is_tail: bool,
    size_max: int,
) -> None:
    monkeypatch.setattr(shared_range, "CHUNK_SIZE", len(LARGE))
    monkeypatch.setattr(shared_range, "BUFFERED_SIZE_MAX", size_max)
    records = log_of(tmp_path, LARGE)
    cache = ConversionCache(MemoryBudget(MiB))
    only_asked(cache, records, 1, is_tail=is_tail)
    assert only_asked(cache, records, 2, is_tail=is_tail) is (size_max == len(LARGE))


def test_the_chunks_of_one_response_share_the_work_of_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = log_of(tmp_path, *PLAIN)
    alone = BufferedConversion(records.slice(0, CHUNK_SIZE), 1, 0, POLICY, MemoryBudget(MiB))
    alone.run()
    monkeypatch.setattr(shared_range, "WORK_A_TURN", 3 * alone.work_done - 1)
    cache = ConversionCache(MemoryBudget(MiB))
    take(cache, records, Asker(1, 1, 0, POLICY), is_tail=False).close()
    made = []
    for client in range(2, 6):
        taken = take(cache, records, Asker(client, 1, 0, POLICY), is_tail=False)
        assert taken.ends is Ends.LATER
        taken.close()
        made.append(len(taken.sends) or len(cache))
    assert made == sorted(set(made)), "each turn makes further chunks"
    assert max(after - before for before, after in zip([0, *made], made, strict=False)) <= 3


@pytest.mark.parametrize("is_tail", [False, True])
def test_damage_after_the_first_chunk_is_left_to_the_conversion_without_the_cache(
    tmp_path: Path, is_tail: bool
) -> None:
    """The client gets the chunk before it, and no other turn is needed."""
    bad = spliced(batch(20, 21, codec=Codec.GZIP), BATCH_HEADER_SIZE, b"no gzip", drop=7)
    first = batch(0, size=CHUNK_SIZE - len(batch(0, size=0)) - 2)
    records = log_of(tmp_path, first, bad, *PLAIN)
    cache = ConversionCache(MemoryBudget(MiB))
    for client in range(3):
        taken = take(cache, records, Asker(client, 1, 0, POLICY), is_tail=is_tail)
        taken.close()
    assert (taken.ends, taken.source_size) == (Ends.UNCACHED, len(first))


@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_chunk_that_cannot_be_kept_is_not_tried_again_for_the_next_client(
    tmp_path: Path,
    only_asked: Callable[..., bool],
    monkeypatch: pytest.MonkeyPatch,
    is_damaged: bool,
) -> None:
    data = batch(0, size=100, codec=Codec.GZIP)
    if is_damaged:
        data = spliced(data, BATCH_HEADER_SIZE, b"no gzip", drop=7)
    records = log_of(tmp_path, data)
    cache = ConversionCache(MemoryBudget(MiB))
    assert not only_asked(cache, records, 1, is_tail=True)
    assert only_asked(cache, records, 2, is_tail=True)
    if not is_damaged:
        monkeypatch.setattr("downconvert.serving.buffered_send.BUFFERED_SIZE_MAX", 50)
    taken = take(cache, records, Asker(2, 1, 0, POLICY), is_tail=True)
    assert (taken.sends, taken.ends) == ([], Ends.UNCACHED)
    assert not only_asked(cache, records, 3, is_tail=True)


def test_a_chunk_that_found_no_room_is_tried_again_for_the_next_client(
    tmp_path: Path, only_asked: Callable[..., bool]
) -> None:
    """Responses to slow clients may hold the memory for a while."""
    records = log_of(tmp_path, PLAIN[0])
    cache = ConversionCache(MemoryBudget(MiB))
    assert not only_asked(cache, records, 1, is_tail=True)
    assert cache.budget.take(MiB - 10)
    taken = take(cache, records, Asker(2, 1, 0, POLICY), is_tail=True)
    assert (taken.sends, taken.ends) == ([], Ends.UNCACHED)
    cache.budget.release(MiB - 10)
    assert only_asked(cache, records, 3, is_tail=True)


def test_places_after_cached_chunks_are_known_up_to_the_end_of_the_range(
    tmp_path: Path, only_asked: Callable[..., bool]
) -> None:
    """The first client gets some chunks from the cache, and the rest is converted for it alone."""
    records = log_of(tmp_path, *PLAIN)
    cache = ConversionCache(MemoryBudget(MiB))
    first = records.slice(0, 2 * len(PLAIN[0]))
    for client in (1, 2):
        take(cache, first, Asker(client, 1, 0, POLICY), is_tail=True).close()
    taken = take(cache, records, Asker(1, 1, 0, POLICY), is_tail=False)
    assert (taken.source_size, taken.ends) == (first.size, Ends.UNCACHED)
    for begin in (2, 10, 19):
        at = begin * len(PLAIN[0])
        assert only_asked(cache, records.slice(at, records.size - at), 2, is_tail=False)
