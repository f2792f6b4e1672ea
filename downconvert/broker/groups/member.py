"""A member of a group, its requests, and the responses to them.

Not here: changes of its state (group.py, joining.py, rebalance.py)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Final, NamedTuple, TypeAlias

from downconvert.internal_topics.group_records import StoredMember
from downconvert.protocol.errors import ErrorCode
from records.units import KiB

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]  # name, metadata; the preferred one first

# Bytes of a member without its names, protocols and assignment: its object, its entries in tables,
# and the request that waits for it, even if its client has gone. Measured with CPython 3.11.
MEMBER_SIZE: Final = 3 * KiB


def size_of(protocols: Protocols) -> int:
    return sum(len(name) + len(metadata) for name, metadata in protocols)


def names_size(*names: str | None) -> int:
    """Bytes that strings take in memory: up to four times those of a request."""
    return sum(getsizeof(name) for name in names if name is not None)


class MemberIdentity(NamedTuple):
    """The identity that a client claims in a group."""

    member_id: str
    generation: int = -1
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A client's request to be a member. Times in seconds."""

    protocol_type: str
    protocols: Protocols
    session_timeout: float
    rebalance_timeout: float
    member_id: str = ""
    instance_id: str | None = None  # only of static members, which keep their place after a restart
    client_id: str = ""
    client_host: str = ""
    needs_known_id: bool = False  # whether it must join again with the id that it gets
    may_skip_assignment: bool = False

    @property
    def size(self) -> int:
        """Bytes that the group keeps for this request."""
        return size_of(self.protocols)

    @property
    def memory(self) -> int:
        """Bytes of a new member with this request, without its member id."""
        return (
            MEMBER_SIZE + self.size + names_size(self.instance_id, self.client_id, self.client_host)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The response to a join. Only the leader gets the members."""

    member_id: str
    code: ErrorCode = ErrorCode.NONE
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()  # id, instance id, metadata
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The response to a sync: the member's assignment."""

    code: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(slots=True, eq=False)
class Member:
    """Times in seconds, of the broker's clock."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: Protocols
    assignment: bytes = b""
    deadline: float | None = None  # when it expires; None: it waits for a response
    is_new: bool = True  # not in a generation yet
    join_reply: Callable[[Joined], None] | None = field(default=None, repr=False)
    sync_reply: Callable[[Synced], None] | None = field(default=None, repr=False)

    @classmethod
    def restored(cls, stored: StoredMember, protocol: str | None) -> "Member":
        """A member from the stored state of a group that has chosen this protocol."""
        return cls(
            stored.id,
            stored.instance_id,
            stored.client_id,
            stored.client_host,
            session_timeout=stored.session_timeout_ms / 1000,
            rebalance_timeout=stored.rebalance_timeout_ms / 1000,
            protocols=((protocol or "", stored.subscription),),
            assignment=stored.assignment,
        )

    def stored(self, protocol: str | None) -> StoredMember:
        """The member's stored form, in a group that has chosen this protocol."""
        return StoredMember(
            self.id,
            self.instance_id,
            self.client_id,
            self.client_host,
            session_timeout_ms=round(self.session_timeout * 1000),
            rebalance_timeout_ms=round(self.rebalance_timeout * 1000),
            subscription=self.metadata(protocol),
            assignment=self.assignment,
        )

    @property
    def size(self) -> int:
        """Bytes of its protocols."""
        return size_of(self.protocols)

    @property
    def memory(self) -> int:
        """Bytes of all that the group keeps for it."""
        names = names_size(self.id, self.instance_id, self.client_id, self.client_host)
        return MEMBER_SIZE + names + self.size + len(self.assignment)

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for a protocol; empty if it does not support the protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)
