"""Who gets which partitions: the assignors that consumers bring, for clients that are simulated.

`range_` and `round_robin` give each member exactly what Kafka's give. `sticky` keeps what members
have as far as loads stay level: no member could give one to another that has two less. Kafka's does
the same in another order, so that which partitions move may differ. `cooperative` is `sticky` in
two steps: what moves is free in one generation, and is given in the next.

Not here: how subscriptions and assignments are written (consumer_protocol.py)."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from .consumer_protocol import Partition, Subscription

Counts: TypeAlias = Mapping[str, int]  # of partitions, by topic
Subscriptions: TypeAlias = Mapping[str, Subscription]  # by member id
Assigned: TypeAlias = dict[str, list[Partition]]  # by member id; every member is in it
InstanceIds: TypeAlias = Mapping[str, str]  # of static members, by member id
Assignor: TypeAlias = Callable[[Counts, Subscriptions, InstanceIds], Assigned]


def range_(counts: Counts, members: Subscriptions, instances: InstanceIds) -> Assigned:
    """Of each topic a stretch for each member, the first members' one longer where it does not
    divide."""
    assigned: Assigned = {member: [] for member in members}
    for topic, interested in _interested(counts, members, instances).items():
        each, more = divmod(counts[topic], len(interested))
        start = 0
        for position, member in enumerate(interested):
            end = start + each + (position < more)
            assigned[member] += [(topic, index) for index in range(start, end)]
            start = end
    return assigned


def round_robin(counts: Counts, members: Subscriptions, instances: InstanceIds) -> Assigned:
    """One partition for each member in turn, from topic to topic."""
    assigned: Assigned = {member: [] for member in members}
    order = _ordered(members, instances)
    turn = 0
    for topic, interested in _interested(counts, members, instances).items():
        welcome = set(interested)
        for index in range(counts[topic]):
            while order[turn % len(order)] not in welcome:
                turn += 1
            assigned[order[turn % len(order)]].append((topic, index))
            turn += 1
    return assigned


def sticky(counts: Counts, members: Subscriptions, instances: InstanceIds) -> Assigned:
    """What members have, levelled."""
    interested = _interested(counts, members, instances)
    assigned = _kept(counts, members)
    taken = {partition for partitions in assigned.values() for partition in partitions}
    load = {member: len(partitions) for member, partitions in assigned.items()}
    # Topics that few members want first: who wants others too can make up for it later.
    for topic in sorted(interested, key=lambda topic: (len(interested[topic]), topic)):
        for index in range(counts[topic]):
            if (topic, index) not in taken:
                member = min(interested[topic], key=load.__getitem__)
                assigned[member].append((topic, index))
                load[member] += 1
    _level(assigned, load, interested)
    return {member: sorted(partitions) for member, partitions in assigned.items()}


def cooperative(counts: Counts, members: Subscriptions, instances: InstanceIds) -> Assigned:
    """As `sticky`, without what another member still has."""
    owner = {
        partition: member
        for member, partitions in _kept(counts, members, anything=True).items()
        for partition in partitions
    }
    return {
        member: [one for one in partitions if owner.get(one, member) == member]
        for member, partitions in sticky(counts, members, instances).items()
    }


ASSIGNORS: Final[Mapping[str, Assignor]] = {
    "range": range_,
    "roundrobin": round_robin,
    "sticky": sticky,
    "cooperative-sticky": cooperative,
}


def _ordered(members: Subscriptions, instances: InstanceIds) -> list[str]:
    """Static members by their instance ids, then the others by theirs, as Java orders strings."""

    def rank(member: str) -> tuple[bool, bytes]:
        instance = instances.get(member)
        name = member if instance is None else instance
        return instance is None, name.encode("utf-16-be", "surrogatepass")

    return sorted(members, key=rank)


def _interested(
    counts: Counts, members: Subscriptions, instances: InstanceIds
) -> dict[str, list[str]]:
    """By topic, those with partitions and members who want them: the members in their order."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for member in _ordered(members, instances):
        for topic in dict.fromkeys(members[member].topics):
            if counts.get(topic, 0) > 0:
                found[topic].append(member)
    return dict(sorted(found.items(), key=lambda item: item[0].encode("utf-16-be")))


def _kept(counts: Counts, members: Subscriptions, *, anything: bool = False) -> Assigned:
    """What each member has, and may keep; `anything`: also what it does not want any more. Of two
    that have the same, the one of the later generation keeps it, and of the same generation
    neither."""
    claims: defaultdict[Partition, list[str]] = defaultdict(list)
    for member, subscription in members.items():
        for topic, index in subscription.owned:
            is_there = 0 <= index < counts.get(topic, 0)
            if is_there and (anything or topic in subscription.topics):
                claims[topic, index].append(member)
    kept: Assigned = {member: [] for member in members}
    for partition, claimants in sorted(claims.items()):
        latest = max(members[one].generation for one in claimants)
        newest = [one for one in claimants if members[one].generation == latest]
        if len(newest) == 1:
            kept[newest[0]].append(partition)
    return kept


def _level(
    assigned: Assigned, load: dict[str, int], interested: Mapping[str, Sequence[str]]
) -> None:
    """Moves partitions from who has many to who has at least two less and wants them."""
    is_level = False
    while not is_level:
        is_level = True
        for giver in sorted(assigned, key=lambda member: (-load[member], member)):
            for partition in reversed(assigned[giver].copy()):
                taker = min(interested[partition[0]], key=load.__getitem__)
                if load[giver] - load[taker] >= 2:
                    assigned[giver].remove(partition)
                    assigned[taker].append(partition)
                    load[giver] -= 1
                    load[taker] += 1
                    is_level = False
