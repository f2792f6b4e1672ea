"""The gateway forwards the permitted parts of a request, and answers the rest itself.

Not here: which fields have names (test_names.py, gateway/test_permissions.py), pages of topics, and
operations that a response shows (test_permissions_shown.py)."""

from typing import Any, Final

import pytest

from downconvert.access.operations import READ, WRITE, Kind
from downconvert.access.permissions import Permission, allows, question, refused_writes
from downconvert.access.rights import Access
from downconvert.protocol.schemas import ApiKey, Message

TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, ID_DENIED = 29, 30, 31, 53
UNKNOWN_ID, NOT_ATTEMPTED, INVALID = 100, 55, 42
LISTS: Final = Access(topics=("ok-*",), groups=("ok-*",), transactional_ids=("ok-*",))
READER: Final = Access(topics=("ok-*",), is_read_only=True)
OPEN: Final = Access()
NOWHERE: Final = (-1, "", -1)


def id_of(number: int) -> bytes:
    return bytes([number]) * 16


NO_ID: Final = bytes(16)


def asked(api: ApiKey, version: int, access: Access = LISTS, **body: Any) -> Permission:
    return Permission(access, api, version, Message(**body))


def named(*names: str, **fields: Any) -> list[Message]:
    return [Message(name=name, **fields) for name in names]


def codes(elements: list[Message], name: str = "name") -> dict[Any, int]:
    found = {getattr(one, name): one.error_code for one in elements}
    assert len(found) == len(elements)
    return found


def test_an_operation_is_allowed_if_all_of_its_bits_are() -> None:
    assert allows(READER, Kind.TOPIC, "ok-1", READ)
    assert not allows(READER, Kind.TOPIC, "ok-1", READ | WRITE)
    assert not allows(READER, Kind.TOPIC, "no-1", READ)
    assert allows(READER, Kind.TOPIC, "ok-1")
    assert not allows(READER, Kind.TOPIC, "no-1")


@pytest.mark.parametrize("kind", Kind)
def test_no_name_is_always_allowed_and_an_empty_one_is_a_name(kind: Kind) -> None:
    nobody = Access(denies_unnamed=True)
    assert allows(nobody, kind, None, READ)
    assert not allows(nobody, kind, "", READ)


# --- questions before a request


def test_topics_to_delete_are_looked_up_by_those_ids_that_are_given() -> None:
    topics = [
        Message(name="ok-1", topic_id=NO_ID),
        Message(name=None, topic_id=id_of(1)),
        Message(name=None, topic_id=NO_ID),
        Message(name="ok-2", topic_id=id_of(2)),
    ]
    found = question(ApiKey.DeleteTopics, 6, Message(topics=topics))
    assert found is not None
    version, body = found
    assert version == 12
    assert [(one.name, one.topic_id) for one in body.topics] == [(None, id_of(1)), (None, id_of(2))]
    assert not body.allow_auto_topic_creation
    assert question(ApiKey.DeleteTopics, 6, Message(topics=topics[:1])) is None
    assert question(ApiKey.DeleteTopics, 5, Message(topics=topics)) is None


def test_all_topics_are_looked_up_if_a_page_of_all_is_asked_for() -> None:
    found = question(ApiKey.DescribeTopicPartitions, 0, Message(topics=[]))
    assert found is not None
    assert (found[0], found[1].topics) == (4, None)
    assert not found[1].allow_auto_topic_creation
    for api, topics in (
        (ApiKey.DescribeTopicPartitions, named("a")),
        (ApiKey.Metadata, []),
        (ApiKey.Fetch, []),
    ):
        assert question(api, 0, Message(topics=topics)) is None


# --- requests


def test_a_produce_to_a_read_only_listener_is_refused_for_each_partition() -> None:
    parts = [Message(index=2), Message(index=5)]
    found = refused_writes(Message(topic_data=named("a", "b", partition_data=parts))).responses
    assert [one.name for one in found] == ["a", "b"]
    for topic in found:
        shown = [(one.index, one.error_code) for one in topic.partition_responses]
        assert shown == [(2, TOPIC_DENIED), (5, TOPIC_DENIED)]


@pytest.mark.parametrize(
    ("names", "takes_all"), [(("ok-1", "ok-2"), True), (("ok-1", "no-1"), False)]
)
def test_it_is_known_whether_a_request_goes_on_whole(
    names: tuple[str, ...], takes_all: bool
) -> None:
    """A produce without a response that does not ends the connection."""
    data = named(*names, partition_data=[Message(index=0)])
    permission = asked(ApiKey.Produce, 3, transactional_id=None, topic_data=data)
    assert permission.refusal is None
    assert permission.takes_all == takes_all
    groups = [Message(group_id="ok-g", topics=named(*names, partition_indexes=[0]))]
    permission = asked(ApiKey.OffsetFetch, 8, groups=groups)
    assert permission.refusal is None
    assert permission.takes_all == takes_all
    assert not asked(ApiKey.Heartbeat, 0, group_id="no").takes_all


