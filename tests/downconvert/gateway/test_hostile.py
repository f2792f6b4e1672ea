from collections import Counter
from pathlib import Path

from .hostile import attempt, cluster

SEED = 1
COUNT = 3_000


def test_mutants_of_requests_and_of_responses_end_in_a_response_or_in_the_end(
    tmp_path: Path,
) -> None:
    with cluster(tmp_path) as broker:
        ends = Counter(attempt(broker, SEED, number) for number in range(COUNT))
    assert {"Response", "Forward", "HangUp", "BadRequestError"} <= ends.keys()
