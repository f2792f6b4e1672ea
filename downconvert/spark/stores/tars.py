"""The members of a tar, which are read in place.

Only the headers of members are read. A tar that is compressed as a whole is refused: reading a
member would mean reading from the beginning each time.

Not here: which members are logs (stored_trees.py)."""

import io
import re
import tarfile
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from downconvert.storage.errors import CorruptFileError

from .blobs import Blob, BlobFile

TAR: Final = re.compile(r".+\.tar")
COMPRESSED: Final = re.compile(r".+\.(tar\.(gz|bz2|xz|zst|lz4)|tgz)")
BUFFER_SIZE: Final = 64 * 1024  # bytes; large enough for the small members
SECOND: Final = 1_000_000_000  # nanoseconds
INDEX: Final = "index"  # the end of an index's name; logs are read without their indexes
TIME_MAX: Final = 2**32  # seconds since the epoch; file systems have no later times


def members(blob: Blob) -> Iterator[tuple[tuple[str, ...], Blob]]:
    """The files in a tar: the parts of their names, and where they are.

    CorruptFileError: the blob is no tar, is damaged, ends too early, or contains a sparse file.
    FileNotFoundError. StoreError."""
    try:
        with (
            closing(blob.open()) as reader,
            io.BufferedReader(BlobFile(blob, reader), BUFFER_SIZE) as file,
            tarfile.open(fileobj=file, mode="r:") as tar,  # compressed ones are refused
        ):
            named: dict[str, tarfile.TarInfo] = {}
            for found in tar:
                member = named.get(found.linkname, found) if found.islnk() else found
                named[found.name] = member
                if member.issparse() and not member.name.endswith(INDEX):
                    raise CorruptFileError(
                        f"has {member.name!r} without its holes: make it without --sparse",
                        blob.name,
                    )
                if not member.isreg() or member.issparse():
                    continue
                if not 0 <= member.size <= blob.size - member.offset_data:
                    raise CorruptFileError(f"ends within its member {member.name!r}", blob.name)
                parts = tuple(part for part in found.name.split("/") if part not in ("", "."))
                at = blob.start + member.offset_data
                modified = int(min(max(0, member.mtime), TIME_MAX) * SECOND)
                yield parts, Blob(blob.path, member.size, at, modified)
            if any(reader.read(tar.offset, tarfile.BLOCKSIZE)):
                raise CorruptFileError(f"has no member at byte {tar.offset}", blob.name)
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise CorruptFileError(f"cannot be read as a tar: {error}", blob.name) from error
