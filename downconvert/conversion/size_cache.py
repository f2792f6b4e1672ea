"""Sizes that were measured once, for the next client that asks for the same records.

The exact size of a large answer costs a second parse of what is uncompressed, and compressing what
is compressed again. A segment that is not written any more converts to the same size every time. So
what was planned for a range of one is kept, whoever asks: one cache for the process, as all brokers
in it share its memory. Small answers are not in it: whoever asks for one makes it once.

Whoever hands a range out says that it does not change (`FileRecords.sealed`; a log says it of all
segments but its last). Truncating a log makes an older segment its last one again: the time of the
file's last change is part of the key, and so are its inode and its size, so that neither a file
that was written again nor another one in its place is taken for the one that was measured. What
the last segment already has does not change either while its file is open (`FileRecords.settled`):
a log opens it anew where that may not be so.

Not here: measuring (plan.py), messages that were made on the way (made.py)."""

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
# is as many answers of 1 MiB as there are in 8 GiB of log.
ENTRIES_MAX: Final = 8192

Key: TypeAlias = tuple[object, ...]

_numbers: Final[WeakKeyDictionary[FileIO, int]] = WeakKeyDictionary()
_number: Final = count()


class SizeCache:
    """The plans that were used last. Thread-safe. hits: plans that were there; misses: those of
    ranges that do not change and had to be made."""

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self.hits = self.misses = 0
        self._max = entries_max
        self._plans: OrderedDict[Key, Plan] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._plans)

    def planning(self, records: Records, request: Request, clock: Clock) -> Steps[Plan]:
        """As `plan.planning`. Where it was made for another client, nothing is read."""
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
        if made.damage is None:  # errors are not shared: each carries where it was raised
            with self._lock:
                self._plans[key] = replace(made, held=None) if made.held else made
                if len(self._plans) > self._max:
                    self._plans.popitem(last=False)
        return made


def _key(records: Records, request: Request) -> Key | None:
    """What a plan depends on; None: something that may change, or is as large as anything."""
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
    """Its number, which no other open file ever has; None: what was read of it may change."""
    if not records.is_settled:
        return None
    number = _numbers.get(records.file)
    return _numbers.setdefault(records.file, next(_number)) if number is None else number


@lru_cache(maxsize=64)
def _of_any_chunk_size(policy: ConversionPolicy) -> ConversionPolicy:
    """Sizes do not depend on it, and a broker changes it with its load."""
    return replace(policy, chunk_size=CHUNK_SIZE_MIN)


sizes: Final = SizeCache()
