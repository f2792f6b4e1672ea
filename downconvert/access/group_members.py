"""Hides forbidden topics in the metadata and assignments of DescribeGroups responses.

Subscriptions and assignments of consumers are parsed. Unparsable ones are hidden."""

from collections.abc import Callable, Iterable
from typing import Final

from downconvert.protocol.consumer_protocol import read_assignment, read_subscription
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import Message

from .rights import Access

CONSUMERS: Final = "consumer"  # the protocol type whose metadata and assignments can be parsed


def hide(group: Message, access: Access) -> None:
    """Empties metadata and assignments that name a topic the client may not see."""
    for member in getattr(group, "members", ()) if access.is_closed else ():
        metadata, assignment = member.member_metadata, member.member_assignment
        is_known = group.protocol_type == CONSUMERS
        if not (is_known and _may_be_described(access, _subscribed, metadata)):
            member.member_metadata = b""
        if not (is_known and _may_be_described(access, _assigned, assignment)):
            member.member_assignment = b""


def _may_be_described(
    access: Access, topics_of: Callable[[memoryview], Iterable[str]], data: memoryview
) -> bool:
    try:
        return all(map(access.allows, topics_of(data)))
    except BadRequestError:
        return False


def _subscribed(data: memoryview) -> Iterable[str]:
    found = read_subscription(data)
    _has_none(found.user_data)
    return {*found.topics, *(topic for topic, _ in found.owned)}


def _assigned(data: memoryview) -> Iterable[str]:
    found = read_assignment(data)
    _has_none(found.user_data)
    return {topic for topic, _ in found.partitions}


def _has_none(user_data: bytes | None) -> None:
    """Checks that there are no bytes of an assignor: those of sticky ones name topics.
    BadRequestError."""
    if user_data:
        raise BadRequestError("the assignor's user data is not known")
