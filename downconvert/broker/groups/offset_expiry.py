"""Which offsets of a group have been kept for long enough [KIP-211, GroupMetadata].

Those of a group without members: as long after its last member as the broker says. Those of
consumers: as long after the commit, where none of them reads the topic any more. Those that are
committed without a group: as long after the commit. A commit that said until when itself, as old
clients did, is kept until then.

Not here: forgetting them (coordinator.py)."""

from collections.abc import Mapping
from typing import Final

from downconvert.internal_topics.group_records import NO_TIME, Committed, Partition
from downconvert.protocol.consumer_protocol import read_subscription
from downconvert.protocol.errors import BadRequestError

from .group import Group
from .rebalance import State

CONSUMER: Final = "consumer"  # the protocol type whose members say which topics they read


def expired(
    group: Group, offsets: Mapping[Partition, Committed], now: float, retention: float
) -> list[Partition]:
    """Of `offsets`, those that may go. Times in seconds."""
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
    """The topics that members of a group of consumers read; None: that cannot be told."""
    if group.protocol_type != CONSUMER or group.protocol is None:
        return None
    try:
        subscriptions = [
            read_subscription(member.metadata(group.protocol)) for member in group.members.values()
        ]
    except BadRequestError:
        return None
    return frozenset(topic for one in subscriptions for topic in one.topics)
