"""What is kept of each of many names: a time and a number. Of bounded size, whoever makes names up.

Not here: what is kept (quotas.py, failed_logins.py), one ledger for several processes (the
gateway's shared_ledger.py)."""

from collections import OrderedDict
from collections.abc import Callable
from math import inf
from threading import Lock
from typing import Final, NamedTuple, Protocol

NAMES_MAX: Final = 10_000


class Entry(NamedTuple):
    """As it is before anything is kept. Times in seconds of any clock."""

    time: float = -inf
    number: int = 0


# What an entry becomes; None: it stays as it is.
Change = Callable[[Entry], Entry | None]


class Ledger(Protocol):
    """Any thread may call it."""

    def change(self, name: str, change: Change) -> None:
        """Changes one entry, while nobody else does. `change` must be quick, and not raise."""


class OwnLedger:
    """Of one process. The name that was changed least recently is forgotten first."""

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
