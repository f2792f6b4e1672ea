"""A client sees the permitted parts of a response: topics, operations, and ids without names.

Not here: requests, and the responses to what is refused (test_permissions.py)."""

from typing import Any, Final

import pytest

from downconvert.access import operations
from downconvert.access.operations import NOT_ASKED, READING, WRITE, Kind
from downconvert.access.permissions import Permission
from downconvert.access.rights import Access
from downconvert.protocol.schemas import ApiKey, Message

TOPIC_DENIED: Final = 29
LISTS: Final = Access(topics=("ok-*",), groups=("ok-*",), transactional_ids=("ok-*",))
READER: Final = Access(topics=("ok-*",), is_read_only=True)
OPEN: Final = Access()
EVERY_BIT: Final = (1 << 16) - 1
ID: Final = bytes([1]) * 16


def named(*names: str, **fields: Any) -> list[Message]:
    return [Message(name=name, **fields) for name in names]


def codes(topics: list[Message]) -> dict[str, int]:
    return {one.name: one.error_code for one in topics}


# --- pages of topics


def pages(names: list[str], place: str | None, partition: int = 5) -> tuple[Permission, Message]:
    """A page of all topics, from a cursor on."""
    cursor = None if place is None else Message(topic_name=place, partition_index=partition)
    body = Message(topics=[], cursor=cursor)
    return Permission(LISTS, ApiKey.DescribeTopicPartitions, 0, body, named(*names)), body


ALL_NAMES: Final = ["ok-5", "no-4", "ok-1", "zz", "ok-3", "ok-6", "no-1", "ok-2", "ok-4"]
VISIBLE: Final = [f"ok-{number}" for number in range(1, 7)]


@pytest.mark.parametrize(
    ("place", "cursor"),
    [
        (None, None),
        ("ok-3", ("ok-3", 5)),
        ("ok-35", ("ok-35", 5)),  # it has been deleted since the last page
        ("aa", ("ok-1", 0)),
        ("no-4", ("ok-1", 0)),
    ],
)
def test_a_page_of_all_topics_is_of_visible_ones_in_their_order(
    place: str | None, cursor: tuple[str, int] | None
) -> None:
    permission, body = pages(ALL_NAMES, place)
    assert permission.refusal is None
    assert [one.name for one in body.topics] == VISIBLE
    found = body.cursor and (body.cursor.topic_name, body.cursor.partition_index)
    assert found == cursor


def test_a_page_goes_on_after_a_hidden_topic_between_visible_ones() -> None:
    access = Access(topics=("a", "c", "e"))
    body = Message(topics=[], cursor=Message(topic_name="b", partition_index=5))
    all_topics = named("e", "b", "a", "c")
    permission = Permission(access, ApiKey.DescribeTopicPartitions, 0, body, all_topics)
    assert permission.refusal is None
    assert (body.cursor.topic_name, body.cursor.partition_index) == ("c", 0)


def test_a_page_after_all_visible_topics_is_empty_and_asks_nobody() -> None:
    for names, place in ((ALL_NAMES, "zz"), (["no-1"], None), ([], None)):
        permission, _ = pages(names, place)
        assert permission.refusal is not None
        assert (permission.refusal.topics, permission.refusal.next_cursor) == ([], None)


def test_pages_of_named_topics_have_the_refused_ones_too() -> None:
    body = Message(topics=named("no-1", "ok-1"), cursor=None)
    permission = Permission(LISTS, ApiKey.DescribeTopicPartitions, 0, body)
    assert permission.refusal is None
    assert [one.name for one in body.topics] == ["ok-1"]
    response = Message(topics=named("ok-1", "no-9", error_code=0), next_cursor=None)
    permission.complete(response)
    assert codes(response.topics) == {"ok-1": 0, "no-1": TOPIC_DENIED}
    body = Message(topics=named("no-1"), cursor=None)
    refusal = Permission(LISTS, ApiKey.DescribeTopicPartitions, 0, body).refusal
    assert refusal is not None
    assert codes(refusal.topics) == {"no-1": TOPIC_DENIED}


@pytest.mark.parametrize(("place", "is_shown"), [("ok-4", True), ("ok-9", True), ("no-4", False)])
def test_the_cursor_of_a_page_names_no_hidden_topic(place: str, is_shown: bool) -> None:
    permission, _ = pages(ALL_NAMES, None)
    response = Message(topics=named("ok-1"), next_cursor=Message(topic_name=place))
    permission.complete(response)
    assert (response.next_cursor is not None) == is_shown


# --- what a response shows


