from downconvert import ConversionPolicy
from downconvert.broker.fetch.chunk_budget import LARGE, LARGE_MAX, SMALL, ChunkBudget


def test_the_first_few_get_large_chunks_and_others_small_ones() -> None:
    chunks = ChunkBudget(ConversionPolicy())
    sizes = [chunks.policy_for(client).chunk_size for client in range(LARGE_MAX + 5)]
    assert sizes == [LARGE] * LARGE_MAX + [SMALL] * 5


def test_a_client_counts_once_until_it_has_its_answer() -> None:
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
