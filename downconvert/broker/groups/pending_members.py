"""Member ids that were given to clients which have not joined with them yet [KIP-394].

Not here: when an id is given (joining.py), and for how long (rebalance.py)."""

from collections.abc import Iterator
from sys import getsizeof
from typing import Final

from .member_memory import MemberMemory

PENDING_SIZE: Final = 256  # bytes of an id's entry and its deadline


class PendingMembers:
    """The deadlines of member ids, in seconds. Ids count towards the memory of all members."""

    def __init__(self, memory: MemberMemory) -> None:
        self._memory = memory
        self._deadlines: dict[str, float] = {}

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._deadlines

    def __len__(self) -> int:
        return len(self._deadlines)

    def __iter__(self) -> Iterator[str]:
        return iter(self._deadlines)

    def deadlines(self) -> list[float]:
        return list(self._deadlines.values())

    def add(self, member_id: str, deadline: float, count_max: int) -> None:
        """Notes a new id, and forgets the oldest ones beyond `count_max`. So clients that take ids
        and do not join keep no client out: one whose id is forgotten asks for another."""
        while len(self) >= max(count_max, 1):
            self.discard(next(iter(self)))
        self._memory.size += _size(member_id)
        self._deadlines[member_id] = deadline

    def discard(self, member_id: str) -> None:
        """Forgets an id, if it is there."""
        if self._deadlines.pop(member_id, None) is not None:
            self._memory.size -= _size(member_id)

    def expire(self, now: float) -> None:
        """Forgets the ids past their deadline."""
        for member_id in [one for one, deadline in self._deadlines.items() if deadline <= now]:
            self.discard(member_id)

    def clear(self) -> None:
        for member_id in list(self._deadlines):
            self.discard(member_id)


def _size(member_id: str) -> int:
    return PENDING_SIZE + getsizeof(member_id)
