"""The owner of an exchange: the only thread that works on it, from the request to the end of the
response.

Other threads notice events for an exchange: records arrived, members joined, a deadline passed.
They only post a step here, which the owner runs later. So no thread works on another thread's
request, an error affects only its own request, and no thread sees an exchange in an intermediate
state.

Not here: the steps (exchange.py), the owner's turns (server.py)."""

import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

Step: TypeAlias = Callable[[float], None]  # called with the time, in seconds of the broker's clock


class Owner:
    """The steps that wait for one thread. Any thread may post steps. Only the owner runs them.

    due: posted steps. turns: the next turns of work in progress. on_post: called after each post,
    by the thread that posts, to wake the owner."""

    __slots__ = ("_on_post", "due", "turns")

    def __init__(self, on_post: Callable[[], None] | None = None) -> None:
        self._on_post = on_post
        self.due: deque[Step] = deque()
        self.turns: deque[Step] = deque()

    @property
    def has_work(self) -> bool:
        return bool(self.due or self.turns)

    def post(self, step: Step) -> None:
        """Posts a step, which the owner runs as soon as it can."""
        self.due.append(step)
        if self._on_post is not None:
            self._on_post()

    def post_turn(self, step: Step) -> None:
        """Posts the next turn of work in progress, to run after other work had its turn.

        Only the owner calls this."""
        self.turns.append(step)

    def run_due(self, now: float) -> bool:
        """Runs one posted step. Returns whether there was one."""
        if not self.due:
            return False
        self.due.popleft()(now)
        return True

    def run_turn(self, now: float) -> bool:
        """Runs one turn of work in progress. Returns whether there was one."""
        if not self.turns:
            return False
        self.turns.popleft()(now)
        return True

    def run_turns(self, now: float) -> None:
        """Runs one turn of all work in progress."""
        for _ in range(len(self.turns)):
            self.run_turn(now)


class ThreadOwner(threading.local):
    """An owner for each thread, for callers without a loop of their own."""

    def __init__(self) -> None:
        self.owner = Owner()
