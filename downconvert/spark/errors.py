"""The errors of queries, except wrong options, which are ValueErrors.

Not here: damage itself (records/errors.py)."""

from typing import Final

from records import CorruptRecordsError, RecordsError

MODES: Final = (
    "; the option mode=PERMISSIVE makes a row of what is damaged and goes on, DROPMALFORMED leaves "
    "it out"
)


class CorruptSegmentError(RecordsError):
    """Damage in a segment, if `mode` is FAILFAST."""

    def __init__(self, path: str, damage: CorruptRecordsError) -> None:
        super().__init__(f"{path}: {damage}{MODES}")


class MissingOffsetsError(RecordsError):
    """Offsets that no copy of a log has, although compaction has not removed them, if `mode` is
    FAILFAST."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}; if compaction has removed them, name the topic in the option compacted; the "
            f"option failOnDataLoss=false goes on with a warning{MODES}"
        )


class CorruptStateError(RecordsError):
    """An unreadable record of a broker's internal topic, if `mode` is FAILFAST."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}{MODES}")


class SegmentChangedError(RecordsError):
    """A segment has changed since the query was planned: positions in it are no longer valid."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was cleaned or truncated after the query was planned")


class DataLossError(RecordsError):
    """Records that should be read no longer exist."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; the option failOnDataLoss=false goes on without")


class TaskFailedError(Exception):
    """A task of a job failed. The text names the task and the reason."""


class MixedClustersError(RecordsError):
    """Logs of different clusters or topics that would be mistaken for copies of one log."""


class NotMountedError(RecordsError):
    """A directory that the driver has and this executor does not."""

    def __init__(self, directory: str, host: str) -> None:
        super().__init__(
            f"{directory} is not on {host}: mount it there under the same path as for the driver; "
            "if its topic was deleted after the query was planned, run the query again"
        )
