"""Control records: the ends of transactions, and KRaft's own.

Sources: Kafka's ControlRecordType and EndTransactionMarker. Like them, this file reads versions
newer than 0 as 0, and ignores bytes after the known fields.

Not here: which batches are control batches (batch.py), which records they abort (downconvert)."""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final, Self

from records.errors import CorruptRecordsError

KEY: Final = Struct(">hh")  # version, type
MARKER: Final = Struct(">hi")  # version, coordinator epoch
assert (KEY.size, MARKER.size) == (4, 6)


class ControlRecordType(IntEnum):
    """The type in a control record's key. UNKNOWN is any later type, which readers ignore."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6

    @classmethod
    def parse(cls, key: bytes | None, position: int) -> Self:
        """The type in a control record's key. CorruptRecordsError, with this position: the key is
        null or too short, or has a negative version."""
        if key is None or len(key) < KEY.size:
            raise CorruptRecordsError("control record's key is too short", position)
        version, number = KEY.unpack_from(key)
        if version < 0:
            raise CorruptRecordsError("control record's key has a negative version", position)
        return cls._of_number(number)

    @classmethod
    def of(cls, key: bytes) -> Self:
        """As `parse`, for readers that ignore unreadable keys: UNKNOWN if the key is too short."""
        return cls(cls.UNKNOWN) if len(key) < KEY.size else cls._of_number(KEY.unpack_from(key)[1])

    @classmethod
    def _of_number(cls, number: int) -> Self:
        return cls(number) if number in cls._value2member_map_ else cls(cls.UNKNOWN)


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    """The end of a transaction: ABORT or COMMIT, and the epoch of the coordinator that wrote it."""

    type: ControlRecordType
    coordinator_epoch: int

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None, position: int) -> Self:
        """The marker in a control record. CorruptRecordsError, with this position: key or value is
        unreadable, or the record does not end a transaction."""
        kind = ControlRecordType.parse(key, position)
        if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            raise CorruptRecordsError("control record does not end a transaction", position)
        if value is None or len(value) < MARKER.size:
            raise CorruptRecordsError("end of transaction is too short", position)
        version, coordinator_epoch = MARKER.unpack_from(value)
        if version < 0:
            raise CorruptRecordsError("end of transaction has a negative version", position)
        return cls(kind, coordinator_epoch)
