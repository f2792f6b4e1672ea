"""Requests that name a topic, partition, group or id twice: what counts, and that a short request
does not get a long response for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from downconvert.broker import Broker
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask, begin, sent
from tests.downconvert.broker.transacting import Producing
from tests.downconvert.broker.writable import writable_broker

TOPIC, BROKER, SET = 2, 4, 0
NO_ID: Final = bytes(16)
TWICE: Final = 2000  # times, in a request of some KiB


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "t", "u", partitions=50, offset_metadata_max_bytes=8) as made:
        commit(made, *((index, 5, "") for index in range(50)))
        producer = Producing(made, "x")
        producer.begin()
        producer.add(*(("t", index) for index in range(50)))
        producer.write([b"a"])
        yield made


def commit(broker: Broker, *partitions: tuple[int, int, str]) -> list[int]:
    asked = [
        Message(partition_index=index, committed_offset=offset, committed_metadata=metadata)
        for index, offset, metadata in partitions
    ]
    body = Message(group_id="g", topics=[Message(name="t", partitions=asked)])
    (topic,) = ask(broker, ApiKey.OffsetCommit, 8, body).topics
    return [one.error_code for one in topic.partitions]


def committed(broker: Broker) -> list[int]:
    found = broker.groups.committed("g", 0.0)[0]
    return [found["t", index].offset for index in range(3)]


def test_the_last_offset_of_a_partition_is_committed_and_none_that_is_refused(
    broker: Broker,
) -> None:
    assert commit(broker, (0, 6, ""), (0, 7, "")) == [0, 0]
    assert commit(broker, (1, 6, "x" * 9), (1, 8, "")) == [0, 0]
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(broker, (2, 9, ""), (2, 6, "x" * 9)) == [too_large, too_large]
    assert committed(broker) == [7, 8, 5]


def test_a_transaction_commits_the_last_offset_of_a_partition_too(broker: Broker) -> None:
    producer = Producing(broker, "y")
    producer.begin()
    producer.add_offsets()
    partitions = [(0, 6, ""), (0, 7, ""), (1, 6, "x" * 9), (1, 8, ""), (2, 9, ""), (2, 6, "x" * 9)]
    asked = [
        Message(partition_index=index, committed_offset=offset, committed_metadata=metadata)
        for index, offset, metadata in partitions
    ]
    body = Message(
        transactional_id=producer.name,
        group_id="g",
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        topics=[Message(name="t", partitions=asked)],
    )
    (topic,) = ask(broker, ApiKey.TxnOffsetCommit, 3, body).topics
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert [one.error_code for one in topic.partitions] == [0, 0, 0, 0, too_large, too_large]
    assert producer.end() is ErrorCode.NONE
    assert committed(broker) == [7, 8, 5]


@pytest.mark.parametrize("api", [ApiKey.AlterConfigs, ApiKey.IncrementalAlterConfigs])
def test_a_topic_whose_settings_are_altered_twice_keeps_them(broker: Broker, api: ApiKey) -> None:
    resources = [
        Message(
            resource_type=TOPIC,
            resource_name=name,
            configs=[Message(name="retention.ms", value=value, config_operation=SET)],
        )
        for name, value in (("t", "1"), ("u", "2"), ("t", "3"), ("none", "4"), ("none", "5"))
    ]
    response = ask(broker, api, 1, Message(resources=resources, validate_only=False))
    refused = ErrorCode.INVALID_REQUEST
    assert [(one.resource_name, one.error_code) for one in response.responses] == [
        *(("t", refused), ("u", 0), ("t", refused)),
        *(("none", refused), ("none", refused)),
    ]
    assert broker.topics["t"].config == {}
    assert broker.topics["u"].config == {"retention.ms": "2"}


def test_the_same_setting_of_two_kinds_of_resources_is_not_named_twice(broker: Broker) -> None:
    resources = [
        Message(resource_type=kind, resource_name="t", configs=[]) for kind in (TOPIC, BROKER)
    ]
    body = Message(resources=resources, validate_only=False)
    found = ask(broker, ApiKey.AlterConfigs, 1, body).responses
    assert [one.error_code for one in found] == [0, ErrorCode.INVALID_REQUEST]


def test_partitions_of_a_topic_that_comes_twice_are_all_described(broker: Broker) -> None:
    asked = [Message(topic="t", partitions=[1, 1]), Message(topic="t", partitions=[0])]
    (found,) = ask(broker, ApiKey.DescribeLogDirs, 2, Message(topics=asked)).results
    (topic,) = found.topics
    assert [one.partition_index for one in topic.partitions] == [0, 1]
    asked = [Message(name="t", partition_indexes=indices) for indices in ([1, 1], [0, 1])]
    (topic,) = ask(broker, ApiKey.DescribeProducers, 0, Message(topics=asked)).topics
    assert [one.partition_index for one in topic.partitions] == [1, 0]


@pytest.mark.parametrize("version", [1, 8, 10])
def test_a_partition_whose_offset_is_fetched_twice_is_answered_once(
    broker: Broker, version: int
) -> None:
    asked = [
        Message(name="t", topic_id=broker.topics["t"].id, partition_indexes=indices)
        for indices in ([1, 1], [0, 1])
    ]
    body = Message(group_id="g", topics=asked, groups=[Message(group_id="g", topics=asked)])
    response = ask(broker, ApiKey.OffsetFetch, version, body)
    ((topic,),) = [one.topics for one in (response.groups if version >= 8 else [response])]
    assert [(one.partition_index, one.committed_offset) for one in topic.partitions] == [
        *((1, 5), (0, 5))
    ]


def test_settings_are_described_once_for_each_choice_of_them(broker: Broker) -> None:
    keys = [None, ["retention.ms"], [], ["retention.ms"], ["segment.ms"]]
    resources = [
        Message(resource_type=TOPIC, resource_name="t", configuration_keys=one) for one in keys
    ]
    found = ask(broker, ApiKey.DescribeConfigs, 4, Message(resources=resources)).results
    everything, *chosen = [[config.name for config in one.configs] for one in found]
    assert chosen == [["retention.ms"], ["segment.ms"]]
    assert len(everything) > len(chosen)


@pytest.mark.parametrize(
    ("api", "version", "body"),
    [
        (ApiKey.Metadata, 9, {"topics": [Message(name="t", topic_id=NO_ID)]}),
        (ApiKey.DescribeConfigs, 4, {"resources": [Message(resource_type=2, resource_name="t")]}),
        (ApiKey.DescribeGroups, 5, {"groups": ["g"]}),
        (ApiKey.DescribeTransactions, 0, {"transactional_ids": ["x"]}),
        (ApiKey.OffsetFetch, 8, {"groups": [Message(group_id="g", topics=None)]}),
        (ApiKey.DescribeProducers, 0, {"topics": [Message(name="t", partition_indexes=[0])]}),
        (ApiKey.DescribeLogDirs, 2, {"topics": [Message(topic="t", partitions=[0])]}),
    ],
)
def test_naming_something_many_times_makes_no_response_longer(
    broker: Broker, api: ApiKey, version: int, body: dict[str, list[Any]]
) -> None:
    sizes = [
        len(sent(begin(broker, api, version, Message(**{key: value * count}))))
        for key, value in body.items()
        for count in (1, TWICE)
    ]
    assert sizes[0] == sizes[1]


def test_the_last_offset_counts_where_records_are_deleted_and_is_answered_once(
    broker: Broker,
) -> None:
    asked = [
        Message(name="t", partitions=[Message(partition_index=0, offset=at) for at in (1, 0)]),
        Message(name="u", partitions=[]),
        Message(name="t", partitions=[Message(partition_index=1, offset=at) for at in (-2, -1)]),
    ]
    body = Message(topics=asked, timeout_ms=1000)
    (topic,) = ask(broker, ApiKey.DeleteRecords, 1, body).topics
    found = [(one.partition_index, one.error_code, one.low_watermark) for one in topic.partitions]
    assert found == [(0, 0, 0), (1, 0, 0)]
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    assert partition.start_offset == 0


def test_a_topic_without_named_partitions_is_answered_as_by_kafka(broker: Broker) -> None:
    asked = [
        Message(name="t", partitions=[], partition_indexes=[]),
        Message(name="u", partitions=[0], partition_indexes=[0]),
    ]
    body = Message(group_id="g", topics=asked, groups=[Message(group_id="g", topics=asked)])
    assert [one.name for one in ask(broker, ApiKey.OffsetFetch, 7, body).topics] == ["u"]
    (group,) = ask(broker, ApiKey.OffsetFetch, 8, body).groups
    assert [one.name for one in group.topics] == ["u"]
    producer = Producing(broker, "y")
    producer.begin()
    for index, answered in ((0, ["t", "u"]), (99, ["u"])):
        asked[1].partitions = [index]
        body = Message(
            v3_and_below_transactional_id=producer.name,
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=asked,
        )
        response = ask(broker, ApiKey.AddPartitionsToTxn, 3, body)
        assert [one.name for one in response.results_by_topic_v3_and_below] == answered
