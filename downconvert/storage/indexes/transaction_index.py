"""The transaction index of a segment: the transactions that were aborted in it.

An entry is written with a transaction's abort marker. Without one, there is no file. Reads of
committed records leave these transactions out. The markers have the same information, but a read
would have to search for them beyond its end.

Not here: tracking transactions (producer_state.py), leaving records out (log.py)."""

from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from downconvert.storage.disk.files import Files, WritableFile, read_file
from downconvert.storage.errors import CorruptIndexError

ENTRY: Final = Struct(">hqqqq")
VERSION: Final = 0
assert ENTRY.size == 34


class AbortedTransaction(NamedTuple):
    """A producer's records from the first to the last offset are aborted."""

    producer_id: int
    first_offset: int
    last_offset: int  # of the abort marker
    last_stable_offset: int  # after the abort: the start of the oldest open transaction, if any


def read_transactions(path: Path, base_offset: int) -> list[AbortedTransaction]:
    """The entries of a file; none if there is no file. A torn last entry is left out.

    CorruptIndexError: an unknown version, or offsets that do not rise."""
    try:
        data = read_file(path)
    except FileNotFoundError:
        return []
    entries: list[AbortedTransaction] = []
    end = base_offset - 1
    for version, *fields in ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size]):
        if version != VERSION:
            raise CorruptIndexError(f"version {version} is not known", str(path))
        entry = AbortedTransaction(*fields)
        if entry.last_offset <= end:
            raise CorruptIndexError("its last offsets do not rise from the segment's", str(path))
        end = entry.last_offset
        entries.append(entry)
    return entries


class TransactionIndex:
    """The transaction index of a segment that is written. The first entry creates the file."""

    __slots__ = ("_base_offset", "_file", "_files", "_path", "entries")

    def __init__(self, path: Path, base_offset: int, files: Files) -> None:
        self.entries = read_transactions(path, base_offset)
        self._path = path
        self._base_offset = base_offset
        self._files = files
        self._file: WritableFile | None = None

    @property
    def end(self) -> int:
        """The last offset of the last entry; without entries, the offset before the segment's."""
        return self.entries[-1].last_offset if self.entries else self._base_offset - 1

    def append(self, entry: AbortedTransaction) -> None:
        """ValueError: the transaction does not end above `end`."""
        if entry.last_offset <= self.end:
            raise ValueError(f"a transaction ends at {entry.last_offset}, after one at {self.end}")
        if self._file is None:
            self._file = self._files.open(self._path)
        self._file.write_at(ENTRY.pack(VERSION, *entry), len(self.entries) * ENTRY.size)
        self.entries.append(entry)

    def truncate_to(self, offset: int) -> None:
        """Removes every transaction that ended at or above `offset`."""
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        if len(kept) == len(self.entries):
            return
        if self._file is None:
            self._file = self._files.open(self._path)
        self._file.truncate(len(kept) * ENTRY.size)
        self.entries = kept

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
