"""Real old clients read what a broker wrote in v2, and are read by the newest.

Those of PyPI and Maven Central: two of each in each run of CI, and each version once at least in
`make test-all`. `run.py` tries all, and more of each. Clients are fetched once, into
`build/clients`."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from typing import Any

import pytest

from . import brokers, topics
from .combinations import Combination, some_combinations
from .faults import fault_of
from .outcome import Outcome
from .produced import (
    Producer,
    from_the_newest,
    from_the_oldest,
    newest_consumers,
    oldest_consumers,
    produce,
    read_back,
)
from .runs import run
from .topics import Topic

AT_A_TIME = 4  # clients, which wait more than they work
PRODUCERS = [*from_the_oldest(), *from_the_newest()]
CONSUMERS = [*newest_consumers(), *oldest_consumers()]

Asked = dict[Combination, Future[list[Outcome]]]


def readers() -> Iterator[Any]:
    """The first and the last combination of each client, and the others, which are marked."""
    for _, group in groupby(some_combinations(), lambda one: one.client.name):
        first, *others = group
        yield first
        yield from (pytest.param(one, marks=pytest.mark.more) for one in others[:-1])
        yield from others[-1:]


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Asked]:
    """All requested topics, side by side, of the combinations whose tests run."""
    directory = tmp_path_factory.mktemp("topics")
    written: list[Topic] = topics.write(directory)
    with brokers.served(directory) as bootstrap, ThreadPoolExecutor(AT_A_TIME) as pool:
        ids = {item.name for item in request.session.items}
        test = test_an_old_client_reads_every_record_once_and_in_order.__name__
        asked = [one for one in some_combinations() if f"{test}[{one}]" in ids]
        yield {one: pool.submit(run, one, bootstrap, written) for one in asked}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("combination", [*readers()], ids=str)
def test_an_old_client_reads_every_record_once_and_in_order(
    combination: Combination, outcomes: Asked
) -> None:
    wrong = {
        outcome.topic: outcome.wrong
        for outcome in outcomes[combination].result()
        if outcome.wrong and not fault_of(combination, outcome.topic)
    }
    assert not wrong


class Sent:
    """The records of all producers, and what consumers read of them."""

    def __init__(self, bootstrap: str, pool: ThreadPoolExecutor) -> None:
        sent = pool.map(lambda producer: produce(producer, bootstrap), PRODUCERS)
        self.wrong = dict(zip(PRODUCERS, sent, strict=True))
        self.read = {one: pool.submit(read_back, one, PRODUCERS, bootstrap) for one in CONSUMERS}


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sent]:
    directory = tmp_path_factory.mktemp("produced")
    with (
        brokers.served(directory, "--writable") as bootstrap,
        ThreadPoolExecutor(AT_A_TIME) as pool,
    ):
        yield Sent(bootstrap, pool)


@pytest.mark.parametrize("producer", PRODUCERS, ids=str)
def test_a_producer_of_any_age_is_acknowledged(producer: Producer, sent: Sent) -> None:
    assert sent.wrong[producer] == ""


@pytest.mark.parametrize("consumer", CONSUMERS, ids=str)
def test_consumers_of_any_age_read_records_of_producers_of_any_age(
    consumer: Combination, sent: Sent
) -> None:
    assert sent.read[consumer].result() == {}
