"""A partition whose log cannot be opened: it has a place and a name, and nothing to read.

One such partition is no reason not to serve the others. Kafka marks it offline, too."""

from records import CorruptRecordsError

from .producers import Producers
from .segment import Segment
from .segments import Segments


class OfflineView:
    """The view of a log of which nothing is known but why."""

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
        """Nobody looks again."""

    def close(self) -> None:
        """Nothing is open."""
