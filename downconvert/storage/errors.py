"""Errors of a log on disk, besides those of its records.

A wrong argument is a ValueError, and a file that is not there an OSError, as everywhere in Python.

Not here: damage in records, which is a CorruptRecordsError (records/errors.py)."""

from records.errors import RecordsError


class StorageError(RecordsError):
    """The base of all errors of the log on disk."""


class OffsetOutOfRangeError(StorageError):
    """A read from an offset that the log no longer has, or does not have yet (Kafka's error 1)."""

    def __init__(self, offset: int, start: int, end: int, name: str) -> None:
        self.offset = offset
        self.start = start
        self.end = end
        super().__init__(f"offset {offset} is not in {name}, which has {start} up to {end}")


class CorruptIndexError(StorageError):
    """A damaged index. It holds nothing that the log does not: recovery rebuilds it."""

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
    """A segment that holds offsets more than 2**31 - 1 above its own, as brokers before 2.1 could
    write them (KAFKA-6264). It is read as it is; to be written to it must be split."""

    def __init__(self, offset: int, base_offset: int, path: str) -> None:
        self.offset = offset
        super().__init__(f"{path}: offset {offset} does not fit the base offset {base_offset}")


class DiskFullError(StorageError):
    """The disk is full. Data that was there before is unchanged."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"no space left on the device for {path}; nothing was changed")


class LogDirOfflineError(StorageError):
    """A directory whose disk has failed, and that is no longer written to (Kafka's error 56)."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path} is offline: {reason}")


class LogInUseError(StorageError):
    """A directory that another process (a broker, perhaps) has open for writing."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"{path} is open for writing elsewhere; stop that broker or process first")
