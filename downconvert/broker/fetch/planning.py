"""How large an answer will be, found out in turns between which other requests have theirs.

Not here: the steps (downconvert/conversion), how many are under way at a time
(planning_slots.py)."""

from collections.abc import Callable
from typing import Final, TypeVar

from downconvert.conversion.plan import Steps
from downconvert.serving.planning_slots import PlanningSlots, Wake
from records.units import MiB

from .contribution import Pause, Turns

Found = TypeVar("Found")

# How much work is done in one turn, in bytes that go through memory; those of what is compressed
# count several times. Some milliseconds, and enough for an answer of the usual size (1 MiB) of what
# is plain.
PLANNED_A_TURN: Final = 6 * MiB


def planned(
    begin: Callable[[], Steps[Found]], client: int, slots: PlanningSlots, wake: Wake
) -> Turns[Found]:
    """What the steps find that `begin` begins, however large a batch is.

    What takes more than a turn has a slot; where there is none, what the first turn has done is
    dropped, so that nothing is held while it waits for one: `wake` lets it go on. `client`: the
    number of its connection."""
    is_first = True
    while True:
        steps = begin()
        try:
            while (found := _turn_of(steps)) is None:
                if is_first and not slots.take(client, wake):
                    break
                is_first = False
                yield Pause.TURN
            else:
                return found
        finally:
            steps.close()
            if not is_first:
                slots.release(client)
        is_first = False
        yield Pause.WAKE


def _turn_of(steps: Steps[Found]) -> Found | None:
    """One turn; None: it takes another."""
    work = 0
    while work < PLANNED_A_TURN:
        try:
            work += next(steps)
        except StopIteration as end:
            found: Found = end.value
            return found
    return None
