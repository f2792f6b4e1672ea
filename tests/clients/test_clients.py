"""Real old clients read what a broker wrote in v2, and are read by the newest.

Those of PyPI and Maven Central, each version once at least; `run.py` tries all, and more of each.
Clients are fetched once, into `build/clients`."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

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


@pytest.fixture(scope="module")
def outcomes(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Asked]:
    """All requested topics, side by side."""
    directory = tmp_path_factory.mktemp("topics")
    written: list[Topic] = topics.write(directory)
    with brokers.served(directory) as bootstrap, ThreadPoolExecutor(AT_A_TIME) as pool:
        combinations = some_combinations()
        yield {one: pool.submit(run, one, bootstrap, written) for one in combinations}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("combination", some_combinations(), ids=str)
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
