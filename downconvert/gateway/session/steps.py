"""Runs the steps of an exchange: tells it what it has asked for, and returns what it asks next.

Not here: what is asked (exchanges.py), who answers it (connection.py)."""

from collections.abc import Callable
from typing import Any, TypeAlias

from .exchanges import Ask, Pause, Reply, Steps, Turn, Whole

Step: TypeAlias = Ask | Whole | Turn | Pause | Reply


def same(whole: memoryview) -> memoryview:
    """What is said to an exchange that has asked for the whole request."""
    return whole


def nothing() -> None:
    """What is said to an exchange that has asked for nothing."""


def advance(steps: Steps, said: Callable[[], Any]) -> Step:
    """What an exchange yields next, or returns. `said`: makes what it is told."""
    try:
        return steps.send(said())
    except StopIteration as end:
        reply: Reply = end.value
        return reply


def advance_in_turns(steps: Steps, said: Callable[[], Any], goes_on: Callable[[int], bool]) -> Step:
    """Likewise; turns that follow are taken at once while nobody else waits for one."""
    turns, step = 1, advance(steps, said)
    while isinstance(step, Turn) and goes_on(turns):
        turns, step = turns + 1, advance(steps, nothing)
    return step