@pytest.mark.parametrize(
    ("access", "code"),
    [
        (OPEN, 0),
        (Access(topics=("a",)), 0),
        (Access(written_topics=("a",)), 0),
        (Access(groups=("a",)), CLUSTER_DENIED),
        (Access(is_read_only=True), CLUSTER_DENIED),
        (Access(topics=("a",), is_read_only=True), CLUSTER_DENIED),
    ],
)
def test_an_idempotent_producer_needs_a_topic_that_it_may_write_to(
    access: Access, code: int
) -> None:
    refusal = asked(ApiKey.InitProducerId, 4, access, transactional_id=None).refusal
    assert (0 if refusal is None else refusal.error_code) == code


def test_an_empty_transactional_id_is_one_that_no_list_names() -> None:
    refusal = asked(ApiKey.InitProducerId, 4, transactional_id="").refusal
    assert refusal is not None
    assert refusal.error_code == ID_DENIED


@pytest.mark.parametrize(("key_type", "code"), [(0, GROUP_DENIED), (1, ID_DENIED), (2, INVALID)])
def test_coordinators_are_refused_by_the_kind_of_their_key(key_type: int, code: int) -> None:
    for version in (0, 3):
        refusal = asked(ApiKey.FindCoordinator, version, key="no-1", key_type=key_type).refusal
        assert refusal is not None
        assert refusal.error_code == code
        assert (refusal.node_id, refusal.host, refusal.port) == NOWHERE
        allowed = asked(ApiKey.FindCoordinator, version, key="ok-1", key_type=key_type)
        assert (allowed.refusal is None) == (code != INVALID)
    keys = ["no-1", "no-2"]
    refusal = asked(ApiKey.FindCoordinator, 4, coordinator_keys=keys, key_type=key_type).refusal
    assert refusal is not None
    assert codes(refusal.coordinators, "key") == {"no-1": code, "no-2": code}
    for one in refusal.coordinators:
        assert (one.node_id, one.host, one.port) == NOWHERE


def test_coordinators_that_are_refused_are_beside_those_that_are_found() -> None:
    body = Message(coordinator_keys=["no-1", "ok-1"], key_type=0)
    permission = Permission(LISTS, ApiKey.FindCoordinator, 4, body)
    assert permission.refusal is None
    assert body.coordinator_keys == ["ok-1"]
    found = [Message(key=key, error_code=0, node_id=7) for key in ("ok-1", "no-9")]
    response = Message(coordinators=found)
    permission.complete(response)
    assert codes(response.coordinators, "key") == {"ok-1": 0, "no-1": GROUP_DENIED}
    assert {one.key: one.node_id for one in response.coordinators} == {"ok-1": 7, "no-1": -1}


def test_an_api_of_the_cluster_is_refused_whatever_it_names() -> None:
    for access, is_refused in ((LISTS, True), (OPEN, False), (Access(is_read_only=True), False)):
        refusal = asked(ApiKey.DescribeLogDirs, 3, access, topics=None).refusal
        assert (refusal is not None) == is_refused
        assert refusal is None or refusal.error_code == CLUSTER_DENIED


# --- offsets of several groups


def offsets(*names: str) -> list[Message]:
    return named(*names, partition_indexes=[3])


def fetched_offsets(**groups: "list[Message] | None") -> tuple[Permission, Message]:
    """A request for the offsets of these groups."""
    found = [Message(group_id=name.replace("_", "-"), topics=one) for name, one in groups.items()]
    body = Message(groups=found)
    return Permission(LISTS, ApiKey.OffsetFetch, 8, body), body


def answered_offsets(permission: Permission, **groups: tuple[str, ...]) -> dict[str, Any]:
    """The completed response: the code of each group, and of its topics' partitions."""
    response = Message(
        groups=[
            Message(
                group_id=name.replace("_", "-"),
                error_code=0,
                topics=named(*names, partitions=[Message(partition_index=3, error_code=0)]),
            )
            for name, names in groups.items()
        ]
    )
    permission.complete(response)
    return {one.group_id: shown_offsets(one) for one in response.groups}


def shown_offsets(group: Message) -> tuple[int, dict[str, int]]:
    topics = {one.name: one.partitions[0].error_code for one in group.topics}
    assert len(topics) == len(group.topics)
    return getattr(group, "error_code", 0), topics


def test_offsets_of_a_group_are_asked_without_the_topics_that_are_refused() -> None:
    permission, body = fetched_offsets(
        ok_1=offsets("ok-t", "no-t"), no_1=offsets("ok-t"), ok_2=None, ok_3=offsets("no-t")
    )
    assert permission.refusal is None
    kept = {
        one.group_id: one.topics and [topic.name for topic in one.topics] for one in body.groups
    }
    assert kept == {"ok-1": ["ok-t"], "ok-2": None, "ok-3": []}
    answered = answered_offsets(
        permission, ok_1=("ok-t",), ok_2=("ok-t", "no-t", "ok-u"), ok_3=(), no_9=("ok-t",)
    )
    assert answered == {
        "ok-1": (0, {"ok-t": 0, "no-t": TOPIC_DENIED}),
        "ok-2": (0, {"ok-t": 0, "ok-u": 0}),
        "ok-3": (0, {"no-t": TOPIC_DENIED}),
        "no-1": (GROUP_DENIED, {}),
    }


