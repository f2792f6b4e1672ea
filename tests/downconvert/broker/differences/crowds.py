"""A group with hundreds of members, from the first join to the last leave.

Each member has a connection of its own. The responses are compared member by member, in the order
in which the members join."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import Any, Final

from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.talking import Talk

from .block import Block, Difference
from .identities import KAFKA, OURS
from .operations import Operation
from .servers import PATIENCE, Servers

SIZES: Final = (50, 120, 250)
LONG: Final = 600_000  # milliseconds
JOIN: Final = range(4)  # versions in which a member has its id with its first response
LEAVE: Final = range(3, 6)  # versions in which several leave at once
PROTOCOLS: Final = ("range", "roundrobin")


def crowd(random: Random, block: int) -> list[Operation]:
    """The joins of the members."""
    version = random.choice(JOIN)
    chosen = [random.sample(PROTOCOLS, random.choice((1, 2, 2))) for _ in range(2)]
    group = f"b{block}-crowd"
    return [
        Operation(ApiKey.JoinGroup, version, _join(group, ("range", *chosen[number % 2])), 0)
        for number in range(random.choice(SIZES))
    ]


def _join(group: str, protocols: tuple[str, ...]) -> Message:
    named = [Message(name=name, metadata=b"\0\1x") for name in dict.fromkeys(protocols)]
    return Message(
        group_id=group,
        session_timeout_ms=LONG,
        rebalance_timeout_ms=LONG,
        member_id="",
        protocol_type="consumer",
        protocols=named,
    )


def ask_crowd(
    block: Block, number: int, joins: list[Operation], random: Random
) -> Iterator[Difference]:
    """All of them join, get their assignments, and leave."""
    leaves = random.choice(LEAVE)
    with ExitStack() as stack:
        sides = [
            _Side(
                block.servers,
                side,
                [stack.enter_context(Talk(address, seconds=PATIENCE)) for _ in joins],
                joins,
            )
            for side, address in enumerate(block.servers.addresses)
        ]
        for step in (_Side.join, _Side.sync, _Side.shown, partial(_Side.leave, version=leaves)):
            theirs, own = step(sides[KAFKA]), step(sides[OURS])
            for one, (kafkas, ours) in enumerate(zip(theirs, own, strict=True)):
                if kafkas != ours:
                    block.is_in_step = False
                    asked = joins[min(one, len(joins) - 1)]
                    path = f"crowd of {len(joins)}, response {one}"
                    yield Difference(block.known.block, number, asked, path, kafkas, ours)
                    return


class _Side:
    """The members at one of the servers."""

    def __init__(
        self, servers: Servers, side: int, talks: list[Talk], joins: list[Operation]
    ) -> None:
        self.servers, self.side, self.talks, self.joins = servers, side, talks, joins
        self.group = joins[0].body.group_id
        self.ids: list[str] = []
        self.generation = 0

    def join(self) -> list[Any]:
        """The first member is alone in its group. The others wait until it joins again."""
        first, *others = self.joins
        version = first.version
        begun = self.talks[0].ask(ApiKey.JoinGroup, version, first.body)
        for talk, one in zip(self.talks[1:], others, strict=True):
            talk.send(ApiKey.JoinGroup, version, one.body)
        assert self.servers.until(lambda: len(self._described().members) == len(self.joins))
        again = Message(**vars(first.body) | {"member_id": begun.member_id})
        self.talks[0].send(ApiKey.JoinGroup, version, again)
        found = [talk.hear(ApiKey.JoinGroup, version) for talk in self.talks]
        self.ids = [one.member_id for one in found]
        self.generation = found[0].generation_id
        return [begun.generation_id, *map(self._joined, found)]

    def _joined(self, one: Message) -> tuple[Any, ...]:
        members = sorted(self._named(each.member_id) for each in one.members)
        leader = self._named(one.leader)
        return one.error_code, one.generation_id, one.protocol_name, leader, members

    def sync(self) -> list[Any]:
        """Each gets what the first member, which leads, assigns to it."""
        parts = [
            Message(member_id=id_, assignment=b"%d" % number) for number, id_ in enumerate(self.ids)
        ]
        for number, (talk, id_) in enumerate(zip(self.talks, self.ids, strict=True)):
            body = Message(
                group_id=self.group,
                generation_id=self.generation,
                member_id=id_,
                assignments=[] if number else parts,
            )
            talk.send(ApiKey.SyncGroup, 1, body)
        found = [talk.hear(ApiKey.SyncGroup, 1) for talk in self.talks]
        return [(one.error_code, bytes(one.assignment)) for one in found]

    def shown(self) -> list[Any]:
        group = self._described()
        assigned = {
            self._named(one.member_id): bytes(one.member_assignment) for one in group.members
        }
        return [group.group_state, group.protocol_data, assigned]

    def leave(self, version: int) -> list[Any]:
        """All at once, and somebody whom the group does not know."""
        leaving = [Message(member_id=id_, group_instance_id=None) for id_ in (*self.ids, "nobody")]
        body = Message(group_id=self.group, members=leaving)
        left = self.talks[0].ask(ApiKey.LeaveGroup, version, body)
        codes = {self._named(one.member_id): one.error_code for one in left.members}
        return [left.error_code, codes, *self.shown()]

    def _named(self, id_: str) -> int:
        return self.ids.index(id_) if id_ in self.ids else -1

    def _described(self) -> Message:
        body = Message(groups=[self.group])
        (group,) = self.servers.ask(self.side, ApiKey.DescribeGroups, 1, body).groups
        assert isinstance(group, Message)
        return group
