"""A few hold a slot; the others get theirs in the order of their requests."""

from functools import partial

from downconvert.serving.planning_slots import PlanningSlots


def test_the_next_one_is_woken_with_a_slot_of_its_own() -> None:
    slots, woken = PlanningSlots(2), list[int]()
    wakes = {n: partial(woken.append, n) for n in range(5)}
    assert [slots.take(n, wakes[n]) for n in range(5)] == [True, True, False, False, False]
    assert slots.take(1, wakes[1]), "it has one already"
    slots.release(3)  # it has gone before it got one
    slots.release(0)
    assert woken == [2]
    assert slots.take(2, wakes[2])
    assert not slots.take(0, wakes[0])
    slots.release(2)  # woken, and gone
    slots.release(1)
    assert woken == [2, 4, 0]
    slots.release(7)
    slots.release(4)
    slots.release(0)
    assert slots.take(9, wakes[0])
    assert woken == [2, 4, 0]
