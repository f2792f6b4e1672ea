"""Records that change after they were measured."""

from collections.abc import Iterator

from records import BatchHeader, MemoryRecords
from records.files.source import read_headers


class Changing:
    """A range of bytes; slices of it change with it."""

    def __init__(
        self, data: bytes, *, origin: int = 0, size: int | None = None, of: "Changing | None" = None
    ) -> None:
        self._of = of
        self.origin = origin
        self.size = len(data) if size is None else size
        self.view = None
        self.name = "changing"
        self.now = data

    def read_into(self, target: memoryview, position: int) -> int:
        if self._of is not None:
            return self._of.read_into(target[: self.size - position], self.origin + position)
        return MemoryRecords(self.now).read_into(target, position)

    def batches(self) -> Iterator[BatchHeader]:
        return read_headers(self)

    def slice(self, position: int, size: int) -> "Changing":
        size = min(size, self.size - position)
        return Changing(b"", origin=self.origin + position, size=size, of=self._of or self)
