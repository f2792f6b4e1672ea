"""Limits how many responses are planned in turns at a time.

Between two turns an unfinished plan holds buffers: usually some hundred KiB, at most 2 MiB. So only
a few clients may have unfinished plans. The others wait for a slot and hold nothing.

Not here: the plan (downconvert/conversion/plan.py), its turns (planning.py)."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final, TypeAlias

SLOTS: Final = 8

Wake: TypeAlias = Callable[[], None]  # continues a client that waits for a slot; thread-safe


class PlanningSlots:
    """The clients that have a slot or wait for one, by their ids. Thread-safe."""

    def __init__(self, count: int = SLOTS) -> None:
        self._count = count
        self._holders: set[int] = set()
        self._waiting: OrderedDict[int, Wake] = OrderedDict()  # first come, first served
        self._lock = Lock()

    def __len__(self) -> int:
        """The number of clients that have a slot."""
        return len(self._holders)

    def take(self, client_id: int, wake: Wake) -> bool:
        """Takes a slot, until it is released. Returns False if the client must wait: `wake` is
        called when it gets a slot."""
        with self._lock:
            if client_id not in self._holders:
                if len(self._holders) >= self._count:
                    self._waiting[client_id] = wake
                    return False
                self._holders.add(client_id)
            return True

    def release(self, client_id: int) -> None:
        """The client's plan is made, or the client has gone. Also for clients without a slot."""
        with self._lock:
            self._waiting.pop(client_id, None)
            if client_id not in self._holders:
                return
            self._holders.discard(client_id)
            if not self._waiting:
                return
            following, wake = self._waiting.popitem(last=False)
            self._holders.add(following)
        wake()