def test_a_transaction_shows_its_visible_topics() -> None:
    permission = Permission(
        LISTS, ApiKey.DescribeTransactions, 0, Message(transactional_ids=["ok-1"])
    )
    topics = [Message(topic=name) for name in ("ok-1", "no-1", "ok-2")]
    response = Message(transaction_states=[Message(transactional_id="ok-1", topics=topics)])
    permission.complete(response)
    (one,) = response.transaction_states
    assert [it.topic for it in one.topics] == ["ok-1", "ok-2"]


TOPIC_BITS: Final = "topic_authorized_operations"
CLUSTER_BITS: Final = "cluster_authorized_operations"


@pytest.mark.parametrize("api", [ApiKey.Metadata, ApiKey.DescribeTopicPartitions])
def test_operations_on_topics_are_those_of_both_the_cluster_and_the_rule(api: ApiKey) -> None:
    read_only = READING & ~operations.DESCRIBE_CONFIGS
    for access, bits, shown in (
        (READER, EVERY_BIT, READING),
        (READER, READING & ~operations.DESCRIBE_CONFIGS, read_only),
        (READER, WRITE, 0),
        (READER, NOT_ASKED, NOT_ASKED),
        (LISTS, EVERY_BIT, operations.ALL[Kind.TOPIC]),
    ):
        permission = Permission(access, api, 0, Message(topics=named("ok-1"), cursor=None))
        topics = named("ok-1", error_code=0, **{TOPIC_BITS: bits})
        response = Message(topics=topics, next_cursor=None)
        permission.complete(response)
        assert getattr(response.topics[0], TOPIC_BITS) == shown


@pytest.mark.parametrize("api", [ApiKey.Metadata, ApiKey.DescribeCluster])
def test_operations_on_the_cluster_are_those_of_the_rule(api: ApiKey) -> None:
    for access, bits, shown in (
        (LISTS, EVERY_BIT, 0),
        (Access(is_read_only=True), EVERY_BIT, operations.LOOKING),
        (OPEN, operations.ALTER, operations.ALTER),
        (LISTS, NOT_ASKED, NOT_ASKED),
    ):
        permission = Permission(access, api, 8, Message(topics=None))
        response = Message(topics=[], **{CLUSTER_BITS: bits})
        permission.complete(response)
        assert getattr(response, CLUSTER_BITS) == shown


def test_operations_on_a_group_are_those_of_the_rule() -> None:
    reader = Access(groups=("ok-*",), is_read_only=True)
    permission = Permission(reader, ApiKey.DescribeGroups, 3, Message(groups=["ok-1", "no-1"]))
    groups = [
        Message(group_id="ok-1", members=[], authorized_operations=EVERY_BIT),
        Message(group_id="ok-2", members=[], authorized_operations=NOT_ASKED),
    ]
    response = Message(groups=groups)
    permission.complete(response)
    found = {one.group_id: getattr(one, "authorized_operations", None) for one in response.groups}
    assert found == {"ok-1": READING, "ok-2": NOT_ASKED, "no-1": None}


def test_a_topic_with_an_id_only_is_shown_if_nothing_is_hidden() -> None:
    for access, is_shown in ((OPEN, True), (LISTS, False), (Access(denies_unnamed=True), False)):
        permission = Permission(access, ApiKey.Fetch, 12, Message(topics=[]))
        response = Message(responses=[Message(topic_id=ID)])
        permission.complete(response)
        assert bool(response.responses) == is_shown


@pytest.mark.parametrize(
    ("api", "field", "name"),
    [
        (ApiKey.ListGroups, "groups", "group_id"),
        (ApiKey.ListTransactions, "transaction_states", "transactional_id"),
    ],
)
def test_lists_of_all_that_there_is_show_what_is_visible(
    api: ApiKey, field: str, name: str
) -> None:
    permission = Permission(LISTS, api, 0, Message())
    assert permission.refusal is None
    assert permission.takes_all
    response = Message(**{field: [Message(**{name: one}) for one in ("ok-1", "no-1", "ok-2")]})
    permission.complete(response)
    assert [getattr(one, name) for one in getattr(response, field)] == ["ok-1", "ok-2"]


def test_members_of_a_group_show_no_bytes_that_are_not_understood() -> None:
    """They may name any topic."""
    for access, shown in ((LISTS, b""), (OPEN, b"?")):
        member = Message(member_metadata=b"?", member_assignment=b"?")
        group = Message(group_id="ok-1", protocol_type="connect", members=[member])
        permission = Permission(access, ApiKey.DescribeGroups, 3, Message(groups=["ok-1"]))
        permission.complete(Message(groups=[group]))
        assert (member.member_metadata, member.member_assignment) == (shown, shown)
