"""The members of a tar, which are read in place.

Only the headers of members are read. A tar that is compressed as a whole is refused: reading a
member would mean reading from the beginning each time.

Not here: which members are logs (stored_trees.py)."""

import io
import re
import tarfile
from collections.abc import Iterator
from typing import Final

from downconvert.storage.errors import CorruptFileError

from .blobs import Blob, Reader

TAR: Final = re.compile(r".+\.tar")
COMPRESSED: Final = re.compile(r".+\.(tar\.(gz|bz2|xz|zst|lz4)|tgz)")
BUFFER_SIZE: Final = 64 * 1024  # bytes; large enough for the small members
SECOND: Final = 1_000_000_000  # nanoseconds


def members(blob: Blob) -> Iterator[tuple[tuple[str, ...], Blob]]:
    """The files in a tar: the parts of their names, and where they are.

    CorruptFileError: it is no tar, or ends too early. FileNotFoundError. StoreError."""
    reader = blob.open()
    try:
        with tarfile.open(fileobj=io.BufferedReader(_TarFile(blob, reader), BUFFER_SIZE)) as tar:
            for member in tar:
                if not member.isreg() or member.issparse():
                    continue
                if not 0 <= member.size <= blob.size - member.offset_data:
                    raise CorruptFileError(f"ends within its member {member.name!r}", blob.name)
                parts = tuple(part for part in member.name.split("/") if part not in ("", "."))
                at = blob.start + member.offset_data
                yield parts, Blob(blob.path, member.size, at, int(member.mtime * SECOND))
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise CorruptFileError(f"is no tar that can be read: {error}", blob.name) from error
    finally:
        reader.close()


class _TarFile(io.RawIOBase):
    """A blob as a file."""

    def __init__(self, blob: Blob, reader: Reader) -> None:
        self._size = blob.size
        self._reader = reader
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + position)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, target: "memoryview") -> int:  # type: ignore[override]
        size = min(len(target), max(0, self._size - self._position))
        data = self._reader.read(self._position, size) if size else b""
        target[: len(data)] = data
        self._position += len(data)
        return len(data)
