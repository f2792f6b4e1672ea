"""Ranges that several clients are sent: the same bytes as without, converted once."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downconvert import ConversionPolicy, convert
from downconvert.broker.fetch import shared_range
from downconvert.broker.fetch.conversion_cache import PLAIN_REACH, ConversionCache
from downconvert.broker.fetch.converted_chunk import Chunk, ChunkKey
from downconvert.broker.fetch.shared_range import Asker, Ends, SharedRange, take
from downconvert.conversion import converter
from downconvert.serving.buffered_send import BufferedConversion
from records import Codec, FileRecords
from records.budget import MemoryBudget
from records.formats import BATCH_HEADER_SIZE, V0, V1, V2
from tests.damage import spliced
from tests.downconvert.storage.logs import batch

MEASURED = ConversionPolicy()
DEFAULT = ConversionPolicy()
MiB = 1 << 20


pytestmark = pytest.mark.usefixtures("small_chunks")


def log_of(path: Path, *batches: bytes) -> FileRecords:
    file = path / "log"
    file.write_bytes(b"".join(batches))
    return FileRecords.open(file)


def sent(taken: SharedRange) -> bytes:
    channel = BytesIO()
    for send in taken.sends:
        while not send.completed:
            send.write_to(channel)
    return channel.getvalue()


def converted(records: FileRecords, taken: SharedRange, asker: Asker) -> bytes:
    """The bytes without other clients."""
    alone = records.slice(0, taken.source_size)
    return b"".join(convert(alone, asker.magic, asker.offset, MEASURED))


def all_of(
    cache: ConversionCache, records: FileRecords, asker: Asker, *, is_tail: bool = True
) -> SharedRange:
    """A range that is taken without a further turn."""
    for _ in range(1000):
        taken = take(cache, records, asker, is_tail=is_tail)
        if taken.ends is not Ends.LATER or taken.sends:
            return taken
    raise AssertionError("it takes turns for ever")


LOGS = st.lists(
    st.tuples(
        st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD]),
        st.integers(1, 40),  # records
        st.sampled_from([10, 100]),  # bytes of each
        st.integers(0, 3),  # offsets that are not there any more, before each batch
        st.sampled_from([V2, V2, V2, V1]),
    ),
    min_size=1,
    max_size=12,
)


def batches_of(log: Sequence[tuple[Codec, int, int, int, int]]) -> list[bytes]:
    batches, offset = [], 0
    for codec, count, size, gap, magic in log:
        offset += gap
        if magic == V1 and codec in (Codec.ZSTD, Codec.NONE):
            magic, count = V1 if codec is Codec.NONE else V2, 1
        offsets = range(offset, offset + count)
        batches.append(batch(*offsets, size=size, codec=codec, magic=magic))
        offset += count
    return batches


@given(
    log=LOGS,
    asks=st.lists(
        st.tuples(
            st.integers(0, 12),  # the batch that it begins in
            st.integers(0, 39),  # how far in that
            st.sampled_from([0, 1]),
            st.integers(1, 6000),  # bytes that it asks for
            st.integers(1, 3),  # its client
        ),
        min_size=2,
        max_size=12,
    ),
    budget=st.sampled_from([3000, 20_000, 10_000_000]),
)
def test_a_client_gets_the_bytes_that_it_would_get_without_others(
    log: list[tuple[Codec, int, int, int, int]],
    asks: list[tuple[int, int, int, int, int]],
    budget: int,
) -> None:
    with TemporaryDirectory() as directory:
        whole = log_of(Path(directory), *batches_of(log))
        headers = list(whole.batches())
        cache = ConversionCache(MemoryBudget(budget))
        for number, within, magic, size, client in asks:
            first = headers[number % len(headers)]
            offset = min(first.base_offset + within, first.last_offset)
            left = whole.size - first.position
            records = whole.slice(first.position, min(left, max(size, first.size)))
            asker = Asker(client, magic, offset, MEASURED)
            taken = all_of(cache, records, asker, is_tail=records.size == left)
            assert cache.budget.left >= 0
            assert sum(send.size for send in taken.sends) == taken.size
            count = sum(send.stats.records_converted for send in taken.sends)
            data = sent(taken)
            assert data == converted(records, taken, asker)
            assert count <= sum(log[n][1] for n in range(len(log)))


PLAIN = [batch(n, n + 1, size=200) for n in range(0, 40, 2)]
PACKED = [batch(*range(n, n + 20), size=90, codec=Codec.GZIP) for n in range(0, 400, 20)]


def test_a_chunk_is_kept_once_a_second_client_has_read_it(tmp_path: Path) -> None:
    records = log_of(tmp_path, *PLAIN)
    cache = ConversionCache(MemoryBudget(MiB))
    for client in (1, 1):
        alone = take(cache, records, Asker(client, 1, 0, DEFAULT), is_tail=False)
        assert (alone.ends, alone.source_size, len(cache)) == (Ends.UNCACHED, 0, 0)
    second = all_of(cache, records, Asker(2, 1, 0, DEFAULT), is_tail=False)
    made = len(cache)
    assert second.source_size > 0
    third = all_of(cache, records, Asker(3, 1, 0, DEFAULT), is_tail=False)
    assert len(cache) == made
    assert sent(third) == sent(second)
    assert cache.hits >= made


def test_at_the_tail_all_clients_after_the_first_share_one_conversion(tmp_path: Path) -> None:
    records = log_of(tmp_path, *PLAIN[:2])
    cache = ConversionCache(MemoryBudget(MiB))
    assert all_of(cache, records, Asker(1, 1, 0, DEFAULT)).ends is Ends.UNCACHED
    second, third = (all_of(cache, records, Asker(client, 1, 0, DEFAULT)) for client in (2, 3))
    assert (cache.hits, cache.misses) == (1, 2)
    assert sent(second) == sent(third) == converted(records, second, Asker(2, 1, 0, DEFAULT))
    assert second.end_offset(records) == 4


@pytest.mark.parametrize(
    ("batches", "elsewhere", "is_kept"),
    [
        (PLAIN, PLAIN_REACH - 1, False),
        (PLAIN, 2 * PLAIN_REACH, True),
        (PACKED, PLAIN_REACH - 1, True),
    ],
)
def test_a_chunk_that_is_requested_again_after_much_else_is_not_kept(
    batches: list[bytes], elsewhere: int, is_kept: bool, tmp_path: Path
) -> None:
    """Consumers at different places of a large topic gain nothing from each other."""
    records = log_of(tmp_path, *batches)
    cache = ConversionCache(MemoryBudget(MiB))
    take(cache, records, Asker(1, 1, 0, DEFAULT), is_tail=False)
    cache.note_asked([], client=3, size=MiB // elsewhere)
    all_of(cache, records, Asker(2, 1, 0, DEFAULT), is_tail=False)
    assert (len(cache) > 0) is is_kept


def test_a_chunk_that_another_thread_has_just_made_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = log_of(tmp_path, *PLAIN[:2])
    cache = ConversionCache(MemoryBudget(MiB))
    take(cache, records, Asker(3, 1, 0, DEFAULT), is_tail=True)
    find, others = cache.find, [Asker(2, 1, 0, DEFAULT)]

    def found(key: ChunkKey) -> Chunk | None:
        chunk = find(key)
        if chunk is None and others:
            take(cache, records, others.pop(), is_tail=True)
        return chunk

    monkeypatch.setattr(cache, "find", found)
    shared = take(cache, records, Asker(1, 1, 0, DEFAULT), is_tail=True)
    assert (cache.misses, cache.hits, shared.ends) == (2, 1, Ends.ALL)


def test_a_chunk_without_further_requests_is_evicted_even_if_there_is_room(tmp_path: Path) -> None:
    records = log_of(tmp_path, *PLAIN)
    cache = ConversionCache(MemoryBudget(MiB))
    for client in (1, 2):
        all_of(cache, records, Asker(client, 1, 0, DEFAULT), is_tail=False).close()
    assert cache.budget.held > 0
    cache.note_asked([], client=3, size=MiB + 1)
    assert (len(cache), cache.budget.held) == (0, 0)


@pytest.mark.parametrize("batches", [PLAIN[:3], PACKED[:3]])
def test_clients_that_begin_in_one_batch_share_what_they_can(
    batches: list[bytes], tmp_path: Path
) -> None:
    records = log_of(tmp_path, *batches)
    last = next(records.batches()).last_offset
    cache = ConversionCache(MemoryBudget(MiB))
    for offset in range(last + 1):
        asker = Asker(offset, 1, offset, DEFAULT)
        assert sent(all_of(cache, records, asker)) == converted(
            records, all_of(cache, records, asker), asker
        )
    is_plain = batches[0] is PLAIN[0]
    own = 0 if is_plain else last  # one batch, for each offset but its first
    assert cache.misses <= own + 6  # of the first clients, and the chunks that are shared


def test_clients_continue_at_the_same_boundaries_wherever_they_began(tmp_path: Path) -> None:
    whole = log_of(tmp_path, *PLAIN)
    headers = list(whole.batches())
    cache = ConversionCache(MemoryBudget(MiB))
    for client in (1, 2, 1, 2, 3, 4, 5):
        position = headers[client % 3].position  # all of them in the first chunk
        misses = cache.misses
        while position < whole.size:
            size = min(2000 + 300 * client, whole.size - position)  # ends in the midst of a batch
            records = whole.slice(position, size)
            asker = Asker(client, 1, 0, MEASURED)
            taken = take(cache, records, asker, is_tail=position + size == whole.size)
            position += taken.source_size or headers[0].size * (size // headers[0].size)
            taken.close()
    assert cache.misses == misses, "all is there by now"
    assert cache.budget.held < 3 * whole.size


def test_a_shared_chunk_is_converted_in_turns_by_any_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_range, "CHUNK_SIZE", MiB)
    monkeypatch.setattr(shared_range, "WORK_A_TURN", 10_000)
    monkeypatch.setattr(converter, "MESSAGES_SIZE", 1)
    records = log_of(tmp_path, *PACKED)
    cache = ConversionCache(MemoryBudget(MiB))
    take(cache, records, Asker(1000, 1, 0, DEFAULT), is_tail=True)
    turns = 0
    while not (taken := take(cache, records, Asker(turns, 1, 0, DEFAULT), is_tail=True)).size:
        assert taken.ends is Ends.LATER
        turns += 1
    assert turns >= 10
    assert cache.misses == 2
    assert sent(taken) == converted(records, taken, Asker(0, 1, 0, DEFAULT))


def test_a_large_batch_is_converted_in_turns_for_one_client_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be made at once else, to know the size of what it becomes."""
    policy = ConversionPolicy(chunk_size=4096, wrapper_size_max=8192)
    monkeypatch.setattr(shared_range, "WORK_A_TURN", 64 * 1024)
    large = batch(*range(2000), size=100, codec=Codec.GZIP)
    records = log_of(tmp_path, large, *PACKED)
    turns: list[int] = []
    run = BufferedConversion.run

    def counted(keeping: BufferedConversion, work: int | None = None) -> int:
        before = keeping.work_done
        left = run(keeping, work)
        turns.append(keeping.work_done - before)
        return left

    monkeypatch.setattr(BufferedConversion, "run", counted)
    cache = ConversionCache(MemoryBudget(MiB))
    asker = Asker(1, 1, 0, policy)
    taken = all_of(cache, records, asker, is_tail=False)
    assert sent(taken) == b"".join(convert(records.slice(0, taken.source_size), 1, 0, policy))
    assert len(turns) > 10
    assert max(turns) < 4 * 64 * 1024
    assert not take(ConversionCache(MemoryBudget(len(large))), records, asker, is_tail=False).sends


