"""Each old version is asked, and answered as its clients know it."""

import pytest

from downconvert.broker import Broker, ErrorCode
from downconvert.gateway.session.exchanges import Ask
from downconvert.gateway.session.translation import translate
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.gateway.cluster import Through
from tests.downconvert.gateway.talk import START, message_set, produce

from .test_responses import drive

LATEST, EARLIEST = -1, -2


def list_offsets(through: Through, timestamp: int, count: int, partition: int = 0) -> Message:
    one = Message(partition_index=partition, timestamp=timestamp, max_num_offsets=count)
    body = Message(replica_id=-1, topics=[Message(name="t", partitions=[one])])
    response: Message = through.ask(ApiKey.ListOffsets, 0, body).topics[0].partitions[0]
    return response


@pytest.mark.parametrize(
    ("timestamp", "count", "offsets"),
    [
        (LATEST, 1, [2]),
        (LATEST, 9, [2, 0]),
        (EARLIEST, 1, [0]),
        (EARLIEST, 9, [0]),
        (LATEST, 0, []),
        (START, 9, [0]),
        (START + 1, 9, [1, 0]),
        (START + 2, 1, [2]),  # all records are older: not the beginning
        (START + 2, 9, [2, 0]),
    ],
)
def test_offsets_before_a_time_are_returned_as_a_list(
    through: Through, timestamp: int, count: int, offsets: list[int]
) -> None:
    produce(through, 2, message_set(1, b"a", b"b"))
    assert list_offsets(through, timestamp, count).old_style_offsets == offsets


def test_offsets_of_a_partition_that_is_not_there_are_an_error(through: Through) -> None:
    response = list_offsets(through, LATEST, 1, partition=9)
    assert response.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert response.old_style_offsets == []


@pytest.mark.parametrize(
    ("codes", "told"),
    [
        ((0, 0, 0), (ErrorCode.NONE, [9, 5])),
        ((6,), (6, [])),
        ((0, 6, 0), (6, [])),
        ((0, 0, 6), (6, [])),
        ((0, None, 0), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])),
        ((0, 0, None), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])),
    ],
)
def test_offsets_that_the_cluster_tells_in_part_are_an_error(
    codes: tuple[int | None, ...], told: tuple[int, list[int]]
) -> None:
    """A client takes the first of the list. It would fail on an empty one without an error. The
    cluster is asked for a time that is not reached yet, for the beginning, and for the end."""

    def found(code: int | None, offset: int) -> Message:
        one = Message(partition_index=0, error_code=code, offset=offset)
        return Message(topics=[Message(name="t", partitions=[] if code is None else [one])])

    one = Message(partition_index=0, timestamp=START, max_num_offsets=2)
    body = Message(replica_id=-1, topics=[Message(name="t", partitions=[one])])
    responses = [found(*each) for each in zip((*codes, 0), (-1, 5, 9), strict=False)]
    response, _ = drive(translate(ApiKey.ListOffsets, body, 0, 1), *responses)
    (part,) = response.topics[0].partitions
    assert (part.error_code, part.old_style_offsets) == told


@pytest.mark.parametrize("commit_version", [0, 1])
@pytest.mark.parametrize("fetch_version", [0, 1])
def test_old_groups_find_their_offsets_again(
    through: Through, commit_version: int, fetch_version: int
) -> None:
    one = Message(partition_index=0, committed_offset=5, committed_metadata="m", commit_timestamp=1)
    body = Message(group_id="g", topics=[Message(name="t", partitions=[one])])
    body.generation_id_or_member_epoch, body.member_id = -1, ""
    response = through.ask(ApiKey.OffsetCommit, commit_version, body)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
    asked = Message(group_id="g", topics=[Message(name="t", partition_indexes=[0, 1])])
    found = through.ask(ApiKey.OffsetFetch, fetch_version, asked).topics[0].partitions
    assert [(part.committed_offset, part.metadata) for part in found] == [(5, "m"), (-1, "")]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if fetch_version == 0 else ErrorCode.NONE
    assert [part.error_code for part in found] == [ErrorCode.NONE, unknown]


@pytest.mark.parametrize("version", [0, 1])
def test_topics_are_created_as_before(broker: Broker, through: Through, version: int) -> None:
    topic = Message(name="new", num_partitions=2, replication_factor=1)
    response = through.ask(ApiKey.CreateTopics, version, Message(topics=[topic], timeout_ms=100))
    assert response.topics[0].error_code == ErrorCode.NONE
    assert len(broker.topics["new"].partitions) == 2


def test_old_describe_configs_say_whether_a_setting_is_the_default(through: Through) -> None:
    resource = Message(resource_type=2, resource_name="t", configuration_keys=None)
    response = through.ask(ApiKey.DescribeConfigs, 0, Message(resources=[resource]))
    (result,) = response.results
    by_name = {config.name: config for config in result.configs}
    assert by_name["max.message.bytes"].is_default
    assert by_name["max.message.bytes"].value == "1048588"


def test_one_timeout_of_a_member_is_both() -> None:
    (asked, _) = asking(ApiKey.JoinGroup, Message(session_timeout_ms=9), to_version=1)
    assert asked.body is not None
    assert asked.body.rebalance_timeout_ms == 9


def asking(api: ApiKey, body: Message, to_version: int) -> tuple[Ask, Message]:
    """A request of version 0, translated, and its response, translated back."""
    steps = translate(api, body, 0, to_version)
    asked = next(steps)
    assert isinstance(asked, Ask)
    with pytest.raises(StopIteration) as end:
        steps.send(Message())
    return asked, end.value.value


def test_an_error_of_the_cluster_is_not_taken_for_no_offset_yet() -> None:
    """A client that gets this error begins anew, at the log's beginning or end."""
    steps = translate(ApiKey.OffsetFetch, Message(group_id="g", topics=[]), 0, 1)
    next(steps)
    partitions = [
        Message(partition_index=index, committed_offset=offset, error_code=code)
        for index, (offset, code) in enumerate(
            [
                (-1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
                (-1, ErrorCode.NONE),
                (7, ErrorCode.NONE),
                (-1, ErrorCode.GROUP_AUTHORIZATION_FAILED),
            ]
        )
    ]
    with pytest.raises(StopIteration) as end:
        steps.send(Message(topics=[Message(name="t", partitions=partitions)]))
    assert [one.error_code for one in end.value.value.topics[0].partitions] == [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ]
