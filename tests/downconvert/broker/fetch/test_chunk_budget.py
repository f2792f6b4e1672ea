from pathlib import Path

from downconvert import ConversionPolicy
from downconvert.broker import Client
from downconvert.broker.fetch.chunk_budget import LARGE, LARGE_MAX, SMALL, ChunkBudget
from downconvert.conversion.plan import SMALL_SIZE_MAX
from tests.downconvert.broker.fetching import broker_of, fetching
from tests.downconvert.storage.logs import batch


def test_the_first_few_get_large_chunks_and_others_small_ones() -> None:
    chunks = ChunkBudget(ConversionPolicy())
    sizes = [chunks.policy_for(client).chunk_size for client in range(LARGE_MAX + 5)]
    assert sizes == [LARGE] * LARGE_MAX + [SMALL] * 5


def test_a_client_counts_once_until_it_has_its_response() -> None:
    chunks = ChunkBudget(ConversionPolicy())
    for client in range(LARGE_MAX):
        for _ in range(3):
            assert chunks.policy_for(client).chunk_size == LARGE
    assert chunks.policy_for(99).chunk_size == SMALL
    chunks.release(0)
    chunks.release(0)
    assert chunks.policy_for(99).chunk_size == LARGE
    assert chunks.policy_for(0).chunk_size == SMALL


def test_an_operators_chunks_are_used_as_they_are() -> None:
    chunks = ChunkBudget(ConversionPolicy(chunk_size=4096))
    assert {chunks.policy_for(client).chunk_size for client in range(100)} == {4096}


def test_all_else_of_a_policy_stays() -> None:
    policy = ConversionPolicy(recode={"zstd": "none"}, size="estimate")
    made = ChunkBudget(policy).policy_for(1)
    assert (made.recode, made.size) == (policy.recode, policy.size)


def test_small_fetches_take_no_large_chunks(tmp_path: Path) -> None:
    """Their records are made at once. A first batch that is larger than the fetch has small
    chunks."""
    with broker_of(tmp_path, {"events": {0: [batch(0, size=100_000)]}}) as broker:
        for max_bytes, chunk_size in ((SMALL_SIZE_MAX, LARGE), (SMALL_SIZE_MAX + 1, SMALL)):
            clients = [Client(number, "127.0.0.1") for number in range(LARGE_MAX)]
            fetches = [
                fetching(broker, 3, "events", 0, now=0.0, client=one, max_bytes=max_bytes)
                for one in clients
            ]
            assert broker.chunk_budget.policy_for(-1).chunk_size == chunk_size
            broker.chunk_budget.release(-1)
            for one in fetches:
                broker.finished(one)


def test_a_client_that_waits_for_more_records_has_no_large_chunks(tmp_path: Path) -> None:
    """It has read what is there, as the log has several segments, and found too little."""
    segments = {"events": {0: [batch(0)], 1: [batch(1)]}}
    with broker_of(tmp_path, segments) as broker:
        waiting = fetching(broker, 2, "events", 0, now=0.0, min_bytes=100_000, max_wait_ms=1000)
        assert not waiting.is_done
        sizes = [broker.chunk_budget.policy_for(-n).chunk_size for n in range(LARGE_MAX)]
        assert sizes == [LARGE] * LARGE_MAX
