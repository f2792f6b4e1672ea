"""Selects the stretches of a segment that are measured, unless the whole segment is measured.

Not here: measuring them (audit_segment.py)."""

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from records import BatchHeader, Codec

STRETCH_SIZE: Final = 1024 * 1024  # bytes; the default size of a fetch

Key: TypeAlias = tuple[int, Codec]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive batches of one format and codec, with the control batches between them."""

    key: Key
    start: int  # bytes
    end: int
    marker_bytes: int = 0


class Sample:
    """Selects the stretches of a segment to measure."""

    def __init__(self, size: int, stretches: int) -> None:
        """`size`: of the segment in bytes. `stretches`: the number for each format and codec; 0
        selects everything."""
        self.stretches: list[Stretch] = []
        is_small = size <= stretches * STRETCH_SIZE
        self._every = 0 if is_small or not stretches else size // stretches
        self._next: dict[Key, int] = {}  # where the next stretch of a kind may begin
        self._is_open = False

    def add(self, header: BatchHeader) -> None:
        """Adds the next batch."""
        key, end = (header.magic, header.codec), header.position + header.size
        if self._is_open:
            last = self.stretches[-1]
            if header.is_control:
                markers = last.marker_bytes + header.size
                self.stretches[-1] = replace(last, end=end, marker_bytes=markers)
                return
            if last.key == key and end - last.start <= STRETCH_SIZE:
                self.stretches[-1] = replace(last, end=end)
                return
        self._is_open = not header.is_control and header.position >= self._next.get(key, 0)
        if self._is_open:
            self.stretches.append(Stretch(key, header.position, end))
            self._next[key] = header.position + max(self._every, 1)
