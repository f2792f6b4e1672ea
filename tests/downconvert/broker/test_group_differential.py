"""The same members, commits and questions to Kafka 3.9.1 and to this broker: equal responses.

Not here: what is said (group_conversations.py), what takes time (timeouts), which is told a clock
(test_group.py)."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.kafka_server import running

from .asking import ask
from .group_conversations import SAID, Talk, Told, committing, until


@pytest.fixture(scope="module")
def kafka_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kafka")


@pytest.fixture(scope="module")
def addresses(
    tmp_path_factory: pytest.TempPathFactory, kafka_log: Path
) -> Iterator[list[tuple[str, int]]]:
    with running(log_dir=kafka_log) as kafka, _ours(tmp_path_factory.mktemp("ours")) as ours:
        kafka.create_topic("events", partitions=2)
        found = [("127.0.0.1", kafka.ports[0]), ours]
        for address in found:
            _wake(address)
        yield found


def _wake(address: tuple[str, int]) -> None:
    """Kafka has no groups before it is asked where they are, and a while after."""
    talk = Talk(address)
    until(lambda: talk.ask(ApiKey.FindCoordinator, 2, key="g").error_code == 0)
    until(lambda: talk.ask(ApiKey.OffsetFetch, 5, group_id="g", topics=[]).error_code == 0)
    talk.close()


@contextmanager
def _ours(path: Path) -> Iterator[tuple[str, int]]:
    config = BrokerConfig(is_writable=True, group_initial_rebalance_delay_ms=0)
    with LogDir.open(path, writable=True) as log_dir:
        broker = Broker(log_dir, config)
        broker.topics.create("events", 2, {}, 0)
        with Server(broker) as server:
            yield server.address


@pytest.mark.parametrize("say", SAID, ids=lambda say: say.__name__)
def test_groups_get_kafkas_responses(
    addresses: list[tuple[str, int]], say: Callable[[Told], None]
) -> None:
    pair = [Told(address) for address in addresses]
    for one in pair:
        try:
            say(one)
        finally:
            one.close()
    theirs, ours = (one.responses for one in pair)
    for expected, found in zip(theirs, ours, strict=True):
        assert found == expected


def test_offsets_that_kafka_keeps_are_found_in_its_directory(
    addresses: list[tuple[str, int]], kafka_log: Path
) -> None:
    talk = Talk(addresses[0])
    kept = committing(committed_offset=17, committed_leader_epoch=0)
    talk.ask(ApiKey.OffsetCommit, 6, group_id="kept", topics=kept)
    talk.close()
    asked = Message(group_id="kept", topics=None)
    broker = Broker(LogDir.open(kafka_log))  # Kafka runs
    (topic,) = ask(broker, ApiKey.OffsetFetch, 5, asked).topics
    (found,) = topic.partitions
    assert (topic.name, found.partition_index, found.committed_offset) == ("events", 0, 17)
    assert (found.committed_leader_epoch, found.metadata) == (0, "m")


# Commits to a group, in this order: a producer or None, and an offset or a transaction's end.
TRANSACTIONS: Final[dict[str, list[tuple[str | None, int | str]]]] = {
    "aborted": [("one", 5), ("one", "commit"), ("one", 15), ("one", "abort")],
    "open": [("one", 5), ("one", "commit"), ("one", 15)],
    "plain": [("one", 5), (None, 7), ("one", "commit")],
    "two": [("one", 5), ("two", 6), ("two", "commit"), ("one", "commit")],
}


@pytest.mark.parametrize("group", TRANSACTIONS)
def test_offsets_committed_in_kafkas_transactions_count_here(
    addresses: list[tuple[str, int]], kafka_log: Path, group: str
) -> None:
    talk, producers = Talk(addresses[0]), ExitStack()
    writing: dict[str, KafkaProducer] = {}
    with producers:
        for who, what in TRANSACTIONS[group]:
            if who is None:
                kept = committing(committed_offset=what)
                talk.ask(ApiKey.OffsetCommit, 6, group_id=group, topics=kept)
            elif what == "commit":
                writing.pop(who).commit_transaction()
            elif what == "abort":
                writing.pop(who).abort_transaction()
            else:
                if who not in writing:
                    host, port = addresses[0]
                    writing[who] = KafkaProducer(
                        bootstrap_servers=f"{host}:{port}", transactional_id=f"{group}-{who}"
                    )
                    producers.callback(writing[who].close, 0)
                    writing[who].init_transactions()
                    writing[who].begin_transaction()
                at = OffsetAndMetadata(what, "", -1)
                writing[who].send_offsets_to_transaction({TopicPartition("events", 0): at}, group)
        fields = {"group_id": group, "topics": [Message(name="events", partition_indexes=[0])]}
        if group != "open":  # markers are written a moment after a transaction's end is answered
            stable = {**fields, "require_stable": True}
            until(lambda: _offset_and_code(talk.ask(ApiKey.OffsetFetch, 7, **stable))[1] == 0)
        broker = Broker(LogDir.open(kafka_log))  # Kafka runs
        for is_stable in (False, True):
            body = {**fields, "require_stable": is_stable}
            theirs = _offset_and_code(talk.ask(ApiKey.OffsetFetch, 7, **body))
            ours = _offset_and_code(ask(broker, ApiKey.OffsetFetch, 7, Message(**body)))
            assert ours == theirs
    talk.close()


def _offset_and_code(said: Message) -> tuple[int, int]:
    (one,) = said.topics[0].partitions
    return one.committed_offset, one.error_code
