"""The common part of a segment's offset index and time index: opening, searching, truncating and
closing a file of sorted entries."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from pathlib import Path
from struct import Struct
from typing import ClassVar, Self

from downconvert.storage.disk.entry_file import INDEX_SIZE_MAX, EntryFile
from downconvert.storage.disk.files import Files
from downconvert.storage.errors import CorruptIndexError

from .search import WarmSearch


class SegmentIndex(ABC):
    """Entries with the layout `ENTRY`. `file` has the methods to sync it, to trim it and to check
    that it is whole."""

    __slots__ = ("_search", "base_offset", "file")

    ENTRY: ClassVar[Struct]

    def __init__(self, entries: EntryFile, base_offset: int) -> None:
        self.base_offset = base_offset
        self.file = entries
        self._search = WarmSearch(entries.view, self.ENTRY.size)

    @classmethod
    def open(cls, path: Path, base_offset: int) -> Self:
        """Opens it for reading. OSError: there is no such file."""
        return cls(EntryFile.open(path, cls.ENTRY.size), base_offset)

    @classmethod
    def open_writable(
        cls, path: Path, base_offset: int, files: Files, size_max: int = INDEX_SIZE_MAX
    ) -> Self:
        """`size_max`: bytes, for as many entries as fit."""
        return cls(EntryFile.open_writable(path, cls.ENTRY.size, files, size_max), base_offset)

    def __len__(self) -> int:
        return self.file.count

    @abstractmethod
    def offset_at(self, slot: int) -> int:
        """The offset in an entry."""

    def truncate_to(self, offset: int) -> None:
        """Removes every entry at or above `offset`."""
        self.file.truncate(bisect_right(range(len(self)), offset - 1, key=self.offset_at))
        self._search.forget()

    def check_size(self) -> None:
        """CorruptIndexError: the file ends within an entry."""
        path = self.file.path
        if path.stat().st_size % self.ENTRY.size:
            raise CorruptIndexError(f"its size is not a multiple of {self.ENTRY.size}", str(path))

    def close(self) -> None:
        self.file.close()
