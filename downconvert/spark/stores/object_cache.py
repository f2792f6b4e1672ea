"""Caches data read from objects that have not changed: manifests, ends of logs, copies.

Not here: how the data is read (trees.py, tiers.py, followed_logs.py)."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Made = TypeVar("Made")


class ObjectCache:
    """Cached values by key. A value is kept for the next round if it is used in this one."""

    def __init__(self) -> None:
        self._before: dict[Hashable, Any] = {}
        self._now: dict[Hashable, Any] = {}

    def next_round(self) -> None:
        """Forgets the values that were not used since the last call."""
        self._before, self._now = self._now, {}

    def of(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The value of a key, made if there is none. Safe for several threads."""
        if key not in self._now:
            self._now[key] = self._before[key] if key in self._before else make()
        found: Made = self._now[key]
        return found

    def put(self, key: Hashable, value: object) -> None:
        """Stores a value that was made elsewhere."""
        self._now[key] = value
