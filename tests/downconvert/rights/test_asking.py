"""Each kind of rule allows and denies as it says, for a sample of all requests.

All of it: `python -m bench.rights`."""

from random import Random

import pytest

from downconvert.broker.handlers.apis import APIS
from downconvert.protocol.schemas import ApiKey

from .asking import Oracle
from .operations import CASES
from .rules import KINDS, random_rule

SEED = 20_261_123
OF_LOGIN = {ApiKey.SaslHandshake, ApiKey.SaslAuthenticate}


def test_the_table_has_every_api_that_is_served() -> None:
    assert {case.api for case in CASES} == APIS.keys() - OF_LOGIN


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    with Oracle(tmp_path_factory.mktemp("rights")) as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_may_do_what_its_rule_allows_and_nothing_else(oracle: Oracle, kind: str) -> None:
    oracle.ask_some(KINDS[kind], Random(f"{SEED} {kind}"))


@pytest.mark.parametrize("seed", range(SEED, SEED + 3))
def test_so_it_is_with_any_rule(oracle: Oracle, seed: int) -> None:
    random = Random(seed)
    oracle.ask_some(random_rule(random), random)