def test_a_response_ends_where_its_turn_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_range, "WORK_A_TURN", 1)
    records = log_of(tmp_path, *PLAIN)
    taken = take(ConversionCache(MemoryBudget(MiB)), records, Asker(1, 1, 0, DEFAULT), is_tail=True)
    assert taken.ends is Ends.UNCACHED, "nobody else has asked"
    cache = ConversionCache(MemoryBudget(MiB))
    for client in (1, 2):
        taken = all_of(cache, records, Asker(client, 1, 0, DEFAULT))
    assert taken.ends is Ends.LATER
    assert 0 < taken.source_size < records.size


def test_damaged_batches_are_left_to_the_client_that_reaches_them(tmp_path: Path) -> None:
    bad = spliced(batch(6, 7, codec=Codec.GZIP), BATCH_HEADER_SIZE, b"no gzip", drop=7)
    records = log_of(tmp_path, *PACKED[:1], bad)
    cache = ConversionCache(MemoryBudget(MiB))
    for client in range(3):
        taken = all_of(cache, records, Asker(client, 1, 0, DEFAULT))
        assert (taken.ends, taken.size) == (Ends.UNCACHED, 0)
    assert cache.budget.left == MiB
    assert cache.misses == 3


def test_chunks_as_small_as_their_appends_do_not_fill_a_response(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_range, "PARTS_MAX", 3)
    tiny = [batch(n) for n in range(9)]
    records = log_of(tmp_path, *tiny)
    cache = ConversionCache(MemoryBudget(MiB))
    for end in range(len(tiny)):
        appended = records.slice(end * len(tiny[0]), len(tiny[0]))
        for client in (1, 2):
            take(cache, appended, Asker(client, 1, end, DEFAULT), is_tail=True).close()
    taken = take(cache, records, Asker(2, 1, 0, DEFAULT), is_tail=True)
    assert (len(taken.sends), taken.ends) == (3, Ends.UNCACHED)


