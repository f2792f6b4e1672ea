"""Metadata of files, read without opening them.

Not here: the rules (`FileStamps` in records/kernel_functions.py)."""

import os
from struct import Struct
from typing import Final

from records.kernel_functions import STAMP_SIZE

STAMP: Final = Struct("<qqQ")
UNKNOWN: Final = b"\xff" * STAMP_SIZE
LATEST: Final = 2**63 - 1
assert STAMP.size == STAMP_SIZE


def file_stamps(paths: list[bytes]) -> bytes:
    """See `FileStamps` in kernel_functions.py."""
    return b"".join(map(_stamp, paths))


def _stamp(path: bytes) -> bytes:
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path takes no bytes
    except (OSError, ValueError):
        return UNKNOWN
    changed = max(-LATEST - 1, min(found.st_mtime_ns, LATEST))
    return STAMP.pack(changed, found.st_size, found.st_ino)
