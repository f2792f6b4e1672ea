"""The members of a group, in the order of joining: the leader, and the common protocols.

Not here: when they join and are answered (group.py, rebalance.py)."""

from collections import Counter
from collections.abc import Iterator, Mapping, ValuesView

from downconvert.protocol.errors import NONE, ErrorCode

from .member import Member, Protocols
from .member_memory import MemberMemory


class Members(Mapping[str, Member]):
    """Members by member id. by_id: the same members; only this class changes it."""

    def __init__(self, memory: MemberMemory) -> None:
        self._memory = memory
        self.leader: str | None = None  # a member id, if there are members
        self.by_id: dict[str, Member] = {}
        self._static: dict[str, str] = {}  # member ids by instance id
        self._offered: Counter[str] = Counter()  # how many members support each protocol
        self.size = 0  # bytes of all members' protocols

    def __getitem__(self, member_id: str) -> Member:
        return self.by_id[member_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_id)

    def __len__(self) -> int:
        return len(self.by_id)

    def values(self) -> ValuesView[Member]:
        return self.by_id.values()

    # --- membership

    def admit(self, member: Member) -> None:
        self._memory.size += member.memory
        self.size += member.size
        self.by_id[member.id] = member
        self._offered.update(name for name, _ in member.protocols)
        if member.instance_id is not None:
            self._static[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id

    def remove(self, member: Member) -> None:
        self.offer(member, ())
        self.give(member, b"")
        self._memory.size -= member.memory
        del self.by_id[member.id]
        if member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader == member.id:
            self.leader = next(iter(self.by_id), None)

    def rename(self, member: Member, new_id: str) -> None:
        """Gives a static member another member id. It keeps its place."""
        assert member.instance_id is not None
        if self.leader == member.id:
            self.leader = new_id
        self.by_id = {(new_id if one is member else one.id): one for one in self.by_id.values()}
        before = member.memory
        self._static[member.instance_id] = member.id = new_id
        self._memory.size += member.memory - before

    def static(self, instance_id: str | None) -> str | None:
        """The member id of this static instance."""
        return None if instance_id is None else self._static.get(instance_id)

    def check(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Checks that there is such a member, and that it is this instance."""
        if instance_id is None:
            return NONE if member_id in self.by_id else ErrorCode.UNKNOWN_MEMBER_ID
        current = self._static.get(instance_id)
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return NONE if current == member_id else ErrorCode.FENCED_INSTANCE_ID

    def elect(self) -> bool:
        """Elects a leader among the joined members: the last leader, if possible. False: no member
        has joined."""
        leader = self.by_id.get(self.leader or "")
        if leader is None or leader.join_reply is None:
            joined = (member.id for member in self.by_id.values() if member.join_reply)
            found = next(joined, None)
            if found is None:
                return False
            self.leader = found
        return True

    # --- protocols and timeouts

    def deadlines(self) -> list[float]:
        """The ends of all running sessions."""
        members = self.by_id
        if not members:
            return []
        return [one.deadline for one in members.values() if one.deadline is not None]

    @property
    def rebalance_timeout(self) -> float:
        """Seconds: the longest of all members."""
        return max((member.rebalance_timeout for member in self.by_id.values()), default=0.0)

    def offer(self, member: Member, protocols: Protocols) -> None:
        """Replaces the protocols that a member supports."""
        for name, _ in member.protocols:
            self._offered[name] -= 1
            if not self._offered[name]:
                del self._offered[name]
        self._offered.update(name for name, _ in protocols)
        before = member.size
        member.protocols = protocols
        self.size += member.size - before
        self._memory.size += member.size - before

    def give(self, member: Member, assignment: bytes) -> None:
        """Replaces a member's assignment."""
        self._memory.size += len(assignment) - len(member.assignment)
        member.assignment = assignment

    def share(self, protocols: Protocols) -> bool:
        """Whether all members support one of these."""
        return any(self._offered[name] == len(self.by_id) for name, _ in protocols)

    def select_protocol(self) -> str:
        """The supported protocol with the most votes. The first vote decides a tie."""
        first = next(iter(self.by_id.values()))
        candidates = {name for name, _ in first.protocols if self.share(((name, b""),))}
        votes = Counter(member.vote(candidates) for member in self.by_id.values())
        return votes.most_common(1)[0][0]

    def metadata(self, protocol: str | None) -> tuple[tuple[str, str | None, bytes], ...]:
        """All member ids, instance ids, and metadata for the protocol, for the leader."""
        members = self.by_id.values()
        return tuple((one.id, one.instance_id, one.metadata(protocol)) for one in members)
