"""The rules of all APIs, compared with Kafka's table of operations, and how refusals look.

Not here: that names reach no cluster (gateway/test_permissions.py)."""

from typing import Any, Final

import pytest

from downconvert.access import operations
from downconvert.access.names import (
    COORDINATED,
    NEWEST,
    READING,
    RESOURCES,
    RULES,
    SHOWING_RIGHTS,
)
from downconvert.access.operations import Kind
from downconvert.access.permissions import Permission
from downconvert.access.rights import Access
from downconvert.protocol.decoder import decode
from downconvert.protocol.encoder import encode
from downconvert.protocol.schemas import ApiKey, Field, Message, schema
from tests.downconvert.rights.operations import ANY_TOPIC, CASES, FOLLOWER
from tests.downconvert.rights.rules import CLUSTER, GROUP, ID, TOPIC

TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, ID_DENIED = 29, 30, 31, 53
NOBODY: Final = Access(denies_unnamed=True)
KINDS: Final = {
    TOPIC: Kind.TOPIC,
    GROUP: Kind.GROUP,
    ID: Kind.TRANSACTIONAL_ID,
    CLUSTER: Kind.CLUSTER,
}
BITS: Final = {
    "Read": operations.READ,
    "Write": operations.WRITE,
    "Create": operations.CREATE,
    "Delete": operations.DELETE,
    "Alter": operations.ALTER,
    "Describe": operations.DESCRIBE,
    "DescribeConfigs": operations.DESCRIBE_CONFIGS,
    "AlterConfigs": operations.ALTER_CONFIGS,
}
# Operations that show names without a field in the request, or names that a response lists.
SHOWN: Final = {
    ApiKey.ListGroups: {(Kind.GROUP, operations.DESCRIBE)},
    ApiKey.ListTransactions: {(Kind.TRANSACTIONAL_ID, operations.DESCRIBE)},
}
BY_KEY_TYPE: Final = {ApiKey.FindCoordinator}  # a field of the request says what its names are
COMPARED: Final = sorted({case.api for case in CASES} & RULES.keys() - BY_KEY_TYPE)


@pytest.mark.parametrize("api", COMPARED, ids=lambda api: ApiKey(api).name)
def test_an_api_needs_the_operations_of_kafkas_table(api: ApiKey) -> None:
    needed = {
        (KINDS[kind], BITS[operation])
        for case in CASES
        if case.api is api
        for kind, operation in case.needs
        if kind not in (FOLLOWER, ANY_TOPIC)
    }
    found = {need for need in RULES[api].needs if need[1] != operations.NO_OPERATION}
    assert found == needed | SHOWN.get(api, set())


def test_an_api_of_kafkas_table_without_a_rule_is_about_acls() -> None:
    """Nobody with a list may use these, so there are no names in them to check."""
    acls = {ApiKey.DescribeAcls, ApiKey.CreateAcls, ApiKey.DeleteAcls}
    assert {case.api for case in CASES} - RULES.keys() == acls


def test_pages_of_topics_need_what_their_whole_list_needs() -> None:
    described, listed = RULES[ApiKey.DescribeTopicPartitions], RULES[ApiKey.Metadata]
    assert set(described.needs) == set(listed.needs)


def test_kinds_have_kafkas_numbers() -> None:
    assert RESOURCES == {2: Kind.TOPIC, 32: Kind.GROUP}
    assert COORDINATED == {0: Kind.GROUP, 1: Kind.TRANSACTIONAL_ID}


@pytest.mark.parametrize(
    "api",
    [ApiKey.DescribeConfigs, ApiKey.AlterConfigs, ApiKey.IncrementalAlterConfigs],
    ids=lambda api: api.name,
)
@pytest.mark.parametrize(
    ("number", "code"),
    [(2, TOPIC_DENIED), (32, GROUP_DENIED), (4, CLUSTER_DENIED), (8, CLUSTER_DENIED), (1, 31)],
)
def test_settings_are_refused_by_their_kind_and_the_response_names_it(
    api: ApiKey, number: int, code: int
) -> None:
    """Brokers, loggers, and kinds that are unknown here count as the cluster."""
    names = RULES[api].names
    assert names is not None
    element = Message(resource_type=number, resource_name="x")
    assert names.kind_of(element).value == code
    body = Message(resources=[element])
    (answered,) = getattr(refused(api, 1, body), names.response)
    assert (answered.error_code, answered.resource_type) == (code, number)
    assert answered.resource_name == "x"


