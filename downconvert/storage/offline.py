"""A partition whose log cannot be opened. It is offline, and the others are served, as in Kafka."""

from records import CorruptRecordsError

from .producers.producers import Producers
from .segments.segment import Segment
from .segments.segments import Segments


class OfflineView:
    """The empty view of a log that cannot be opened. `reason` states why."""

    start_offset = 0
    end_offset = 0
    damage: CorruptRecordsError | None = None

    def __init__(self, reason: str, producers: Producers) -> None:
        self.reason: str | None = reason
        self.segments = Segments()
        self.snapshots: list[int] = []
        self._producers = producers

    def end_of(self, segment: Segment) -> int:
        return segment.size

    def producers_at_end(self) -> Producers:
        return self._producers

    def refresh(self, *, relist: bool = False) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing: nothing is open."""
