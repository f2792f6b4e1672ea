"""Member ids that were given away are forgotten one by one, in time or all together.

Not here: the memory that they take (test_member_memory.py)."""

from downconvert.broker.groups.member_memory import MemberMemory
from downconvert.broker.groups.pending_members import PendingMembers


def test_ids_are_there_until_they_join_expire_or_are_cleared() -> None:
    memory = MemberMemory()
    pending = PendingMembers(memory)
    for member_id, deadline in ("a", 3.0), ("b", 1.0), ("c", 2.0), ("d", 4.0):
        pending.add(member_id, deadline, 4)
    assert (list(pending), pending.deadlines()) == (["a", "b", "c", "d"], [3.0, 1.0, 2.0, 4.0])
    pending.expire(2.0)
    assert (list(pending), len(pending), "b" in pending) == (["a", "d"], 2, False)
    pending.discard("a")
    pending.discard("a")
    assert list(pending) == ["d"]
    pending.clear()
    assert (list(pending), memory.size) == ([], 0)


def test_the_oldest_ids_are_forgotten_for_new_ones() -> None:
    memory = MemberMemory()
    pending = PendingMembers(memory)
    for member_id in "abcd":
        pending.add(member_id, 9.0, 3)
    assert list(pending) == ["b", "c", "d"]
    pending.discard("c")
    pending.add("e", 1.0, 3)
    assert list(pending) == ["b", "d", "e"]
    size = memory.size
    pending.add("f", 9.0, 0)
    assert (list(pending), 3 * memory.size) == (["f"], size)
