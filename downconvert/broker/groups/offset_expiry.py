"""Finds the committed offsets of a group that have expired [KIP-211, GroupMetadata].

In a group without members, retention begins when the last member left. In a group of consumers, it
begins at the commit, and only for topics that no member reads. For consumers without group
management, it begins at the commit. If an old client set an expiry time in the commit, the offset
is kept until then.

Not here: removing them (coordinator.py)."""

from collections.abc import Mapping
from typing import Final

from downconvert.internal_topics.group_records import NO_TIME, Committed, Partition
from downconvert.protocol.consumer_protocol import read_subscription
from downconvert.protocol.errors import BadRequestError

from .group import Group
from .rebalance import State

CONSUMER: Final = "consumer"  # the protocol type whose metadata names the subscribed topics


def expired(
    group: Group, offsets: Mapping[Partition, Committed], now: float, retention: float
) -> list[Partition]:
    """The expired offsets among `offsets`. Times in seconds."""
    empty_since: float | None = None
    read: frozenset[str] | None = frozenset()
    if group.protocol_type is not None:
        if group.state is State.EMPTY:
            empty_since = group.empty_since
        elif group.state is State.STABLE and group.protocol_type == CONSUMER:
            read = subscribed_topics(group)
        else:
            return []
    if read is None:
        return []

    def is_old(committed: Committed) -> bool:
        if committed.expire_time != NO_TIME:
            return now * 1000 >= committed.expire_time
        start = committed.commit_time / 1000 if empty_since is None else empty_since
        return now - start >= retention

    return [at for at, committed in offsets.items() if at[0] not in read and is_old(committed)]


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The topics that the members of a group of consumers subscribe to; None: unknown."""
    if group.protocol_type != CONSUMER or group.protocol is None:
        return None
    topics: set[str] = set()
    try:
        for member in group.members.values():  # one after another: each may be large
            topics.update(read_subscription(member.metadata(group.protocol)).topics)
    except BadRequestError:
        return None
    return frozenset(topics)
