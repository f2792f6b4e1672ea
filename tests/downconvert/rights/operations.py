"""Kafka's table: which ACL operations each API needs, on what, and a request that needs them.

From "Authorization and ACLs" of Kafka's documentation, and KafkaApis of 3.9. A request names one
resource of each kind that it needs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.gateway.talk import message_set

from .rules import CLUSTER, GROUP, ID, TOPIC

LOOKS: Final = {"Describe", "DescribeConfigs"}
LOOKING: Final = {ApiKey.Fetch, ApiKey.DescribeProducers}  # to which their names need "Read"
FOLLOWER: Final = "follower"  # nobody is one here
ANY_TOPIC: Final = "any topic"  # some topic that may be written to, or the cluster


@dataclass(frozen=True)
class Names:
    """The names in a request. topic_id: of the topic, or one that no topic has."""

    topic: str
    topic_id: bytes
    group: str
    id: str

    def of(self, kind: str) -> str:
        return {TOPIC: self.topic, GROUP: self.group, ID: self.id}.get(kind, "")


@dataclass(frozen=True)
class Case:
    """An API, what it needs, and its request. by_id: in these versions it names topics by ids."""

    api: ApiKey
    needs: tuple[tuple[str, str], ...]
    request: Callable[[int, Names], Message]
    versions: range = range(100)
    by_id: range = range(0)

    @property
    def changes(self) -> bool:
        """Whether something is other afterwards, where it is allowed."""
        return any(need not in LOOKS for _, need in self.needs) and self.api not in LOOKING

    def kinds(self) -> list[str]:
        return sorted({kind for kind, _ in self.needs} & {TOPIC, GROUP, ID})


def _topic(names: Names, **fields: object) -> Message:
    return Message(name=names.topic, topic=names.topic, topic_id=names.topic_id, **fields)


def _produce(version: int, names: Names) -> Message:
    magic = 2 if version >= 3 else int(version == 2)
    one = Message(index=0, records=message_set(magic, b"a"))
    topics = [_topic(names, partition_data=[one])]
    return Message(acks=1, timeout_ms=1000, topic_data=topics, transactional_id=None)


def _transactional(version: int, names: Names) -> Message:
    return Message(**{**_produce(version, names).__dict__, "transactional_id": names.id})


def _fetch(_version: int, names: Names) -> Message:
    one = Message(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [_topic(names, partitions=[one])]
    return Message(replica_id=-1, max_wait_ms=0, max_bytes=1000, session_epoch=-1, topics=topics)


def _list_offsets(_version: int, names: Names) -> Message:
    one = Message(partition_index=0, timestamp=-1, max_num_offsets=1, current_leader_epoch=-1)
    return Message(replica_id=-1, topics=[_topic(names, partitions=[one])])


def _claimed(request: Callable[[int, Names], Message]) -> Callable[[int, Names], Message]:
    """The request of somebody who claims to be broker 1."""

    def claimed(version: int, names: Names) -> Message:
        state = Message(replica_id=1, replica_epoch=1)
        fields = request(version, names).__dict__
        return Message(**{**fields, "replica_id": 1, "replica_state": state})

    return claimed


def _epoch(_version: int, names: Names) -> Message:
    one = Message(partition=0, leader_epoch=0, current_leader_epoch=-1)
    return Message(replica_id=-1, topics=[_topic(names, partitions=[one])])


TELL: Final = {
    "include_topic_authorized_operations": True,
    "include_cluster_authorized_operations": True,
    "include_authorized_operations": True,
}


def _metadata(_version: int, names: Names) -> Message:
    return Message(topics=[Message(name=names.topic)], allow_auto_topic_creation=False, **TELL)


def _metadata_by_id(_version: int, names: Names) -> Message:
    topics = [Message(name=None, topic_id=names.topic_id)]
    return Message(topics=topics, allow_auto_topic_creation=False)


def _commit(_version: int, names: Names) -> Message:
    one = Message(partition_index=0, committed_offset=3, committed_metadata="")
    topics = [_topic(names, partitions=[one])]
    return Message(group_id=names.group, generation_id_or_member_epoch=-1, topics=topics)


def _offset_fetch(version: int, names: Names) -> Message:
    topics = [_topic(names, partition_indexes=[0])]
    if version < 8:
        return Message(group_id=names.group, topics=topics)
    return Message(groups=[Message(group_id=names.group, topics=topics, member_epoch=-1)])


def _coordinator(key_type: int) -> Callable[[int, Names], Message]:
    def request(version: int, names: Names) -> Message:
        key = names.id if key_type else names.group
        if version >= 4:
            return Message(key_type=key_type, coordinator_keys=[key])
        return Message(key=key, key_type=key_type)

    return request


def _member(_version: int, names: Names) -> Message:
    """The request is of no member: nothing changes, and nothing waits."""
    return Message(
        group_id=names.group,
        member_id="nobody",
        generation_id=1,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[Message(name="range", metadata=b"")],
        members=[Message(member_id="nobody")],
    )


def _create(version: int, names: Names) -> Message:
    one = Message(name=names.topic, num_partitions=1, replication_factor=1)
    return Message(topics=[one], timeout_ms=1000, validate_only=version > 0)


def _delete(version: int, names: Names) -> Message:
    topics = [Message(name=names.topic)] if version >= 6 else ()
    return Message(topic_names=[names.topic], topics=topics, timeout_ms=1000)


def _delete_by_id(_version: int, names: Names) -> Message:
    return Message(topics=[Message(name=None, topic_id=names.topic_id)], timeout_ms=1000)


def _delete_records(_version: int, names: Names) -> Message:
    one = Message(partition_index=0, offset=0)
    return Message(topics=[_topic(names, partitions=[one])], timeout_ms=1000)


def _more_partitions(_version: int, names: Names) -> Message:
    return Message(topics=[_topic(names, count=2, assignments=None)], timeout_ms=1000)


def _settings(kind: str, type_: int) -> Callable[[int, Names], Message]:
    def request(_version: int, names: Names) -> Message:
        name = "0" if kind == CLUSTER else names.of(kind)
        config = Message(name="retention.ms", value="123456", config_operation=0)
        one = Message(resource_type=type_, resource_name=name, configs=[config])
        one.configuration_keys = None
        return Message(resources=[one])

    return request


def _producer_id(_version: int, names: Names) -> Message:
    return Message(transactional_id=names.id, transaction_timeout_ms=1000)


def _idempotent(_version: int, _names: Names) -> Message:
    return Message(transactional_id=None, transaction_timeout_ms=1000)


def _transaction(_version: int, names: Names) -> Message:
    """With an epoch that is nobody's: nothing changes where it is allowed."""
    offset = Message(partition_index=0, committed_offset=1, committed_metadata="")
    return Message(
        transactional_id=names.id,
        v3_and_below_transactional_id=names.id,
        v3_and_below_producer_id=10**9,
        producer_id=10**9,
        group_id=names.group,
        topics=[_topic(names, partitions=[offset])],
        v3_and_below_topics=[Message(name=names.topic, partitions=[0])],
    )


