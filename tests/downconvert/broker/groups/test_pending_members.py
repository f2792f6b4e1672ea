"""Member ids that were given away are forgotten one by one, in time or all together.

Not here: the memory that they take (test_member_memory.py)."""

from downconvert.broker.groups.member_memory import MemberMemory
from downconvert.broker.groups.pending_members import PendingMembers


def test_ids_are_there_until_they_join_expire_or_are_cleared() -> None:
    memory = MemberMemory()
    pending = PendingMembers(memory)
    for member_id, deadline in ("a", 3.0), ("b", 1.0), ("c", 2.0), ("d", 4.0):
        pending.add(member_id, deadline)
    assert (list(pending), pending.deadlines()) == (["a", "b", "c", "d"], [3.0, 1.0, 2.0, 4.0])
    pending.expire(2.0)
    assert (list(pending), len(pending), "b" in pending) == (["a", "d"], 2, False)
    pending.discard("a")
    pending.discard("a")
    assert list(pending) == ["d"]
    pending.clear()
    assert (list(pending), memory.size) == ([], 0)
