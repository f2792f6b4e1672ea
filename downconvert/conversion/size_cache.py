"""Measured sizes, kept for the next client that fetches the same records.

The exact size of a large response costs a second parse of uncompressed records and a compression of
recompressed ones. A segment that is no longer written converts to the same size every time. So the
plan for a range of it is kept for all clients. There is one cache for the process, since all its
brokers share its memory. Small responses are not cached: each is made once, for its own client.

The caller declares that a range does not change (`FileRecords.sealed`; a log does so for all
segments but its last). Truncating a log makes an older segment its last one again. So the key
contains the time of the file's last change, its inode and its size. A rewritten or replaced file
is then never taken for the measured one. Existing records of the last segment do not change either
while its file is open (`FileRecords.settled`). A log reopens the file if that may not hold.

Not here: measuring (plan.py), messages made during planning (made.py)."""

from collections import OrderedDict
from dataclasses import replace
from functools import lru_cache
from io import FileIO
from itertools import count
from os import fstat
from threading import Lock
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

from records import FileRecords
from records.files.source import Records

from . import plan
from .plan import Plan, Steps
from .policy import CHUNK_SIZE_MIN, ConversionPolicy
from .request import Request
from .stats import Clock

# An entry takes half a KiB, since none holds messages, errors or transactions: 4 MiB in all. That
# covers 8 GiB of log in responses of 1 MiB.
ENTRIES_MAX: Final = 8192

Key: TypeAlias = tuple[object, ...]

_numbers: Final[WeakKeyDictionary[FileIO, int]] = WeakKeyDictionary()
_number: Final = count()


class SizeCache:
    """The plans that were used last. Thread-safe. hits: plans found; misses: plans that had to be
    made for ranges that do not change."""

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self.hits = self.misses = 0
        self._max = entries_max
        self._plans: OrderedDict[Key, Plan] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._plans)

    def planning(self, records: Records, request: Request, clock: Clock) -> Steps[Plan]:
        """Like `plan.planning`. If the plan was made for another client, nothing is read."""
        key = None if records.size <= plan.SMALL_SIZE_MAX else _key(records, request)
        if key is None:
            return (yield from plan.planning(records, request, clock))
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
                self.hits += 1
                return found
            self.misses += 1
        made = yield from plan.planning(records, request, clock)
        if made.damage is None:  # errors are not shared: each carries its own traceback
            with self._lock:
                self._plans[key] = replace(made, held=None) if made.held else made
                if len(self._plans) > self._max:
                    self._plans.popitem(last=False)
        return made


def _key(records: Records, request: Request) -> Key | None:
    """The inputs of a plan. None: the range may change, or the key could have any size."""
    if not isinstance(records, FileRecords) or request.aborted:
        return None
    of_file = _sealed_file(records) if records.is_sealed else _open_file(records)
    if of_file is None:
        return None
    return (
        of_file,
        records.origin,
        records.size,
        request.to_magic,
        request.first_offset,
        _of_any_chunk_size(request.policy),
    )


def _sealed_file(records: FileRecords) -> Key:
    status = fstat(records.fileno())
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _open_file(records: FileRecords) -> int | None:
    """The number of the open file, which is never reused. None: its contents may change."""
    if not records.is_settled:
        return None
    number = _numbers.get(records.file)
    return _numbers.setdefault(records.file, next(_number)) if number is None else number


@lru_cache(maxsize=64)
def _of_any_chunk_size(policy: ConversionPolicy) -> ConversionPolicy:
    """Sizes do not depend on chunk_size, and a broker changes it with its load."""
    return replace(policy, chunk_size=CHUNK_SIZE_MIN)


sizes: Final = SizeCache()