@pytest.mark.parametrize(
    ("magic", "recode", "misses"),
    [
        (V0, {"gzip:magic0": "none"}, 2),  # uncompressed: clients inside it share the chunk
        (V0, {"gzip:magic1": "none"}, 4),  # compressed: each offset has a chunk of its own
        (V1, {"gzip:magic1": "none"}, 2),
        (V1, {"gzip:magic0": "none"}, 4),
        (V2, {"gzip:magic1": "none"}, 2),
        (V2, {"gzip:magic0": "none"}, 4),
    ],
)
def test_messages_keep_their_format_if_it_is_older_than_the_clients(
    tmp_path: Path, magic: int, recode: dict[str, str], misses: int
) -> None:
    """So the codec is the policy's for the older one of the two."""
    policy = ConversionPolicy(recode=recode)
    file = tmp_path / "log"
    file.write_bytes(batch(*range(9), size=100, codec=Codec.GZIP, magic=magic))
    records = FileRecords.open(file)
    cache = ConversionCache(MemoryBudget(MiB))
    take(cache, records, Asker(98, 1, 0, policy), is_tail=True).close()
    for client, offset in enumerate((0, 3, 5)):
        taken = take(cache, records, Asker(client, 1, offset, policy), is_tail=True)
        assert sent(taken) == b"".join(convert(records, 1, offset, policy))
        taken.close()
    assert cache.misses == misses
