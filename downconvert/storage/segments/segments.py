"""The segments of a log, in the order of their offsets."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import zip_longest

from .segment import Segment


class Segments:
    """Segments by their base offsets."""

    __slots__ = ("_bases", "_segments")

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._segments]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(tuple(self._segments))

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def first_offset(self) -> int:
        """The base offset of the first one; 0: there is none."""
        return self._bases[0] if self._bases else 0

    def __contains__(self, segment: object) -> bool:
        """Whether it is this very object, and not only a segment of the same offset."""
        if not isinstance(segment, Segment):
            return False
        at = bisect_right(self._bases, segment.base_offset)
        return at > 0 and self._segments[at - 1] is segment

    def starting_at(self, offset: int) -> Iterator[Segment]:
        """The segment to which an offset belongs, and all later ones."""
        first = max(0, bisect_right(self._bases, offset) - 1)
        return iter(self._segments[first:])

    def pairs_from(self, offset: int) -> Iterator[tuple[Segment, Segment | None]]:
        """As `starting_at`, each with the next one. None after the last."""
        first = max(0, bisect_right(self._bases, offset) - 1)
        return zip_longest(self._segments[first:], self._segments[first + 1 :])

    def after(self, segment: Segment) -> Segment | None:
        """The next segment; None after the last."""
        at = bisect_right(self._bases, segment.base_offset)
        return self._segments[at] if at < len(self._segments) else None

    def is_last(self, segment: Segment) -> bool:
        return segment is self._segments[-1]

    def add(self, segment: Segment) -> None:
        """ValueError: there already is a segment with its base offset."""
        at = bisect_right(self._bases, segment.base_offset)
        if at and self._bases[at - 1] == segment.base_offset:
            raise ValueError(f"there already is a segment of offset {segment.base_offset}")
        self._segments.insert(at, segment)
        self._bases.insert(at, segment.base_offset)

    def remove(self, segment: Segment) -> None:
        at = self._segments.index(segment)
        del self._segments[at], self._bases[at]
