"""Plans a response's size in turns. Other requests have their turn in between.

Not here: the steps (downconvert/conversion), the number of plans at a time (planning_slots.py)."""

from collections.abc import Callable
from typing import Final, TypeVar

from downconvert.serving.planning_slots import PlanningSlots, Wake
from records.steps import Steps
from records.units import MiB

from .contribution import FetchPause, Turns

Found = TypeVar("Found")

# The work of one turn, in bytes that go through memory. Recompressed bytes count several times. A
# turn takes some milliseconds. It suffices for an uncompressed response of the usual size (1 MiB).
PLANNED_A_TURN: Final = 6 * MiB


def planned(
    begin: Callable[[], Steps[Found]], client: int, slots: PlanningSlots, wake: Wake
) -> Turns[Found]:
    """Runs the steps that `begin` begins, and returns their result. A turn is short, however large
    a batch is.

    A plan that needs more than one turn takes a slot. If no slot is free, the work of the first
    turn is dropped, so that the plan holds nothing while it waits. `wake`: called when it has a
    slot. `client`: the number of its connection."""
    is_first = True
    while True:
        steps = begin()
        try:
            work = 0
            while True:
                while work < PLANNED_A_TURN:
                    work += next(steps)
                if is_first and not slots.take(client, wake):
                    break
                is_first = False
                yield FetchPause.TURN
                work = 0
        except StopIteration as end:
            found: Found = end.value
            return found
        finally:
            steps.close()
            if not is_first:
                slots.release(client)
        is_first = False
        yield FetchPause.WAKE