def _acl(_version: int, _names: Names) -> Message:
    one = Message(
        resource_type=2,
        resource_name="t",
        resource_pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    any_of = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1}
    filters = [Message(**any_of, permission_type=1)]
    return Message(**any_of, permission_type=1, creations=[one], filters=filters)


def _everything(_version: int, _names: Names) -> Message:
    return Message(topics=None, **TELL)


DESCRIBES, READS, WRITES = ((TOPIC, name) for name in ("Describe", "Read", "Write"))
FOLLOWS: Final = (FOLLOWER, "ClusterAction")
JOINS: Final = (GROUP, "Read")
USES: Final = (ID, "Write")
CASES: Final = (
    Case(ApiKey.Produce, (WRITES,), _produce, by_id=range(13, 20)),
    Case(ApiKey.Produce, (WRITES, USES), _transactional, range(3, 13)),
    Case(ApiKey.Fetch, (READS,), _fetch, by_id=range(13, 30)),
    Case(ApiKey.ListOffsets, (DESCRIBES,), _list_offsets),
    Case(ApiKey.OffsetForLeaderEpoch, (DESCRIBES,), _epoch),
    Case(ApiKey.Fetch, (FOLLOWS, READS), _claimed(_fetch), by_id=range(13, 30)),
    Case(ApiKey.ListOffsets, (FOLLOWS, DESCRIBES), _claimed(_list_offsets)),
    Case(ApiKey.OffsetForLeaderEpoch, (FOLLOWS, DESCRIBES), _claimed(_epoch), range(3, 20)),
    Case(ApiKey.Metadata, (DESCRIBES,), _metadata),
    Case(ApiKey.Metadata, (DESCRIBES,), _metadata_by_id, range(12, 20), range(12, 20)),
    Case(ApiKey.OffsetCommit, (JOINS, READS), _commit, by_id=range(10, 20)),
    Case(ApiKey.OffsetFetch, ((GROUP, "Describe"), DESCRIBES), _offset_fetch, by_id=range(10, 20)),
    Case(ApiKey.FindCoordinator, ((GROUP, "Describe"),), _coordinator(0)),
    Case(ApiKey.FindCoordinator, ((ID, "Describe"),), _coordinator(1), range(1, 20)),
    *(
        Case(api, (JOINS,), _member)
        for api in (ApiKey.JoinGroup, ApiKey.SyncGroup, ApiKey.Heartbeat, ApiKey.LeaveGroup)
    ),
    Case(
        ApiKey.DescribeGroups,
        ((GROUP, "Describe"),),
        lambda _, names: Message(groups=[names.group], **TELL),
    ),
    Case(
        ApiKey.DeleteGroups,
        ((GROUP, "Delete"),),
        lambda _, names: Message(groups_names=[names.group]),
    ),
    Case(ApiKey.OffsetDelete, ((GROUP, "Delete"), READS), _commit),
    Case(ApiKey.CreateTopics, ((TOPIC, "Create"),), _create),
    Case(ApiKey.DeleteTopics, ((TOPIC, "Delete"),), _delete),
    Case(ApiKey.DeleteTopics, ((TOPIC, "Delete"),), _delete_by_id, range(6, 20), range(6, 20)),
    Case(ApiKey.DeleteRecords, ((TOPIC, "Delete"),), _delete_records),
    Case(ApiKey.CreatePartitions, ((TOPIC, "Alter"),), _more_partitions),
    *(
        Case(api, ((kind, operation),), _settings(kind, type_))
        for api, operation in (
            (ApiKey.DescribeConfigs, "DescribeConfigs"),
            (ApiKey.AlterConfigs, "AlterConfigs"),
            (ApiKey.IncrementalAlterConfigs, "AlterConfigs"),
        )
        for kind, type_ in ((TOPIC, 2), (GROUP, 32), (CLUSTER, 4))
    ),
    Case(ApiKey.DescribeLogDirs, ((CLUSTER, "Describe"),), _everything),
    Case(ApiKey.InitProducerId, (USES,), _producer_id),
    Case(ApiKey.InitProducerId, ((ANY_TOPIC, "Write"),), _idempotent),
    Case(ApiKey.AddPartitionsToTxn, (USES, WRITES), _transaction, range(4)),
    Case(ApiKey.AddOffsetsToTxn, (USES, JOINS), _transaction),
    Case(ApiKey.EndTxn, (USES,), _transaction),
    Case(ApiKey.TxnOffsetCommit, (USES, JOINS, READS), _transaction),
    Case(ApiKey.DescribeProducers, (READS,), lambda _, names: _producers(names)),
    Case(
        ApiKey.DescribeTransactions,
        ((ID, "Describe"),),
        lambda _, names: Message(transactional_ids=[names.id]),
    ),
    Case(ApiKey.DescribeCluster, (), lambda _version, _names: Message(**TELL)),
    Case(ApiKey.DescribeAcls, ((CLUSTER, "Describe"),), _acl),
    Case(ApiKey.CreateAcls, ((CLUSTER, "Alter"),), _acl),
    Case(ApiKey.DeleteAcls, ((CLUSTER, "Alter"),), _acl),
    # All names. Those that the client may not describe are left out.
    Case(ApiKey.Metadata, (), _everything, range(1, 20)),
    Case(ApiKey.ListGroups, (), lambda _version, _names: Message()),
    Case(ApiKey.ListTransactions, (), lambda _version, _names: Message()),
    Case(ApiKey.ApiVersions, (), lambda _version, _names: Message()),
)


def _producers(names: Names) -> Message:
    return Message(topics=[_topic(names, partition_indexes=[0])])
