"""OffsetDelete: positions go, but not under the feet of who reads."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker, ErrorCode
from downconvert.protocol.consumer_protocol import Subscription, write_subscription
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.offset_logs import commit, commit_to, fetch, make_offsets, offsets_log
from tests.downconvert.broker.writable import writable_broker

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
SUBSCRIBED = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "t", "u", group_initial_rebalance_delay_ms=0) as made:
        yield made


def delete(broker: Broker, *partitions: tuple[str, int]) -> list[int]:
    topics = [
        Message(name=name, partitions=[Message(partition_index=index)])
        for name, index in partitions
    ]
    response = ask(broker, ApiKey.OffsetDelete, 0, Message(group_id="g", topics=topics))
    if response.error_code:
        return [response.error_code]
    assert [one.name for one in response.topics] == [name for name, _ in partitions]
    return [one.error_code for topic in response.topics for one in topic.partitions]


def join(broker: Broker, kind: str, metadata: bytes) -> None:
    joining = Message(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type=kind,
        protocols=[Message(name="range", metadata=metadata)],
    )
    joined = ask(broker, ApiKey.JoinGroup, 3, joining)
    sync = Message(group_id="g", generation_id=1, member_id=joined.member_id)
    assert ask(broker, ApiKey.SyncGroup, 2, sync).error_code == 0


def test_a_deleted_offset_stays_deleted_and_the_others_stay(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", "u") as broker:
        commit(broker, 7)
        commit(broker, 8, at=("u", 0))
        assert delete(broker, ("t", 0), ("t", 9), ("none", 0)) == [0, UNKNOWN, UNKNOWN]
    with writable_broker(tmp_path) as broker:
        assert (fetch(broker), fetch(broker, at=("u", 0))) == ((-1, 0), (8, 0))
        assert delete(broker, ("u", 0), ("t", 0)) == [0, 0]
        assert delete(broker, ("u", 0)) == [ErrorCode.GROUP_ID_NOT_FOUND]


def test_an_empty_group_id_is_refused(broker: Broker) -> None:
    response = ask(broker, ApiKey.OffsetDelete, 0, Message(group_id="", topics=[]))
    assert response.error_code == ErrorCode.INVALID_GROUP_ID


def test_topics_that_members_read_keep_theirs(broker: Broker) -> None:
    commit(broker, 7)
    commit(broker, 8, at=("u", 0))
    join(broker, "consumer", write_subscription(Subscription(("t",))))
    assert delete(broker, ("t", 0), ("u", 0)) == [SUBSCRIBED, 0]
    assert (fetch(broker), fetch(broker, at=("u", 0))) == ((7, 0), (-1, 0))


def test_members_whose_topics_nobody_can_tell_keep_all(broker: Broker) -> None:
    commit(broker, 7)
    join(broker, "consumer", b"?")
    assert delete(broker, ("t", 0)) == [SUBSCRIBED]


def test_a_group_of_another_kind_must_be_empty(broker: Broker) -> None:
    commit(broker, 7)
    join(broker, "connect", b"")
    assert delete(broker, ("t", 0)) == [ErrorCode.NON_EMPTY_GROUP]
    assert fetch(broker) == (7, 0)


@pytest.mark.parametrize("api", [ApiKey.OffsetDelete, ApiKey.DeleteGroups])
def test_deleting_offsets_drops_those_of_an_abandoned_transaction(
    tmp_path: Path, api: ApiKey
) -> None:
    make_offsets(tmp_path, 0)
    with writable_broker(tmp_path) as broker:
        commit_to(offsets_log(broker), 7, producer=1)
    with writable_broker(tmp_path) as broker:
        assert fetch(broker, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if api is ApiKey.OffsetDelete:
            assert delete(broker, ("t", 0)) == [0]
        else:
            ask(broker, api, 1, Message(groups_names=["g"]))
        assert fetch(broker, stable=True) == (-1, 0)
    with writable_broker(tmp_path) as broker:
        assert broker.groups.manager.ids() == []


def test_a_group_goes_with_its_last_offset(tmp_path: Path) -> None:
    """It was in every list otherwise, with the generation that it had."""

    def listed(broker: Broker) -> list[str]:
        return [one.group_id for one in ask(broker, ApiKey.ListGroups, 4, Message()).groups]

    with writable_broker(tmp_path, "t", group_initial_rebalance_delay_ms=0) as broker:
        join(broker, "consumer", write_subscription(Subscription(("t",))))
        body = Message(groups=["g"])
        (group,) = ask(broker, ApiKey.DescribeGroups, 5, body).groups
        commit_as_member(broker, group.members[0].member_id)
        assert delete(broker, ("t", 0)) == [SUBSCRIBED]
        leaving = Message(group_id="g", member_id=group.members[0].member_id)
        ask(broker, ApiKey.LeaveGroup, 1, leaving)
        assert delete(broker, ("t", 9)) == [UNKNOWN]
        assert listed(broker) == ["g"]
        assert delete(broker, ("t", 0)) == [0]
        assert listed(broker) == []
        (group,) = ask(broker, ApiKey.DescribeGroups, 5, body).groups
        assert group.group_state == "Dead"
        assert delete(broker, ("t", 0)) == [ErrorCode.GROUP_ID_NOT_FOUND]
    with writable_broker(tmp_path) as broker:
        assert listed(broker) == []


def commit_as_member(broker: Broker, member_id: str) -> None:
    partition = Message(partition_index=0, committed_offset=7, committed_metadata="")
    body = Message(
        group_id="g",
        member_id=member_id,
        generation_id_or_member_epoch=1,
        topics=[Message(name="t", partitions=[partition])],
    )
    (topic,) = ask(broker, ApiKey.OffsetCommit, 6, body).topics
    assert topic.partitions[0].error_code == 0
