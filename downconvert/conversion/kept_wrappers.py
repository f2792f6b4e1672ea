"""Compressed messages that were made to measure a size, and are kept until they are sent.

Between its promise and its first byte an answer waits for its turn. What it holds until then counts
against a budget that all answers share. Where that is used up, nothing is kept, and the same
message is made again.

Not here: which messages are made (prediction.py)."""

from collections.abc import Mapping
from threading import Lock
from types import MappingProxyType
from typing import Final

BUDGET: Final = 4 * 1024 * 1024  # bytes, of all answers together


class _Budget:
    def __init__(self, size: int) -> None:
        self._lock = Lock()
        self.left = size

    def take(self, size: int) -> bool:
        with self._lock:
            if size > self.left:
                return False
            self.left -= size
            return True

    def release(self, size: int) -> None:
        with self._lock:
            self.left += size


budget: Final = _Budget(BUDGET)


class KeptWrapper:
    """The whole messages that an entry has become, and what the statistics count for it."""

    __slots__ = ("_size", "batches", "message", "records", "temporary_bytes")

    def __init__(self, message: bytes, records: int, batches: int, temporary_bytes: int) -> None:
        self.message = message
        self.records = records
        self.batches = batches
        self.temporary_bytes = temporary_bytes
        self._size = 0

    def keep(self) -> bool:
        """Counts it against the budget, until it is collected. False: the budget is used up."""
        if not budget.take(len(self.message)):
            return False
        self._size = len(self.message)
        return True

    def __del__(self) -> None:
        if self._size:
            budget.release(self._size)


NOTHING_KEPT: Final[Mapping[int, KeptWrapper]] = MappingProxyType({})
