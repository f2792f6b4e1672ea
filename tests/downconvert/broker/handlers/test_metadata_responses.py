"""Metadata: the brokers, and the fields of each topic and partition."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from downconvert.access import operations as bits
from downconvert.access.rights import Access
from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.exchange import Client
from downconvert.broker.handlers import metadata
from downconvert.broker.topics import OFFSETS_TOPIC
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.writable import writable_broker

NODE, OTHER = 4, 7
NO_ID = bytes(16)


def asked(broker: Broker, version: int, *topics: Message, access: Any = None, **fields: Any) -> Any:
    client = Client(1, "10.0.0.9", host="logs.example.org", port=1234, access=access)
    body = Message(topics=list(topics), **fields)
    return ask(broker, ApiKey.Metadata, version, body, client=client, now=1000.0)


def named(name: str) -> Message:
    return Message(name=name, topic_id=NO_ID)


@pytest.mark.parametrize("version", range(14))
def test_a_response_names_this_broker_by_the_address_that_the_client_uses(
    tmp_path: Path, version: int
) -> None:
    with writable_broker(tmp_path, "t", node_id=NODE, cluster_id="mine") as broker:
        response = asked(broker, version)
        (node,) = response.brokers
        assert (node.node_id, node.host, node.port) == (NODE, "logs.example.org", 1234)
        if version >= 1:
            assert response.controller_id == NODE
        if version >= 2:
            assert response.cluster_id == "mine"
        # An empty list asks for all topics in version 0, and for none later.
        assert [one.name for one in response.topics] == ([] if version else ["t"])


@pytest.mark.parametrize("version", [1, 5, 7, 12])
def test_each_partition_has_its_leader_and_its_replicas(tmp_path: Path, version: int) -> None:
    with writable_broker(tmp_path, "t", partitions=4, node_id=NODE) as broker:
        topic = broker.topics["t"]
        topic.partitions = dict(reversed(topic.partitions.items()))
        led, followed, alone, _ = (topic.partitions[index] for index in range(4))
        led.replicas, led.isr, led.leader_epoch = (OTHER, NODE, 2), frozenset({NODE, 2}), 3
        followed.leader, followed.leader_epoch = OTHER, 5
        alone.leader = None
        (one,) = asked(broker, version, named("t")).topics
        found = one.partitions
    assert [each.partition_index for each in found] == [0, 1, 2, 3]
    assert [each.leader_id for each in found] == [NODE, OTHER, -1, NODE]
    none, missing = ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE
    assert [each.error_code for each in found] == [none, none, missing, none]
    assert list(found[0].replica_nodes) == [OTHER, NODE, 2]
    assert list(found[0].isr_nodes) == [2, NODE]
    if version >= 7:
        assert [each.leader_epoch for each in found] == [3, 5, 0, 0]
    if version >= 5:
        assert all(list(each.offline_replicas) == [] for each in found)


def test_an_offline_replica_is_reported_and_another_leader_still_leads(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", partitions=2, node_id=NODE):
        pass
    os.mkfifo(tmp_path / "t-1" / "00000000000000000005.log")
    with LogDir.open(tmp_path) as log_dir:
        broker = Broker(log_dir, BrokerConfig(node_id=NODE))
        broker.topics["t"].partitions[1].leader = OTHER
        (topic,) = asked(broker, 7, named("t")).topics
        one = topic.partitions[1]
        assert (one.error_code, one.leader_id, list(one.offline_replicas)) == (0, OTHER, [NODE])


def test_a_topic_has_its_id_and_says_whether_it_is_internal(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", OFFSETS_TOPIC) as broker:
        for version in (1, 10, 12, 13):
            found = asked(broker, version, named("t"), named(OFFSETS_TOPIC)).topics
            assert [one.is_internal for one in found] == [False, True]
            if version >= 10:
                ids = [broker.topics[name].id for name in ("t", OFFSETS_TOPIC)]
                assert [one.topic_id for one in found] == ids
        for version in (12, 13):
            by_id = [Message(name=None, topic_id=one) for one in (broker.topics["t"].id, b"?" * 16)]
            found = asked(broker, version, *by_id, include_topic_authorized_operations=True).topics
            assert [(one.name, one.error_code) for one in found] == [
                ("t", ErrorCode.NONE),
                (None, ErrorCode.UNKNOWN_TOPIC_ID),
            ]
            assert [one.topic_id for one in found] == [broker.topics["t"].id, b"?" * 16]


@pytest.mark.parametrize("version", [10, 11])
def test_a_request_by_id_that_is_refused_gets_its_ids_back(tmp_path: Path, version: int) -> None:
    with writable_broker(tmp_path, "t") as broker:
        (one,) = asked(broker, version, Message(name=None, topic_id=b"?" * 16)).topics
        assert (one.topic_id, one.error_code) == (b"?" * 16, ErrorCode.INVALID_REQUEST)


def test_the_operations_are_those_on_each_topic(tmp_path: Path) -> None:
    access = Access(topics=("mine*", "seen*"), written_topics=("mine*",))
    with writable_broker(tmp_path, "mine", "seen") as broker:
        body = {"include_topic_authorized_operations": True, "allow_auto_topic_creation": False}
        found = asked(broker, 8, named("mine"), named("seen"), access=access, **body).topics
        may = {one.name: one.topic_authorized_operations for one in found}
        assert may["mine"] & bits.WRITE
        assert not may["seen"] & bits.WRITE
        assert may["seen"] & bits.READ
        unknown = Message(name=None, topic_id=b"?" * 16)
        response = asked(broker, 12, unknown, include_topic_authorized_operations=True)
        assert [one.topic_authorized_operations for one in response.topics if not one.name] in (
            [],
            [bits.NOT_ASKED],
        )


def test_the_operations_on_topics_and_on_the_cluster_are_asked_for_apart(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        for topics, cluster in ((True, False), (False, True)):
            response = asked(
                broker,
                8,
                named("t"),
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=topics,
                include_cluster_authorized_operations=cluster,
            )
            assert (response.topics[0].topic_authorized_operations != bits.NOT_ASKED) is topics
            assert (response.cluster_authorized_operations != bits.NOT_ASKED) is cluster


@pytest.mark.parametrize("version", [0, 3, 4, 9])
def test_no_topic_is_made_for_a_client_that_may_not_write_to_it(
    tmp_path: Path, version: int
) -> None:
    access = Access(topics=("new*",), written_topics=("new-mine",))
    with writable_broker(tmp_path, auto_create_topics=True) as broker:
        names = [named("new-seen"), named("new-mine")]
        found = asked(broker, version, *names, access=access, allow_auto_topic_creation=True).topics
        codes = {one.name: one.error_code for one in found}
        assert codes["new-mine"] == ErrorCode.NONE
        assert codes["new-seen"] != ErrorCode.NONE
        assert list(broker.topics) == ["new-mine"]


def test_a_topic_that_another_client_makes_meanwhile_counts_as_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(broker: Broker, name: str, *_: object) -> None:
        broker.topics.create(name, 2, {}, 0)
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS)

    monkeypatch.setattr(metadata, "make", lose)
    with writable_broker(tmp_path, auto_create_topics=True) as broker:
        (one,) = asked(broker, 1, named("new")).topics
        assert (one.error_code, len(one.partitions)) == (ErrorCode.NONE, 2)


def test_the_log_says_why_no_topic_is_made(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "downconvert.broker.handlers.metadata")
    with writable_broker(tmp_path, "a.b", auto_create_topics=True) as broker:
        (one,) = asked(broker, 1, named("a_b")).topics
        assert one.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "topic a_b is not created: Topic 'a_b' collides" in caplog.text
