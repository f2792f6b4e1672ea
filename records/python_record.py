"""The class `Record` in Python: equal to the compiled one, and used without it.

Not here: the choice between them (record.py)."""

from dataclasses import dataclass
from typing import TypeAlias

from .formats import TimestampType

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One record.

    Header keys are text. Invalid UTF-8 becomes surrogates (`surrogateescape`), so encoding a key
    the same way restores its bytes.

    A record that was read by the compiled kernel makes key, value and headers at each access. Keep
    frequently used ones in a variable. Small records share a buffer of at most 4 KiB with their
    neighbours; larger records have their own. So a record that you keep holds at most 4 KiB of
    other records. The objects that it returns hold no other memory."""

    offset: int
    timestamp: int  # milliseconds since the epoch; -1 is none
    timestamp_type: TimestampType = TimestampType.CREATE
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    sequence: int = -1  # of an idempotent or transactional producer; -1 is none
