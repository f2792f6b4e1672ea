"""What takes more than a turn."""

from collections.abc import Generator

import pytest

from downconvert.gateway.exchanges import Turn
from downconvert.gateway.turns import PLANS_MAX, WORK_A_TURN, in_turns

TURNS = 5


def planned(under_way: set[int], number: int) -> Generator[Turn, None, int]:
    def steps() -> Generator[int, None, int]:
        under_way.add(number)
        try:
            for _ in range(2 * TURNS):
                yield WORK_A_TURN // 2
            return number
        finally:
            under_way.discard(number)

    return in_turns(steps())


def test_each_turn_does_a_turns_work() -> None:
    under_way: set[int] = set()
    turns = planned(under_way, 7)
    for _ in range(1 + TURNS):  # the first is waited for before anything is done
        next(turns)
    with pytest.raises(StopIteration) as end:
        next(turns)
    assert (end.value.value, under_way) == (7, set())


def test_few_hold_anything_between_two_turns_and_all_come_to_their_end() -> None:
    under_way: set[int] = set()
    waiting = [planned(under_way, number) for number in range(3 * PLANS_MAX)]
    found = set()
    while waiting:
        for turns in tuple(waiting):
            try:
                next(turns)
            except StopIteration as end:
                found.add(end.value)
                waiting.remove(turns)
            assert len(under_way) <= PLANS_MAX
    assert found == set(range(3 * PLANS_MAX))


def test_who_has_gone_makes_room_for_others() -> None:
    under_way: set[int] = set()
    for number in range(3 * PLANS_MAX):
        turns = planned(under_way, number)
        next(turns)
        next(turns)
        assert under_way == {number}
        turns.close()
        assert not under_way
