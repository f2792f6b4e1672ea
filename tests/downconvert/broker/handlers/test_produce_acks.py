"""Produce: when a response is due, by acks, and what it says then."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from downconvert.access.rights import Access
from downconvert.broker import Broker
from downconvert.broker.partition import Partition
from downconvert.broker.replication.leader_epochs import EpochEnd
from downconvert.broker.replication.replica import Leadership
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.appending import Appended
from tests.downconvert.broker.asking import ask, begin, response_of, someone
from tests.downconvert.broker.producing import (
    NOW,
    batch,
    code,
    magic_of,
    produce,
    request,
    stored,
)
from tests.downconvert.broker.writable import writable_broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "t", partitions=2) as broker:
        yield broker


@pytest.mark.parametrize("version", [0, 3, 9])
def test_acks_0_is_answered_with_nothing_and_an_error_with_the_end(
    broker: Broker, version: int
) -> None:
    good = batch(magic=magic_of(version))
    exchange = begin(broker, ApiKey.Produce, version, request(broker, good, acks=0), now=NOW)
    assert exchange.is_done
    assert exchange.send is None
    assert not exchange.close_after_reply
    bad = begin(broker, ApiKey.Produce, version, request(broker, good[:-1] + b"?", acks=0), now=NOW)
    assert bad.is_done
    assert bad.close_after_reply
    assert len(stored(broker)) == 3


@pytest.mark.parametrize("topics", [("mine", "other"), ("other", "mine")])
def test_acks_0_writes_where_the_client_may_write_and_ends_the_connection(
    tmp_path: Path, topics: tuple[str, str]
) -> None:
    """As in Kafka."""
    with writable_broker(tmp_path, *topics) as broker:
        produced = [Message(index=0, records=batch())]
        data = [Message(name=topic, partition_data=produced) for topic in topics]
        body = Message(acks=0, timeout_ms=0, topic_data=data)
        client = someone(access=Access(topics=("mine",), written_topics=("mine",)))
        exchange = begin(broker, ApiKey.Produce, 9, body, client=client, now=NOW)
        assert (exchange.send, exchange.close_after_reply) == (None, True)
        assert exchange.errors == {ErrorCode.TOPIC_AUTHORIZATION_FAILED: 1}
        ends = {topic: broker.topics[topic].partitions[0].end_offset for topic in topics}
    assert ends == {"mine": 3, "other": 0}


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks_do_not_exist(broker: Broker, acks: int) -> None:
    assert code(broker, 9, batch(), acks=acks) is ErrorCode.INVALID_REQUIRED_ACKS
    assert stored(broker) == []


def test_acks_all_is_answered_at_once_without_followers(broker: Broker) -> None:
    (response,) = produce(broker, 9, batch(), acks=-1)
    assert (response.error_code, response.base_offset) == (0, 0)


def test_deleting_a_topic_answers_its_waiting_produces(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    Followers(broker, monkeypatch)
    body = request(broker, batch(), acks=-1, timeout_ms=5000)
    exchange = begin(broker, ApiKey.Produce, 9, body, now=NOW)
    assert not exchange.is_done
    asked = Message(topic_names=["t"], timeout_ms=1, topics=[])
    ask(broker, ApiKey.DeleteTopics, 1, asked, now=NOW)
    (topic,) = response_of(exchange).responses
    assert topic.partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_broker_that_no_longer_leads_answers_waiting_produces(broker: Broker) -> None:
    """Though the epoch of leaders has not changed: the partition has none now."""
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    alive = frozenset({0, 1})
    led = Leadership(leader=0, leader_epoch=4, replicas=(0, 1), isr=alive, alive=alive, version=1)
    partition.assign(led, NOW)
    exchange = begin(broker, ApiKey.Produce, 9, request(broker, batch(), acks=-1), now=NOW)
    assert not exchange.is_done
    partition.assign(replace(led, leader=None, version=2), NOW)
    broker.purgatory.notify(partition.key)
    broker.tick(NOW)
    (topic,) = response_of(exchange).responses
    assert topic.partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_records_that_a_later_leader_may_have_cut_off_are_not_acknowledged(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This broker leads again, in a later epoch, before the handler goes on after its append."""
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    both = frozenset({0, 1})
    led = Leadership(leader=0, leader_epoch=4, replicas=(0, 1), isr=both, alive=both, version=1)
    partition.assign(led, NOW)
    append = Partition.append

    def appended(self: Partition, *arguments: Any) -> Appended:
        done = append(self, *arguments)
        self.assign(replace(led, leader=1, leader_epoch=5, version=2), NOW)
        self.truncate(EpochEnd(4, 0))
        alone = frozenset({0})
        self.assign(replace(led, leader_epoch=6, isr=alone, alive=alone, version=3), NOW)
        append(self, *arguments)
        return done

    monkeypatch.setattr(Partition, "append", appended)
    (response,) = produce(broker, 9, batch(), acks=-1)
    assert partition.high_watermark > response.base_offset
    assert response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


