"""What a client sees of a group's members: nothing that names a topic it may not see."""

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

MINE, OTHER = "mine-1", "other-1"
CLOSED = Access(topics=("mine-*",))
SUBSCRIBED = write_subscription(Subscription((MINE,)))
ASSIGNED = write_assignment(Assignment(frozenset({(MINE, 0)})))
OWNING = write_subscription(Subscription((MINE,), owned=frozenset({(OTHER, 0)})))


def seen(
    metadata: bytes, assignment: bytes, *, access: Access = CLOSED, kind: str = "consumer"
) -> tuple[bytes, bytes]:
    member = Message(member_metadata=memoryview(metadata), member_assignment=memoryview(assignment))
    hide(Message(protocol_type=kind, members=[member]), access)
    return bytes(member.member_metadata), bytes(member.member_assignment)


def test_what_names_topics_of_the_client_only_is_seen() -> None:
    assert seen(SUBSCRIBED, ASSIGNED) == (SUBSCRIBED, ASSIGNED)


@pytest.mark.parametrize(
    "metadata",
    [
        write_subscription(Subscription((MINE, OTHER))),
        OWNING,
        write_subscription(Subscription((MINE,), user_data=b"sticky: other-1")),
        b"\0",
    ],
    ids=["subscribed", "owned", "of an assignor", "not understood"],
)
def test_metadata_that_may_name_others_is_empty_and_the_assignment_is_seen(metadata: bytes) -> None:
    assert seen(metadata, ASSIGNED) == (b"", ASSIGNED)


@pytest.mark.parametrize(
    "assignment",
    [
        write_assignment(Assignment(frozenset({(MINE, 0), (OTHER, 0)}))),
        write_assignment(Assignment(frozenset({(MINE, 0)}), user_data=b"other-1")),
    ],
    ids=["assigned", "of an assignor"],
)
def test_an_assignment_that_may_name_others_is_empty_and_the_metadata_is_seen(
    assignment: bytes,
) -> None:
    assert seen(SUBSCRIBED, assignment) == (SUBSCRIBED, b"")


def test_of_other_kinds_of_groups_nothing_is_understood() -> None:
    assert seen(SUBSCRIBED, ASSIGNED, kind="connect") == (b"", b"")


def test_a_client_without_lists_sees_everything() -> None:
    everything = Access(is_read_only=True)
    assert seen(OWNING, b"\0", access=everything, kind="connect") == (OWNING, b"\0")
