"""A time and a number for each of many names. Its size is limited, even if clients invent names.

Not here: the meaning of entries (quotas.py, failed_logins.py), a ledger that several processes
share (the gateway's shared_ledger.py)."""

from collections import OrderedDict
from collections.abc import Callable
from math import inf
from threading import Lock
from typing import Final, NamedTuple, Protocol

NAMES_MAX: Final = 10_000


class Entry(NamedTuple):
    """An entry. By default, the first entry of a name. Times in seconds of any clock."""

    time: float = -inf
    number: int = 0


# Returns the new entry; None: no change.
Change = Callable[[Entry], Entry | None]


class Ledger(Protocol):
    """Any thread may call it."""

    def change(self, name: str, change: Change) -> None:
        """Changes one entry atomically. `change` must be quick, and must not raise."""


class OwnLedger:
    """A ledger of one process. When it is full, it forgets the least recently changed name."""

    def __init__(self, names_max: int = NAMES_MAX) -> None:
        self._lock = Lock()
        self._names_max = names_max
        self._entries: OrderedDict[str, Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def change(self, name: str, change: Change) -> None:
        with self._lock:
            changed = change(self._entries.get(name, Entry()))
            if changed is None:
                return
            self._entries[name] = changed
            self._entries.move_to_end(name)
            if len(self._entries) > self._names_max:
                self._entries.popitem(last=False)
