"""What was read of objects that have not changed since: manifests, ends of logs, copies.

Not here: what it is (trees.py, tiers.py, followed_stored.py)."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Made = TypeVar("Made")


class Kept:
    """Values by what they were made of, kept from one round to the next if they are asked for."""

    def __init__(self) -> None:
        self._before: dict[Hashable, Any] = {}
        self._now: dict[Hashable, Any] = {}

    def next_round(self) -> None:
        """Forgets what was not asked for since this was called last."""
        self._before, self._now = self._now, {}

    def of(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The value of a key, which is made if there is none. Several threads may ask."""
        if key not in self._now:
            self._now[key] = self._before[key] if key in self._before else make()
        found: Made = self._now[key]
        return found

    def put(self, key: Hashable, value: object) -> None:
        """Keeps a value that came from elsewhere."""
        self._now[key] = value
