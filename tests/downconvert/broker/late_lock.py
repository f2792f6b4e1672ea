"""A lock that shows whether a check is made before it is taken."""

from collections.abc import Callable
from typing import Any


class Late:
    """Stands in for a lock. Before it is taken for the `at`th time, another client is faster.

    times: how often it was taken, without those within another."""

    def __init__(self, lock: Any, at: int, change: Callable[[], object]) -> None:
        self._lock = lock
        self._at = at
        self._change = change
        self._depth = 0
        self.times = 0

    @property
    def is_held(self) -> bool:
        return self._depth > 0

    def __enter__(self) -> None:
        if not self._depth:
            self.times += 1
            if self.times == self._at:
                self._change()
        self._lock.acquire()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        self._lock.release()
