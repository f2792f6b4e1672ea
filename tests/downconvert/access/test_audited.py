"""The audit names what a request has changed or was denied, whatever the API and its version."""

import pytest

from downconvert.access.audited import CHANGES, NAMED_MAX, changed, denied
from downconvert.access.names import RULES
from downconvert.access.permissions import Permission
from downconvert.access.rights import Access
from downconvert.gateway.session.versions import PASSED
from downconvert.protocol.decoder import decode
from downconvert.protocol.encoder import encode
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message

NOTHING = Access(denies_unnamed=True)
TOPIC, GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED


def both_ways(api: ApiKey, version: int, body: Message) -> Message:
    """The request as it is read from its bytes."""
    name = f"{api.name}Request"
    return decode(name, version, memoryview(bytes(encode(name, version, body))))


REQUESTS = [
    (ApiKey.Produce, 3, {"topic_data": [Message(name="t", partition_data=[Message(index=0)])]}),
    (ApiKey.Fetch, 4, {"topics": [Message(topic="t", partitions=[Message(partition=1)])]}),
    (ApiKey.Metadata, 1, {"topics": [Message(name="t")]}),
    (ApiKey.ListOffsets, 1, {"topics": [Message(name="t", partitions=[Message()])]}),
    (ApiKey.CreateTopics, 2, {"topics": [Message(name="t")]}),
    (ApiKey.DeleteTopics, 1, {"topic_names": ["t"]}),
    (ApiKey.DeleteRecords, 1, {"topics": [Message(name="t", partitions=[Message()])]}),
    (ApiKey.CreatePartitions, 1, {"topics": [Message(name="t", count=3)]}),
    (ApiKey.DescribeConfigs, 1, {"resources": [Message(resource_type=2, resource_name="t")]}),
]


@pytest.mark.parametrize(("api", "version", "fields"), REQUESTS)
def test_a_denied_topic_is_named(api: ApiKey, version: int, fields: dict[str, object]) -> None:
    body = both_ways(api, version, Message(**fields))
    refusal = Permission(NOTHING, api, version, body).refusal
    response = Message(topics=[Message(name="t", error_code=TOPIC)]) if refusal is None else refusal
    named = denied(api, body, response)
    assert named == [{"kind": "topic", "name": "t", "error": "TOPIC_AUTHORIZATION_FAILED"}]


@pytest.mark.parametrize("api", [api for api, rule in RULES.items() if rule.about])
def test_a_denied_resource_of_the_whole_request_is_named(api: int) -> None:
    (first, *_) = RULES[api].about
    body = Message(**{one.name: "it" for one in RULES[api].about})
    if (names := RULES[api].names) is not None:
        setattr(body, names.request, [])
    refusal = Permission(NOTHING, ApiKey(api), 0, body).refusal
    assert refusal is not None
    (named,) = denied(ApiKey(api), body, refusal)[:1]
    assert (named["kind"], named["name"]) == (first.kind.name.lower(), "it")


@pytest.mark.parametrize("version", [1, 4])
def test_a_denied_group_is_named_where_its_coordinator_is_asked_for(version: int) -> None:
    body = Message(key="g", key_type=0, coordinator_keys=["g"])
    refusal = Permission(NOTHING, ApiKey.FindCoordinator, version, body).refusal
    assert refusal is not None
    named = denied(ApiKey.FindCoordinator, body, refusal)
    assert named == [{"kind": "group", "name": "g", "error": "GROUP_AUTHORIZATION_FAILED"}]


def test_an_allowed_resource_is_not_named_among_the_denied() -> None:
    topics = [Message(name="mine", error_code=0), Message(name="other", error_code=TOPIC)]
    named = denied(ApiKey.CreateTopics, Message(topics=[]), Message(topics=topics))
    assert [one["name"] for one in named] == ["other"]


