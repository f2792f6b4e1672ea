"""The view that a stream has of the logs that it follows.

Not here: logs of directories (followed_mounted.py) and of object stores (followed_stored.py)."""

from collections.abc import Iterator
from typing import Protocol

from downconvert.spark.logs.places import Place
from downconvert.spark.logs.splits import Split
from downconvert.spark.plan.gaps import Gap
from downconvert.storage.names import TopicPartition


class FollowedLog(Protocol):
    """The log of one partition, as it is now, or as it was at the last listing."""

    @property
    def directory(self) -> str:
        """The log's name in messages."""

    @property
    def topic_id(self) -> str | None:
        """The id of its topic, as text; None: not known."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    def starting(self, end: int) -> int:
        """The offset at which a stream begins. It first reads up to `end`."""

    def epoch_of(self, offset: int) -> int:
        """The leader epoch of the record before an offset; -1: not known."""

    def changed_from(self, place: Place) -> int | None:
        """The first offset at which the log differs from what was read up to a place; None: it does
        not."""

    def advanced(self, start: int, end: int, bytes_max: int) -> tuple[int, int]:
        """The offset after as many batches as fit in `bytes_max` bytes, at least one, but at most
        `end`; and their approximate size in bytes."""

    def is_damaged_at_end(self) -> bool:
        """Whether something follows `end_offset` that is not the end of a log."""

    def gap(self, start: int, end: int, since: int) -> Gap | None:
        """The first gap from `start` up to `end` next to a segment that is newer than `since`, in
        nanoseconds since the epoch."""

    def splits(self, start: int, end: int) -> Iterator[Split]:
        """The splits with the offsets from `start` up to `end`."""


class FollowedLogs(Protocol):
    """The logs below a stream's paths."""

    @property
    def costs(self) -> bool:
        """Whether a new look needs requests to a store."""

    def refresh(self) -> dict[TopicPartition, tuple[FollowedLog, int]]:
        """Each wanted log, and the offset up to which it can be read now."""

    def close(self) -> None: ...