def refused(api: ApiKey, version: int, body: Message, access: Access = NOBODY) -> Message:
    """The response to a request that is denied completely, as a client reads it."""
    refusal = Permission(access, api, version, body).refusal
    assert refusal is not None
    name = f"{api.name}Response"
    return decode(name, version, memoryview(encode(name, version, refusal)))


def of_topic(field: str, **values: Any) -> Message:
    one = Message(**{"partition_index": 3, "index": 3, "partition": 3, **values})
    return Message(**{field: [one]}, name="x", topic="x")


# The fields of a partition with an error, in the responses that Kafka's classes make.
PARTITIONS: Final[dict[ApiKey, tuple[int, str, str, str, dict[str, Any]]]] = {
    ApiKey.Produce: (
        *(8, "topic_data.partition_data", "responses.partition_responses", "index"),
        {"base_offset": -1, "log_append_time_ms": -1, "log_start_offset": -1},
    ),
    ApiKey.Fetch: (
        *(11, "topics.partitions", "responses.partitions", "partition_index"),
        {"high_watermark": -1, "last_stable_offset": -1, "log_start_offset": -1},
    ),
    ApiKey.ListOffsets: (
        *(5, "topics.partitions", "topics.partitions", "partition_index"),
        {"timestamp": -1, "offset": -1, "leader_epoch": -1},
    ),
    ApiKey.OffsetCommit: (
        *(8, "topics.partitions", "topics.partitions", "partition_index"),
        {},
    ),
    ApiKey.DeleteRecords: (
        *(1, "topics.partitions", "topics.partitions", "partition_index"),
        {"low_watermark": -1},
    ),
    ApiKey.OffsetForLeaderEpoch: (
        *(3, "topics.partitions", "topics.partitions", "partition"),
        {"leader_epoch": -1, "end_offset": -1},
    ),
}


@pytest.mark.parametrize("api", PARTITIONS, ids=lambda api: api.name)
def test_refused_partitions_are_answered_with_the_error_and_without_values(api: ApiKey) -> None:
    version, asked, answered, index, nothing = PARTITIONS[api]
    topics, partitions = asked.split(".")
    # A list of groups and ids, so that only the topic is denied.
    access = Access(groups=("*",), transactional_ids=("*",))
    body = Message(**{topics: [of_topic(partitions)]}, group_id="g", transactional_id=None)
    found = refused(api, version, body, access)
    topics, partitions = answered.split(".")
    (topic,) = getattr(found, topics)
    (one,) = getattr(topic, partitions)
    assert (topic.__dict__.get("name") or topic.topic) == "x"
    assert (getattr(one, index), one.error_code) == (3, TOPIC_DENIED)
    assert {name: getattr(one, name) for name in nothing} == nothing


@pytest.mark.parametrize("version", [1, 5, 7])
def test_refused_requests_get_no_offsets(version: int) -> None:
    """With the error of the group, and of the topic."""
    topic = Message(name="x", partition_indexes=[3])
    for access, code in ((NOBODY, GROUP_DENIED), (Access(groups=("*",)), TOPIC_DENIED)):
        body = Message(group_id="g", topics=[topic])
        response = refused(ApiKey.OffsetFetch, version, body, access)
        if version > 1 and code == GROUP_DENIED:  # the group's error is enough then
            assert (response.error_code, response.topics) == (code, [])
            continue
        (found,) = response.topics
        (one,) = found.partitions
        assert (one.partition_index, one.error_code) == (3, code)
        assert (one.committed_offset, one.metadata) == (-1, "")


