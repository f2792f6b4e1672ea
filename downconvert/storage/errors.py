"""Errors of a log on disk, besides those of records.

A wrong argument is a ValueError, and a missing file an OSError, as usual in Python.

Not here: damage in records, which is a CorruptRecordsError (records/errors.py)."""

from records.errors import RecordsError


class StorageError(RecordsError):
    """The base of all errors of the log on disk."""


class OffsetOutOfRangeError(StorageError):
    """A read at an offset that the log no longer has, or does not have yet (Kafka's error 1)."""

    def __init__(self, offset: int, start: int, end: int, name: str) -> None:
        self.offset = offset
        self.start = start
        self.end = end
        super().__init__(f"offset {offset} is not in {name}, which has {start} up to {end}")


class CorruptIndexError(StorageError):
    """A damaged index. Recovery rebuilds it from the log without loss."""

    def __init__(self, reason: str, path: str) -> None:
        self.reason = reason
        self.path = path
        super().__init__(f"{path}: {reason}; `downconvert recover` rebuilds it from the log")


class CorruptFileError(StorageError):
    """A damaged checkpoint, snapshot or properties file."""

    def __init__(self, reason: str, path: str) -> None:
        self.reason = reason
        self.path = path
        super().__init__(f"{path}: {reason}")


class OffsetOverflowError(StorageError):
    """A segment with offsets more than 2**31 - 1 above its base, as brokers before 2.1 could write
    them (KAFKA-6264). It can be read. To be written, it must be split."""

    def __init__(self, offset: int, base_offset: int, path: str) -> None:
        self.offset = offset
        super().__init__(f"{path}: offset {offset} does not fit the base offset {base_offset}")


class DiskFullError(StorageError):
    """The disk is full. Existing data is unchanged."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"no space left on the device for {path}; nothing was changed")


class LogDirOfflineError(StorageError):
    """A directory that is no longer written to, because its disk has failed (Kafka's error 56)."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path} is offline: {reason}")


class LogInUseError(StorageError):
    """A directory that another process (perhaps a broker) has open for writing."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"{path} is open for writing elsewhere; stop that broker or process first")
