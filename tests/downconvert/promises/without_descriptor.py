"""Records that are neither in memory nor have a descriptor, as those of a remote store."""

from collections.abc import Iterator

from records import BatchHeader, Records
from records.files.source import read_headers


class WithoutDescriptor:
    """The same bytes, which can only be read."""

    view = None
    name = "without descriptor"

    def __init__(self, records: Records) -> None:
        self._records = records
        self.size = records.size
        self.origin = records.origin

    def read_into(self, target: memoryview, position: int) -> int:
        return self._records.read_into(target, position)

    def batches(self) -> Iterator[BatchHeader]:
        return read_headers(self)

    def slice(self, position: int, size: int) -> "WithoutDescriptor":
        return WithoutDescriptor(self._records.slice(position, size))
