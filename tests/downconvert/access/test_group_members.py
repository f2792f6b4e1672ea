"""DescribeGroups shows what members exchange only where every topic in it may be seen."""

import pytest

from downconvert.access.group_members import hide
from downconvert.access.rights import Access
from downconvert.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    write_assignment,
    write_subscription,
)
from downconvert.protocol.schemas import Message

MINE = Access(topics=("mine-*",))


def group(subscription: bytes, assignment: bytes, protocol_type: str = "consumer") -> Message:
    member = Message(member_metadata=subscription, member_assignment=assignment)
    return Message(protocol_type=protocol_type, members=[member])


def shown(found: Message, access: Access) -> tuple[bool, bool]:
    """Whether the subscription and the assignment of its member are shown."""
    hide(found, access)
    (member,) = found.members
    return member.member_metadata != b"", member.member_assignment != b""


MY_TOPICS = write_subscription(Subscription(("mine-1", "mine-2"), b""))
MY_PARTITIONS = write_assignment(Assignment(frozenset({("mine-1", 0), ("mine-1", 1)}), b""))


def test_metadata_that_names_only_visible_topics_is_shown() -> None:
    assert shown(group(MY_TOPICS, MY_PARTITIONS), MINE) == (True, True)


@pytest.mark.parametrize(
    "subscription",
    [
        write_subscription(Subscription(("mine-1", "theirs"), b"")),
        write_subscription(Subscription(("theirs", "mine-1"), b"")),
        write_subscription(
            Subscription(("mine-1",), b"", frozenset({("theirs", 0)}))
        ),  # still owned
        write_subscription(Subscription(("mine-1",), b"bytes of an assignor")),
        MY_TOPICS[:-3],
        b"\xff",
    ],
)
def test_a_subscription_that_may_name_another_topic_is_hidden(subscription: bytes) -> None:
    assert shown(group(subscription, MY_PARTITIONS), MINE) == (False, True)


@pytest.mark.parametrize(
    "assignment",
    [
        write_assignment(Assignment(frozenset({("mine-1", 0), ("theirs", 1)}), b"")),
        write_assignment(Assignment(frozenset({("mine-1", 0)}), b"bytes of an assignor")),
        MY_PARTITIONS[:-3],
        b"\xff",
    ],
)
def test_an_assignment_that_may_name_another_topic_is_hidden(assignment: bytes) -> None:
    assert shown(group(MY_TOPICS, assignment), MINE) == (True, False)


def test_other_kinds_of_groups_are_hidden_as_a_whole() -> None:
    assert shown(group(MY_TOPICS, MY_PARTITIONS, "connect"), MINE) == (False, False)


@pytest.mark.parametrize("access", [Access(), Access(is_read_only=True)])
def test_a_client_that_may_see_all_topics_sees_everything(access: Access) -> None:
    assert shown(group(b"\xff", b"\xfe", "connect"), access) == (True, True)


def test_a_group_that_was_not_found_has_no_members_to_hide() -> None:
    found = Message(group_id="g", error_code=30)
    hide(found, MINE)
    assert not hasattr(found, "members")
