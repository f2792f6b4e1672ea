"""A response is planned in turns. A long plan takes a slot, or waits for one and holds nothing."""

import pytest

from downconvert.broker.fetch.contribution import FetchPause, Turns
from downconvert.broker.fetch.planning import PLANNED_A_TURN, planned
from downconvert.serving.planning_slots import PlanningSlots
from records.steps import Steps

ME, OTHER = 7, 8  # numbers of connections
TURN, WAKE = FetchPause.TURN, FetchPause.WAKE


class Plan:
    """A plan of these steps, in bytes of work."""

    def __init__(self, *steps: int) -> None:
        self.steps = steps
        self.begun = 0
        self.open = 0
        self.done = 0  # steps

    def begin(self) -> Steps[str]:
        self.begun += 1
        return self._run()

    def _run(self) -> Steps[str]:
        self.open += 1
        try:
            for work in self.steps:
                self.done += 1
                yield work
        finally:
            self.open -= 1
        return f"plan {self.begun}"


def run(turns: Turns[str], pauses: int = 1000) -> tuple[list[FetchPause], str | None]:
    """The pauses of a plan, and its result; None: there are more."""
    found: list[FetchPause] = []
    while len(found) < pauses:
        try:
            found.append(next(turns))
        except StopIteration as end:
            return found, end.value
    return found, None


@pytest.fixture
def slots() -> PlanningSlots:
    return PlanningSlots(1)


def turns_of(plan: Plan, slots: PlanningSlots) -> Turns[str]:
    return planned(plan.begin, ME, slots, lambda: None)


@pytest.mark.parametrize(
    ("steps", "turns"),
    [
        ((), 1),
        ((PLANNED_A_TURN - 1,), 1),
        ((PLANNED_A_TURN,), 2),  # the turn's work is used up before it is known to be done
        ((PLANNED_A_TURN - 1, 1), 2),
        ((PLANNED_A_TURN // 2,) * 4, 3),
        ((2 * PLANNED_A_TURN, 1, 1), 2),
        ((PLANNED_A_TURN + 1,) * 5, 6),
    ],
)
def test_a_turn_ends_when_its_work_is_done(
    slots: PlanningSlots, steps: tuple[int, ...], turns: int
) -> None:
    plan = Plan(*steps)
    assert run(turns_of(plan, slots)) == ([TURN] * (turns - 1), "plan 1")
    assert (plan.begun, plan.open, plan.done) == (1, 0, len(steps))
    assert len(slots) == 0


def test_a_plan_of_one_turn_needs_no_slot(slots: PlanningSlots) -> None:
    assert slots.take(OTHER, lambda: None)
    assert run(turns_of(Plan(1, 2, 3), slots)) == ([], "plan 1")


def test_a_plan_of_one_turn_leaves_its_clients_other_slot(slots: PlanningSlots) -> None:
    """Another response of the same client may be planned, and it keeps its slot."""
    assert slots.take(ME, lambda: None)
    assert run(turns_of(Plan(1), slots)) == ([], "plan 1")
    assert len(slots) == 1


def test_a_long_plan_has_a_slot_until_it_is_made(slots: PlanningSlots) -> None:
    turns = turns_of(Plan(*[PLANNED_A_TURN] * 3), slots)
    woken: list[int] = []
    for _ in range(3):
        assert run(turns, 1) == ([TURN], None)
        assert not slots.take(OTHER, lambda: woken.append(OTHER))
    assert run(turns) == ([], "plan 1")
    assert woken == [OTHER]


def test_a_plan_that_waits_for_a_slot_holds_nothing_and_begins_again(slots: PlanningSlots) -> None:
    slots.take(OTHER, lambda: None)
    plan = Plan(*[PLANNED_A_TURN] * 3)
    woken: list[int] = []
    turns = planned(plan.begin, ME, slots, lambda: woken.append(ME))
    assert run(turns, 1) == ([WAKE], None)
    assert (plan.begun, plan.open, plan.done) == (1, 0, 1)
    assert woken == []
    slots.release(OTHER)
    assert (woken, len(slots)) == ([ME], 1)
    assert run(turns) == ([TURN] * 3, "plan 2")
    assert (plan.begun, plan.open, plan.done) == (2, 0, 1 + 3)
    assert len(slots) == 0


def test_a_plan_waits_for_a_slot_once(slots: PlanningSlots) -> None:
    """It is resumed when it has one, so it does not ask again."""
    slots.take(OTHER, lambda: None)
    turns = turns_of(Plan(*[PLANNED_A_TURN] * 2), slots)
    assert run(turns, 1) == ([WAKE], None)
    assert run(turns) == ([TURN] * 2, "plan 2")
    assert not slots.take(ME, lambda: None)  # the other still has its slot


@pytest.mark.parametrize("pauses", [1, 2])
def test_a_plan_that_is_given_up_returns_its_slot(slots: PlanningSlots, pauses: int) -> None:
    """A plan that is given up frees its memory before the next one begins."""
    plan = Plan(*[PLANNED_A_TURN] * 3)
    turns = turns_of(plan, slots)
    run(turns, pauses)
    assert (plan.open, len(slots)) == (1, 1)
    open_then: list[int] = []
    assert not slots.take(OTHER, lambda: open_then.append(plan.open))
    turns.close()
    assert open_then == [0]


def test_a_plan_that_fails_returns_its_slot(slots: PlanningSlots) -> None:
    def begin() -> Steps[str]:
        yield PLANNED_A_TURN
        raise ValueError("damaged")

    turns = planned(begin, ME, slots, lambda: None)
    assert run(turns, 1) == ([TURN], None)
    with pytest.raises(ValueError, match="damaged"):
        next(turns)
    assert len(slots) == 0
