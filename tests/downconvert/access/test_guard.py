"""A broker lets clients do no more than their rules say: over requests without sockets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from downconvert.access.guard import EVERYTHING, Guard, is_checked, newest_offered, offered
from downconvert.access.names import READING, RULES
from downconvert.access.rights import Access, ConfigError
from downconvert.access.settings import CLIENT_LIMITS
from downconvert.broker import BadRequestError, Broker, Client, ErrorCode, Exchange
from downconvert.protocol.schemas import ApiKey, Message, schema
from tests.downconvert.broker.asking import ask, begin, frame, response_of, someone
from tests.downconvert.broker.guarding import guard_of
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch

MINE, OTHER = "mine-1", "other-1"
LISTS: Final = Access(topics=("mine-*",), written_topics=("mine-*",), groups=("mine-*",))
READER: Final = Access(is_read_only=True)
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    options = {"auto_create_topics": True, "group_initial_rebalance_delay_ms": 0}
    with writable_broker(tmp_path, MINE, OTHER, **options) as made:
        yield made


def client_of(broker: Broker, access: Access) -> Client:
    broker.guard = guard_of(None, access)
    return someone()


def produce(topic: str, acks: int = 1) -> Message:
    one = Message(index=0, records=batch(0))
    return Message(acks=acks, timeout_ms=0, topic_data=[Message(name=topic, partition_data=[one])])


def fetch(*topics: str) -> Message:
    one = Message(partition=0, fetch_offset=0, partition_max_bytes=1000)
    asked = [Message(topic=topic, partitions=[one]) for topic in topics]
    return Message(replica_id=-1, max_wait_ms=0, max_bytes=1000, topics=asked)


def test_topics_that_are_not_allowed_are_refused_beside_those_that_are(broker: Broker) -> None:
    client = client_of(broker, LISTS)
    for topic, code in ((MINE, 0), (OTHER, DENIED)):
        (response,) = ask(broker, ApiKey.Produce, 9, produce(topic), client=client).responses
        assert response.partition_responses[0].error_code == code
    answer = ask(broker, ApiKey.Fetch, 4, fetch(MINE, OTHER), client=client)
    codes = {one.topic: one.partitions[0].error_code for one in answer.responses}
    assert codes == {MINE: 0, OTHER: DENIED}
    assert broker.topics.partition(OTHER, 0).end_offset == 0  # type: ignore[union-attr]


def test_limits_that_only_a_gateway_has_are_refused_by_a_broker() -> None:
    for name in CLIENT_LIMITS:
        with pytest.raises(ConfigError, match=f"'{name}' is not a setting;"):
            Guard.of({name: 1})
        with pytest.raises(ConfigError, match=f"'{name}' is not a setting of"):
            Guard.of({"clients": [{"networks": "10.0.0.0/8", name: 1}]})


def test_topics_that_are_not_allowed_are_not_listed(broker: Broker) -> None:
    client = client_of(broker, LISTS)
    for version, asked in ((0, []), (1, None), (12, None)):
        response = ask(broker, ApiKey.Metadata, version, Message(topics=asked), client=client)
        assert [one.name for one in response.topics] == [MINE]
    asked = [Message(name=OTHER), Message(name=MINE)]
    response = ask(broker, ApiKey.Metadata, 1, Message(topics=asked), client=client)
    assert {one.name: one.error_code for one in response.topics} == {OTHER: DENIED, MINE: 0}


def test_topics_are_made_only_where_the_client_may_write(broker: Broker) -> None:
    reader = client_of(broker, READER)
    client = client_of(broker, LISTS)
    for version in (0, 4):
        asked = [Message(name="mine-2"), Message(name="other-2")]
        body = Message(topics=asked, allow_auto_topic_creation=True)
        assert ask(broker, ApiKey.Metadata, 1, body, client=client).topics
        broker.guard = guard_of(None, READER)
        body = Message(topics=[Message(name=f"read-{version}")], allow_auto_topic_creation=True)
        ask(broker, ApiKey.Metadata, version, body, client=reader)
    assert set(broker.topics) == {MINE, OTHER, "mine-2"}


def test_groups_that_are_not_allowed_are_refused_and_not_listed(broker: Broker) -> None:
    client = client_of(broker, LISTS)
    committed = Message(partition_index=0, committed_offset=1, committed_metadata="")
    topics = [Message(name=MINE, partitions=[committed])]
    for group, code in (("mine-g", 0), ("other-g", GROUP_DENIED)):
        body = Message(group_id=group, topics=topics)
        (response,) = ask(broker, ApiKey.OffsetCommit, 0, body, client=client).topics
        assert response.partitions[0].error_code == code
        body = Message(group_id=group, topics=[])
        assert ask(broker, ApiKey.OffsetDelete, 0, body, client=client).error_code == code
    other = client_of(broker, Access())
    ask(broker, ApiKey.OffsetCommit, 0, Message(group_id="other-g", topics=topics), client=other)
    listed = ask(broker, ApiKey.ListGroups, 0, Message(), client=client).groups
    assert [one.group_id for one in listed] == ["mine-g"]


def test_a_read_only_client_changes_nothing(broker: Broker) -> None:
    client = client_of(broker, READER)
    before = broker.topics.partition(MINE, 0)
    assert before is not None
    asked: dict[ApiKey, Any] = {
        ApiKey.Produce: produce(MINE),
        ApiKey.CreateTopics: Message(topics=[Message(name="n", num_partitions=1)]),
        ApiKey.DeleteTopics: Message(topic_names=[MINE]),
        ApiKey.DeleteRecords: Message(
            topics=[Message(name=MINE, partitions=[Message(partition_index=0, offset=-1)])]
        ),
        ApiKey.CreatePartitions: Message(topics=[Message(name=MINE, count=3, assignments=None)]),
        ApiKey.AlterConfigs: Message(
            resources=[Message(resource_type=2, resource_name=MINE, configs=[])]
        ),
        ApiKey.IncrementalAlterConfigs: Message(
            resources=[Message(resource_type=2, resource_name=MINE, configs=[])]
        ),
        ApiKey.InitProducerId: Message(transactional_id=None),
        ApiKey.DeleteGroups: Message(groups_names=["g"]),
        ApiKey.OffsetDelete: Message(group_id="g", topics=[]),
    }
    for api, body in asked.items():
        exchange = begin(broker, api, 0 if api is not ApiKey.Produce else 9, body, client=client)
        refused = {ErrorCode(code).name for code in exchange.errors}
        assert len(refused) == 1, api
        assert refused.pop().endswith("_AUTHORIZATION_FAILED")
    assert set(broker.topics) == {MINE, OTHER}
    assert broker.topics.partition(MINE, 0) is before
    assert before.end_offset == 0
    assert ask(broker, ApiKey.Fetch, 4, fetch(MINE), client=client).responses[0].partitions


def test_a_write_without_a_response_that_is_refused_ends_the_connection(broker: Broker) -> None:
    client = client_of(broker, LISTS)
    exchange = begin(broker, ApiKey.Produce, 9, produce(OTHER, acks=0), client=client)
    assert (exchange.send, exchange.close_after_reply) == (None, True)


@pytest.mark.parametrize(
    ("access", "code"),
    [
        (LISTS, ErrorCode.UNKNOWN_TOPIC_ID),
        (Access(topics=("*",), written_topics=("mine-*",)), DENIED),
    ],
)
def test_a_topic_is_deleted_by_its_id_only_where_its_name_may_be_written(
    broker: Broker, access: Access, code: int
) -> None:
    """A client that may not read it either does not learn that it exists."""
    client = client_of(broker, access)
    topics = [Message(name=None, topic_id=broker.topics[name].id) for name in (MINE, OTHER)]
    body = Message(topics=topics, timeout_ms=0)
    response = ask(broker, ApiKey.DeleteTopics, 6, body, client=client).responses
    codes = {bytes(one.topic_id): one.error_code for one in response}
    assert codes == {topics[0].topic_id: 0, topics[1].topic_id: code}
    assert set(broker.topics) == {OTHER}


def test_a_client_that_may_write_to_a_topic_creates_configures_and_deletes_it(
    broker: Broker,
) -> None:
    client = client_of(broker, LISTS)
    for name, code in (("mine-3", 0), ("other-3", DENIED)):
        made = Message(name=name, num_partitions=1, replication_factor=1)
        (response,) = ask(
            broker, ApiKey.CreateTopics, 0, Message(topics=[made]), client=client
        ).topics
        assert response.error_code == code
        setting = Message(name="retention.ms", value="1000")
        changed = Message(resource_type=2, resource_name=name, configs=[setting])
        body = Message(resources=[changed])
        (response,) = ask(broker, ApiKey.AlterConfigs, 0, body, client=client).responses
        assert response.error_code == code
        body = Message(topic_names=[name], timeout_ms=0)
        (response,) = ask(broker, ApiKey.DeleteTopics, 0, body, client=client).responses
        assert response.error_code == code


def test_a_client_that_may_read_a_topic_sees_its_settings(broker: Broker) -> None:
    client = client_of(broker, Access(is_read_only=True, topics=("mine-*",)))
    asked = [Message(resource_type=2, resource_name=name) for name in (MINE, OTHER)]
    body = Message(resources=asked)
    found = ask(broker, ApiKey.DescribeConfigs, 0, body, client=client).results
    assert {one.resource_name: bool(one.configs) for one in found} == {MINE: True, OTHER: False}


def test_cluster_resources_are_hidden_from_clients_with_a_list(broker: Broker) -> None:
    client = client_of(broker, LISTS)
    response = ask(broker, ApiKey.DescribeLogDirs, 4, Message(topics=None), client=client)
    assert (response.error_code, response.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
    asked = Message(resources=[Message(resource_type=4, resource_name="0")])
    (response,) = ask(broker, ApiKey.DescribeConfigs, 0, asked, client=client).results
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_the_leader_of_a_group_gets_the_subscriptions_of_all_members(broker: Broker) -> None:
    def join(access: Access, member_id: str, metadata: bytes) -> Exchange:
        protocols = [Message(name="range", metadata=metadata)]
        body = Message(
            group_id="mine-g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=protocols,
        )
        return begin(broker, ApiKey.JoinGroup, 3, body, client=client_of(broker, access))

    leader = response_of(join(LISTS, "", b"mine"))
    other = join(Access(), "", OTHER.encode())
    response = response_of(join(LISTS, leader.member_id, b"mine")).members
    assert sorted(bytes(one.metadata) for one in response) == [b"mine", OTHER.encode()]
    assert other.is_done


def test_only_understood_requests_are_offered_and_served(broker: Broker) -> None:
    client = client_of(broker, LISTS)
    response = ask(broker, ApiKey.ApiVersions, 0, Message(), client=client)
    newest = {ApiKey(one.api_key): one.max_version for one in response.api_keys}
    assert newest[ApiKey.Fetch] == 12
    assert set(newest) <= set(RULES)
    for api, served in broker.versions.items():
        for version in range(newest.get(api, -1) + 1, served.stop):
            with pytest.raises(BadRequestError, match="not offered"):
                broker.handle(client, memoryview(frame(api, version, Message())), 0.0)


def test_every_request_that_is_offered_is_answered_without_a_defect(broker: Broker) -> None:
    """With nothing in it but defaults, by clients of all rights."""
    for access in (LISTS, READER, Access(topics=("no",), is_read_only=True)):
        client = client_of(broker, access)
        for api, versions in offered(access, broker.versions).items():
            for version in versions:
                asked = frame(api, version, Message())
                exchange = broker.handle(client, memoryview(asked), 0.0)
                assert exchange.defect is None
                broker.finished(exchange)


def test_a_client_with_all_rights_is_offered_all_versions() -> None:
    everything = {api: range(schema(f"{api.name}Request").newest + 1) for api in ApiKey}
    assert offered(Access(), everything) is everything
    assert newest_offered(READER, ApiKey.Fetch, 18) == 18


def test_responses_of_every_kind_leave_out_what_may_not_be_known(broker: Broker) -> None:
    """Requests that name what others have, or whose responses could."""
    everybody = client_of(broker, Access())
    committed = Message(partition_index=0, committed_offset=1, committed_metadata="")
    both = [Message(name=name, partitions=[committed]) for name in (MINE, OTHER)]
    for group in ("mine-g", "other-g"):
        ask(broker, ApiKey.OffsetCommit, 0, Message(group_id=group, topics=both), client=everybody)
    client = client_of(broker, LISTS)
    names = Message(partition_indexes=[0])
    topics = [Message(name=name, **vars(names)) for name in (MINE, OTHER)]
    partition = Message(partition_index=0, partition=0, offset=0, timestamp=-1, leader_epoch=0)
    placed = [Message(name=n, topic=n, partitions=[partition]) for n in (MINE, OTHER)]
    groups = [Message(group_id=name, topics=None) for name in ("mine-g", "other-g")]
    asked: list[tuple[ApiKey, Message]] = [
        (ApiKey.OffsetFetch, Message(group_id="mine-g", topics=topics, groups=groups)),
        (ApiKey.OffsetFetch, Message(group_id="other-g", topics=topics, groups=groups)),
        (ApiKey.DescribeGroups, Message(groups=["mine-g", "other-g", "mine-none"])),
        (ApiKey.DescribeLogDirs, Message(topics=None)),
        (ApiKey.ListOffsets, Message(replica_id=-1, topics=placed)),
        (ApiKey.OffsetForLeaderEpoch, Message(replica_id=-1, topics=placed)),
        (ApiKey.FindCoordinator, Message(key="other-g", coordinator_keys=["mine-g", "other-g"])),
        (ApiKey.JoinGroup, Message(group_id="other-g", protocols=[])),
        (ApiKey.ListGroups, Message()),
    ]
    for api, body in asked:
        for version in offered(LISTS, broker.versions)[api]:
            response = repr(ask(broker, api, version, body, client=client))
            named = repr(body)
            for name in (OTHER, "other-g"):
                assert name in named or name not in response, (api, version)
            if "error_code" in response and name in named:
                assert str(int(DENIED)) in response or str(int(GROUP_DENIED)) in response


def test_another_clients_session_reveals_nothing(broker: Broker) -> None:
    everybody = client_of(broker, Access())
    ask(broker, ApiKey.Produce, 9, produce(OTHER), client=everybody)
    body = fetch(OTHER)
    body.session_epoch = 0
    session = ask(broker, ApiKey.Fetch, 11, body, client=everybody)
    assert session.session_id
    ask(broker, ApiKey.Produce, 9, produce(OTHER), client=everybody)
    client = client_of(broker, LISTS)
    body = fetch()
    body.session_id, body.session_epoch = session.session_id, 1
    response = ask(broker, ApiKey.Fetch, 11, body, client=client)
    assert OTHER not in repr(response)


def test_apis_whose_fields_are_unknown_are_offered_to_those_who_may_use_them_unread() -> None:
    reads = next(iter(sorted(READING - RULES.keys())))
    changes = 68  # ConsumerGroupHeartbeat
    assert changes not in RULES
    for access, newest in ((EVERYTHING, (5, 5)), (READER, (5, -1)), (LISTS, (-1, -1))):
        assert (newest_offered(access, reads, 5), newest_offered(access, changes, 5)) == newest
        assert is_checked(access, reads) == (access is LISTS)


def test_the_newest_version_is_lower_only_where_a_request_is_checked() -> None:
    for access, newest in ((EVERYTHING, 17), (READER, 17), (LISTS, 12)):
        assert newest_offered(access, ApiKey.Fetch, 17) == newest