def test_altered_settings_are_named_without_their_values() -> None:
    configs = [Message(name="retention.ms", value="secret")]
    body = Message(resources=[Message(resource_type=4, resource_name="1", configs=configs)])
    answered = Message(resource_type=4, resource_name="1", error_code=0)
    (named,) = changed(ApiKey.AlterConfigs, body, Message(responses=[answered]))
    assert named == {
        "kind": "broker",
        "name": "1",
        "error": "NONE",
        "settings": ["retention.ms"],
    }


def test_a_topic_without_a_name_is_named_by_its_id() -> None:
    answered = Message(name=None, topic_id=bytes(15) + b"\1", error_code=0)
    (named,) = changed(ApiKey.DeleteTopics, Message(), Message(responses=[answered]))
    assert named["name"] == "0" * 31 + "1"


def test_a_request_that_names_thousands_makes_a_line_of_bounded_size() -> None:
    topics = [Message(name=f"t{n}", error_code=TOPIC) for n in range(5 * NAMED_MAX)]
    response = Message(topics=topics)
    assert len(changed(ApiKey.CreateTopics, Message(), response)) == NAMED_MAX
    assert len(denied(ApiKey.CreateTopics, None, response)) == NAMED_MAX
    coordinators = [Message(key=f"g{n}", error_code=GROUP) for n in range(5 * NAMED_MAX)]
    response = Message(coordinators=coordinators)
    assert len(denied(ApiKey.FindCoordinator, Message(key_type=0), response)) == NAMED_MAX
    acls = [Message(resource_type=2, resource_name="t", principal="User:ann")] * 5 * NAMED_MAX
    response = Message(results=[Message(error_code=0)] * 5 * NAMED_MAX)
    assert len(changed(ApiKey.CreateAcls, Message(creations=acls), response)) == NAMED_MAX


def test_each_api_that_is_passed_on_unread_is_known_to_change_something_or_not() -> None:
    """A new one must be looked at."""
    harmless = {29, 41, 46, 48, 50, 55, 68, 69, 71, 72, 74, 88, 89}
    assert PASSED.keys() - CHANGES.keys() == harmless


@pytest.mark.parametrize("version", [1, 3])
def test_created_and_deleted_acls_are_named(version: int) -> None:
    acl = {"resource_pattern_type": 3, "host": "*", "operation": 3, "permission_type": 3}
    creations = [
        Message(resource_type=2, resource_name="orders", principal="User:ann", **acl),
        Message(resource_type=3, resource_name="g", principal="User:*", **acl),
    ]
    body = both_ways(ApiKey.CreateAcls, version, Message(creations=creations))
    response = Message(results=[Message(error_code=0), Message(error_code=31)])
    assert changed(ApiKey.CreateAcls, body, response) == [
        {"kind": "acl", "name": "topic orders for User:ann", "error": "NONE"},
        {"kind": "acl", "name": "group g for User:*", "error": "CLUSTER_AUTHORIZATION_FAILED"},
    ]
    every = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    filters = [Message(resource_type_filter=1, operation=1, permission_type=1, **every)]
    body = both_ways(ApiKey.DeleteAcls, version, Message(filters=filters))
    response = Message(filter_results=[Message(error_code=0)])
    assert changed(ApiKey.DeleteAcls, body, response) == [
        {"kind": "acl", "name": "any (any) for (any)", "error": "NONE"}
    ]


def test_the_group_whose_offsets_are_deleted_is_named_with_the_topics() -> None:
    topics = [Message(name="t", partitions=[Message(partition_index=0)])]
    body = both_ways(ApiKey.OffsetDelete, 0, Message(group_id="g", topics=topics))
    parts = [Message(partition_index=0, error_code=0)]
    response = Message(error_code=0, topics=[Message(name="t", partitions=parts)])
    assert changed(ApiKey.OffsetDelete, body, response) == [
        {"kind": "group", "name": "g", "error": "NONE"},
        {"kind": "topic", "name": "t", "error": "NONE"},
    ]