class Followers:
    """Another replica. The high watermark is moved by hand."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = 0
        partition = broker.topics.partition("t", 0)
        assert partition is not None
        monkeypatch.setattr(partition, "replicas", (0, 1))
        monkeypatch.setattr(type(partition), "high_watermark", property(lambda _: self.at))


def test_acks_all_waits_for_the_high_watermark(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    followers = Followers(broker, monkeypatch)
    exchange = begin(broker, ApiKey.Produce, 9, request(broker, batch(), acks=-1), now=NOW)
    for at in (0, 2):
        followers.at = at
        broker.purgatory.notify(("partition", "t", 0))
        broker.tick(NOW + 0.1)
        assert not exchange.is_done
    followers.at = 3
    broker.purgatory.notify(("partition", "t", 0))
    broker.tick(NOW + 0.2)
    (topic,) = response_of(exchange).responses
    assert (topic.partition_responses[0].error_code, topic.partition_responses[0].base_offset) == (
        0,
        0,
    )


def test_acks_all_gives_up_after_the_request_s_time(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    Followers(broker, monkeypatch)
    exchange = begin(
        broker, ApiKey.Produce, 9, request(broker, batch(), acks=-1, timeout_ms=500), now=NOW
    )
    assert broker.tick(NOW + 0.4) == pytest.approx(NOW + 0.5)
    assert not exchange.is_done
    broker.tick(NOW + 0.5)
    (topic,) = response_of(exchange).responses
    assert topic.partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_produce_waits_for_replicas_for_a_quarter_of_an_hour_at_most(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    Followers(broker, monkeypatch)
    body = request(broker, batch(), acks=-1, timeout_ms=2**31 - 1)
    begin(broker, ApiKey.Produce, 9, body, now=NOW)
    assert broker.tick(NOW) == pytest.approx(NOW + 900)
    broker.tick(NOW + 900)
    assert not len(broker.purgatory)


def test_a_producer_that_has_gone_ends_its_wait_for_replicas(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    Followers(broker, monkeypatch)
    exchange = begin(broker, ApiKey.Produce, 9, request(broker, batch(), acks=-1), now=NOW)
    assert len(broker.purgatory) == 1
    broker.finished(exchange)
    assert not len(broker.purgatory)
    broker.tick(NOW + 100)
    assert not exchange.is_done


def test_acks_all_needs_the_replicas_that_the_topic_asks_for(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.topics.configure("t", {"min.insync.replicas": "2"})
    assert code(broker, 9, batch(), acks=-1) is ErrorCode.NONE  # there is only one
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    monkeypatch.setattr(partition, "replicas", (0, 1))
    assert code(broker, 9, batch(), acks=-1) is ErrorCode.NOT_ENOUGH_REPLICAS
    followers = Followers(broker, monkeypatch)
    monkeypatch.setattr(partition, "isr", frozenset({0, 1}))
    exchange = begin(broker, ApiKey.Produce, 9, request(broker, batch(), acks=-1), now=NOW)
    monkeypatch.setattr(partition, "isr", frozenset({0}))
    followers.at = 6
    broker.purgatory.notify(("partition", "t", 0))
    broker.tick(NOW)
    (topic,) = response_of(exchange).responses
    response = topic.partition_responses[0].error_code
    assert response == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert code(broker, 9, batch(), acks=1) is ErrorCode.NONE  # who waits for the leader alone


def test_a_partition_that_is_refused_keeps_no_other_from_its_replicas(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    followers = Followers(broker, monkeypatch)
    body = request(broker, b"", batch(), acks=-1)
    exchange = begin(broker, ApiKey.Produce, 9, body, now=NOW)
    assert not exchange.is_done
    followers.at = 3
    broker.purgatory.notify(("partition", "t", 1))
    broker.tick(NOW)
    (topic,) = response_of(exchange).responses
    codes = [one.error_code for one in topic.partition_responses]
    assert codes == [ErrorCode.INVALID_RECORD, ErrorCode.NONE]


def test_acks_all_waits_for_each_partition(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    followers = Followers(broker, monkeypatch)
    body = request(broker, batch(2), batch(5), acks=-1)
    exchange = begin(broker, ApiKey.Produce, 9, body, now=NOW)
    followers.at = 2
    for index in (0, 1):
        broker.purgatory.notify(("partition", "t", index))
    broker.tick(NOW)
    assert not exchange.is_done
    broker.tick(NOW + 2)
    (topic,) = response_of(exchange).responses
    codes = [one.error_code for one in topic.partition_responses]
    assert codes == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
