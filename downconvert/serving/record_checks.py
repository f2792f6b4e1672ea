"""Checks single records of a produce request, and collects their errors for the response.

Not here: checking batches, and appending (appending.py)."""

from typing import Final

from downconvert.protocol.errors import ApiError, ErrorCode
from records import Record
from records.formats import NO_TIMESTAMP, V0, TimestampType

from .append_config import AppendConfig

ERRORS_MAX: Final = 100  # records named in a response


class RefusedRecordsError(ApiError):
    """Some records are invalid, so nothing is appended. Has the invalid records and the reasons."""

    def __init__(self, code: ErrorCode, records: list[tuple[int, str]]) -> None:
        super().__init__(code, f"{len(records)} records are refused; the first: {records[0][1]}")
        self.records = records


class RecordChecks:
    """Collects the errors of single records for the response."""

    def __init__(self, config: AppendConfig, now: int) -> None:
        self._config = config
        self._now = now
        self._code = ErrorCode.INVALID_RECORD
        self._errors: list[tuple[int, str]] = []

    def check(self, index: int, timestamp: int, kind: TimestampType, has_key: bool) -> None:
        """`kind`: the producer's timestamp type."""
        config = self._config
        if config.is_compacted and not has_key:
            self._add(index, "a compacted topic takes no record without a key")
            return
        if timestamp < NO_TIMESTAMP:
            self._add_timestamp(index, f"timestamp {timestamp} is negative")
        elif timestamp != NO_TIMESTAMP and not config.is_append_time:
            if not -config.after_max <= self._now - timestamp <= config.before_max:
                self._add_timestamp(index, f"timestamp {timestamp} is out of range")
        elif kind is TimestampType.LOG_APPEND:
            self._add_timestamp(index, "only brokers set the timestamp type to LogAppendTime")

    def check_all(
        self, first: int, timestamps: list[int], kind: TimestampType, key_sizes: list[int]
    ) -> None:
        """As `check`, for several records. `index`: of the first one. A key size of -1: no key."""
        oldest, newest, have_keys = min(timestamps), max(timestamps), min(key_sizes) >= 0
        if are_fine(self._config, self._now, kind, oldest, newest, have_keys=have_keys):
            return
        for index, (timestamp, key_size) in enumerate(zip(timestamps, key_sizes, strict=True)):
            self.check(first + index, timestamp, kind, key_size >= 0)

    def _add_timestamp(self, index: int, reason: str) -> None:
        self._code = ErrorCode.INVALID_TIMESTAMP
        self._add(index, reason)

    def _add(self, index: int, reason: str) -> None:
        if len(self._errors) < ERRORS_MAX:
            self._errors.append((index, reason))

    def check_record(self, magic: int, index: int, record: Record) -> None:
        """`check` for a record that has been read from a batch of this format.

        A compressed v0 message has no v1 messages inside, and vice versa."""
        kind, timestamp = record.timestamp_type, record.timestamp
        is_v0 = kind is TimestampType.NONE and timestamp == NO_TIMESTAMP
        if is_v0 != (magic == V0):
            self._add(index, f"it is not in the format of its batch, v{magic}")
            return
        self.check(index, record.timestamp, record.timestamp_type, record.key is not None)

    def finish(self) -> None:
        if self._errors:
            raise RefusedRecordsError(self._code, self._errors)


def are_fine(
    config: AppendConfig,
    now: int,
    kind: TimestampType,
    oldest: int,
    newest: int,
    *,
    have_keys: bool,
) -> bool:
    """Whether no record has an error. If False, each must be checked. `oldest`, `newest`: of the
    timestamps. `have_keys`: whether all records have keys."""
    if kind is not TimestampType.CREATE or oldest < 0 or (config.is_compacted and not have_keys):
        return False
    return config.is_append_time or (
        now - config.before_max <= oldest and newest <= now + config.after_max
    )