def test_offsets_of_topics_that_may_be_read_only_are_shown() -> None:
    access = Access(topics=("ok-*",), written_topics=("ok-w",), groups=("ok-*",))
    body = Message(groups=[Message(group_id="ok-1", topics=offsets("ok-r", "ok-w"))])
    permission = Permission(access, ApiKey.OffsetFetch, 8, body)
    assert permission.takes_all
    answered = answered_offsets(permission, ok_1=("ok-r", "ok-w", "no-t"))
    assert answered == {"ok-1": (0, {"ok-r": 0, "ok-w": 0})}


def test_refused_topics_of_a_group_that_the_cluster_leaves_out_are_still_answered() -> None:
    permission, _ = fetched_offsets(ok_1=offsets("no-t"))
    assert answered_offsets(permission) == {"ok-1": (0, {"no-t": TOPIC_DENIED})}


def test_offsets_of_refused_groups_only_are_not_asked_for() -> None:
    permission, _ = fetched_offsets(no_1=offsets("ok-t"), no_2=None)
    assert permission.refusal is not None
    found = {one.group_id: shown_offsets(one) for one in permission.refusal.groups}
    assert found == {"no-1": (GROUP_DENIED, {}), "no-2": (GROUP_DENIED, {})}
    assert fetched_offsets()[0].refusal is None


# --- topics by id


KNOWN: Final = [
    Message(name="ok-1", topic_id=id_of(1)),
    Message(name="ro-1", topic_id=id_of(2)),
    Message(name="no-1", topic_id=id_of(3)),
]


def test_a_topic_that_may_not_be_deleted_is_denied_and_a_hidden_one_does_not_exist() -> None:
    access = Access(topics=("ok-*", "ro-*"), written_topics=("ok-*",))
    topics = [Message(name=None, topic_id=id_of(number)) for number in (1, 2, 3, 4)]
    both = Message(name="ok-1", topic_id=id_of(1))  # Kafka refuses this, too
    body = Message(topics=[*topics, *named("ro-1", "no-1", "ok-1", topic_id=NO_ID), both])
    permission = Permission(access, ApiKey.DeleteTopics, 6, body, KNOWN)
    assert permission.refusal is None
    assert [(one.name, one.topic_id) for one in body.topics] == [
        (None, id_of(1)),
        ("ok-1", NO_ID),
    ]
    response = Message(responses=[Message(name="ok-1", topic_id=id_of(1), error_code=0)])
    permission.complete(response)
    assert [(one.name, one.topic_id, one.error_code) for one in response.responses] == [
        ("ok-1", id_of(1), 0),
        ("ro-1", id_of(2), TOPIC_DENIED),
        (None, id_of(3), UNKNOWN_ID),
        (None, id_of(4), UNKNOWN_ID),
        ("ro-1", NO_ID, TOPIC_DENIED),
        ("no-1", NO_ID, TOPIC_DENIED),
        ("ok-1", id_of(1), UNKNOWN_ID),
    ]


@pytest.mark.parametrize("version", [12, 13])
def test_a_hidden_topic_that_is_asked_for_by_its_id_does_not_exist(version: int) -> None:
    topics = [Message(name=None, topic_id=id_of(n)) for n in (1, 3)]
    permission = asked(ApiKey.Metadata, version, topics=topics)
    assert permission.refusal is None
    response = Message(
        topics=[
            Message(name="ok-1", topic_id=id_of(1), error_code=0, partitions=["p"]),
            Message(name="no-1", topic_id=id_of(3), error_code=0, partitions=["p"]),
            Message(name="no-2", topic_id=id_of(5), error_code=0, partitions=["p"]),
        ]
    )
    permission.complete(response)
    shown, hidden = response.topics
    assert (shown.name, shown.error_code, shown.partitions) == ("ok-1", 0, ["p"])
    assert hidden == Message(name=None, topic_id=id_of(3), error_code=UNKNOWN_ID)


def test_partitions_of_a_transaction_that_are_allowed_are_not_attempted_beside_others() -> None:
    topics = named("ok-1", "no-1", "ok-2", partitions=[3])
    body = Message(v3_and_below_transactional_id="ok-1", v3_and_below_topics=topics)
    permission = Permission(LISTS, ApiKey.AddPartitionsToTxn, 3, body)
    assert permission.refusal is not None
    assert body.v3_and_below_topics == []
    found = {
        one.name: one.results_by_partition[0].partition_error_code
        for one in permission.refusal.results_by_topic_v3_and_below
    }
    assert found == {"ok-1": NOT_ATTEMPTED, "no-1": TOPIC_DENIED, "ok-2": NOT_ATTEMPTED}
