"""The class `Record` in Python: what the compiled one does, too, and what runs without it.

Not here: which of them runs (record.py)."""

from dataclasses import dataclass
from typing import TypeAlias

from .formats import TimestampType

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One record.

    Header keys are text; bytes in them that are no UTF-8 become surrogates (`surrogateescape`), so
    that encoding the key the same way restores them.

    A record that was read by the compiled kernel makes key, value and headers when they are looked
    at, each time anew: a name for what is used often is faster. Until then they are bytes that it
    may share with its neighbours, 4 KiB at most; larger records have their own. So a record that is
    kept keeps that much of others in memory, and what was read from it keeps nothing else."""

    offset: int
    timestamp: int  # milliseconds; -1 is none
    timestamp_type: TimestampType = TimestampType.CREATE
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    sequence: int = -1  # of an idempotent or transactional producer