def test_partitions_of_a_transaction_are_refused_in_a_field_of_their_own() -> None:
    body = Message(
        v3_and_below_transactional_id="i", v3_and_below_topics=[Message(name="x", partitions=[3])]
    )
    for access, code in ((NOBODY, ID_DENIED), (Access(transactional_ids=("i",)), TOPIC_DENIED)):
        found = refused(ApiKey.AddPartitionsToTxn, 3, body, access)
        (topic,) = found.results_by_topic_v3_and_below
        (one,) = topic.results_by_partition
        assert (topic.name, one.partition_index, one.partition_error_code) == ("x", 3, code)


@pytest.mark.parametrize(
    ("allowed", "code"),
    [({}, ID_DENIED), ({"transactional_ids": ("i",)}, GROUP_DENIED), ({"groups": ("g",)}, 53)],
)
@pytest.mark.parametrize("api", [ApiKey.AddOffsetsToTxn, ApiKey.TxnOffsetCommit])
def test_the_transactional_id_is_checked_before_the_group(
    api: ApiKey, allowed: dict[str, Any], code: int
) -> None:
    """As in Kafka: each error ends clients in its own way."""
    topics = [of_topic("partitions", committed_offset=5)]
    body = Message(transactional_id="i", group_id="g", topics=topics)
    access = Access(denies_unnamed=True, **allowed)
    found = refused(api, 2, body, access)
    if api is ApiKey.AddOffsetsToTxn:
        assert found.error_code == code
    else:
        assert found.topics[0].partitions[0].error_code == code


@pytest.mark.parametrize("api", [ApiKey.EndTxn, ApiKey.InitProducerId], ids=lambda api: api.name)
@pytest.mark.parametrize("is_read_only", [False, True])
def test_a_transaction_needs_the_right_to_write_with_its_id(
    api: ApiKey, is_read_only: bool
) -> None:
    access = Access(transactional_ids=("mine",), is_read_only=is_read_only)
    for name, code in (("mine", ID_DENIED if is_read_only else 0), ("other", ID_DENIED)):
        refusal = Permission(access, api, 1, Message(transactional_id=name)).refusal
        assert (0 if refusal is None else refusal.error_code) == code


def test_metadata_is_asked_even_if_no_topic_is_left() -> None:
    """It has the brokers, without which a client retries for ever. An empty list means none."""
    body = Message(topics=[Message(name="x")], allow_auto_topic_creation=True)
    permission = Permission(NOBODY, ApiKey.Metadata, 4, body)
    assert permission.refusal is None
    assert body.topics == []


# --- versions and sets of APIs

NAMED: Final = {  # the newest versions that name what they are about [KIP-516, KIP-890, KIP-1152]
    ApiKey.Produce: 12,
    ApiKey.Fetch: 12,
    ApiKey.OffsetCommit: 9,
    ApiKey.OffsetFetch: 9,
    ApiKey.AddPartitionsToTxn: 3,
    ApiKey.ListTransactions: 1,
}


def fields_of(fields: tuple[Field, ...]) -> list[Field]:
    return [found for one in fields for found in (one, *fields_of(one.fields))]


def test_versions_that_name_topics_by_id_or_ids_by_a_pattern_are_not_offered() -> None:
    assert NEWEST == NAMED
    unnamed = {"topic_id", "transactions", "transactional_id_pattern"}
    for api, version in NEWEST.items():
        fields = fields_of(schema(f"{ApiKey(api).name}Request").fields)
        begins = [min(one.versions) for one in fields if one.name in unnamed]
        assert version + 1 in begins
        assert not any(first <= version for first in begins)


def test_apis_that_show_rights_are_those_whose_responses_have_a_field_for_them() -> None:
    found = {
        api
        for api in ApiKey
        for one in fields_of(schema(f"{api.name}Response").fields)
        if one.name.endswith("authorized_operations")
    }
    assert found == SHOWING_RIGHTS


def test_unknown_apis_that_only_read_are_these() -> None:
    """By their numbers in Kafka's ApiKeys. With ConsumerGroupHeartbeat, 68, a client joins a
    group."""
    names = {
        46: "ListPartitionReassignments",
        55: "DescribeQuorum",
        69: "ConsumerGroupDescribe",
        71: "GetTelemetrySubscriptions",
        72: "PushTelemetry",
        74: "ListConfigResources",
    }
    assert set(names) == READING
    assert not READING & RULES.keys()
