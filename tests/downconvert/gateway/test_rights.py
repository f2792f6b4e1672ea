"""A client of the gateway cannot exceed its rights, whatever it claims, and gets Kafka's errors.

Not here: lists of names, field by field (test_permissions.py); every API and every kind of rule on
the wire (test_every_right.py)."""

from dataclasses import replace
from typing import Any

import pytest

from downconvert.access import replica_ids
from downconvert.access.operations import DESCRIBE, LOOKING, NOT_ASKED, READ, READING
from downconvert.access.rights import Access
from downconvert.broker import Broker, ErrorCode
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.session.exchanges import HangUp
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message, schema
from tests.downconvert.broker.asking import frame

from .cluster import Through
from .talk import fetch, fetch_body

CONFIG = GatewayConfig(bootstrap=(Address("cluster", 9092),))


def limited(broker: Broker, **access: object) -> Through:
    return Through(broker, replace(CONFIG, access=Access(**access)))  # type: ignore[arg-type]


def claimed(broker: Broker, replica_id: int) -> Message:
    """A request of any of the APIs that have a replica id."""
    part = Message(partition=0, partition_index=0, partition_max_bytes=9, timestamp=-1)
    topic = Message(topic="t", name="t", topic_id=broker.topics["t"].id, partitions=[part])
    state = Message(replica_id=replica_id, replica_epoch=1)
    return Message(
        replica_id=replica_id,
        replica_state=state,
        topics=[topic],
        max_bytes=9,
        session_epoch=-1,
    )


@pytest.mark.parametrize("api", replica_ids.SINCE)
@pytest.mark.parametrize(
    "options", [{}, {"access": Access(is_read_only=True)}, {"is_observing": True}]
)
def test_no_client_is_a_follower(broker: Broker, api: ApiKey, options: dict[str, Any]) -> None:
    """The cluster would count what a follower fetches as copied, and acknowledge it."""
    through = Through(broker, replace(CONFIG, **options))
    newest = 15 if api is ApiKey.Fetch else schema(f"{api.name}Request").newest
    for version in range(replica_ids.SINCE[api], newest + 1):
        for replica_id in (0, 1, 2**31 - 1, -3):
            response = through.ask(api, version, claimed(broker, replica_id))
            answered = response.responses if api is ApiKey.Fetch else response.topics
            codes = [one.error_code for topic in answered for one in topic.partitions]
            assert codes == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert {asked.api for asked in through.asked} == {ApiKey.ApiVersions}


def test_a_consumer_s_fetch_passes_where_its_replica_id_is_at_the_end(through: Through) -> None:
    for replica_id in replica_ids.CONSUMERS:
        body = fetch_body(0)
        body.replica_state = Message(replica_id=replica_id, replica_epoch=-1)
        assert through.passes(frame(ApiKey.Fetch, 15, body))


@pytest.mark.parametrize("groups", [(), ("own",)])
def test_a_read_only_client_commits_only_to_its_own_group(
    broker: Broker, groups: tuple[str, ...]
) -> None:
    everybody = Through(broker, CONFIG)
    through = limited(broker, is_read_only=True, groups=groups)
    part = Message(partition_index=0, committed_offset=0, committed_metadata="")
    for group in ("own", "other"):
        is_own = group in groups
        denied = 0 if is_own else ErrorCode.GROUP_AUTHORIZATION_FAILED
        body = Message(group_id=group, topics=[Message(name="t", partitions=[part])])
        part.committed_offset = 5
        (answered,) = everybody.ask(ApiKey.OffsetCommit, 2, body).topics
        assert answered.partitions[0].error_code == 0
        part.committed_offset = 0
        for version in (0, 1, 2, 8, 9):
            (answered,) = through.ask(ApiKey.OffsetCommit, version, body).topics
            assert answered.partitions[0].error_code == denied
        body = Message(group_id=group, topics=[Message(name="t", partition_indexes=[0])])
        (answered,) = everybody.ask(ApiKey.OffsetFetch, 2, body).topics
        assert answered.partitions[0].committed_offset == (0 if is_own else 5)
        for api in (ApiKey.JoinGroup, ApiKey.SyncGroup, ApiKey.Heartbeat, ApiKey.LeaveGroup):
            code = through.ask(api, 0, Message(group_id=group, member_id="x")).error_code
            assert (code == ErrorCode.GROUP_AUTHORIZATION_FAILED) != is_own
    for api in (ApiKey.OffsetDelete, ApiKey.DeleteGroups):
        assert isinstance(through.reply(frame(api, 0, Message(group_id="own"))), HangUp)


def test_requests_that_a_rule_does_not_name_are_denied(broker: Broker) -> None:
    through = limited(broker, topics=("*",), groups=("*",))
    body = Message(transactional_id="payments", transaction_timeout_ms=1)
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    for version in range(5):
        assert through.ask(ApiKey.InitProducerId, version, body).error_code == denied
    assert ApiKey.InitProducerId not in {asked.api for asked in through.asked}
    body = Message(key="payments", key_type=1)
    assert through.ask(ApiKey.FindCoordinator, 1, body).error_code == denied
    through = limited(broker, transactional_ids=("*",))
    assert fetch(through, 12, 0)[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_client_sees_only_operations_that_the_cluster_and_its_rule_allow(broker: Broker) -> None:
    body = Message(topics=None, include_topic_authorized_operations=True)
    body.include_cluster_authorized_operations = True
    cluster = Message(include_cluster_authorized_operations=True)
    group = Message(groups=["g"], include_authorized_operations=True)
    for access, of_topic, of_group, of_cluster in (
        (Access(), 3576, 328, 8096),
        (Access(is_read_only=True), READING, DESCRIBE, LOOKING),
        (Access(topics=("t",), groups=("g",)), 3576, 328, 0),
        (Access(topics=("t",), groups=("g",), is_read_only=True), READING, READ | DESCRIBE, 0),
    ):
        through = Through(broker, replace(CONFIG, access=access))
        answered = through.ask(ApiKey.Metadata, 8, body)
        assert [one.topic_authorized_operations for one in answered.topics] == [of_topic]
        assert answered.cluster_authorized_operations == of_cluster
        answered = through.ask(ApiKey.DescribeCluster, 0, cluster)
        assert answered.cluster_authorized_operations == of_cluster
        (one,) = through.ask(ApiKey.DescribeGroups, 3, group).groups
        assert one.authorized_operations == of_group
        answered = through.ask(ApiKey.Metadata, 8, Message(topics=None))
        assert [one.topic_authorized_operations for one in answered.topics] == [NOT_ASKED]
