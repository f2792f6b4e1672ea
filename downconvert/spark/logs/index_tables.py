"""The entries of a segment's indexes as tables. The files are in a mounted directory or in a store.

An index has no checksum, so it may be damaged.

Not here: what the entries lead to (boundaries.py, compacted.py, plan/time_entries.py)."""

from pathlib import Path
from typing import Any, Final

import numpy as np

from downconvert.storage.names import Kind
from records.units import MiB

from .segment_files import SegmentFile

# By default, no broker lets an index grow larger.
INDEX_SIZE_MAX: Final = 10 * MiB
OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


def index_bytes(file: SegmentFile, kind: Kind) -> bytes:
    """The bytes of an index; none if it does not exist, or is too large to be one. OSError,
    StoreError: it cannot be read."""
    if file.blobs:
        blob = file.blob(kind)
        return blob.read() if blob is not None and 0 < blob.size <= INDEX_SIZE_MAX else b""
    path = Path(file.location(kind))
    try:
        return path.read_bytes() if path.stat().st_size <= INDEX_SIZE_MAX else b""
    except FileNotFoundError:
        return b""


def table_of(data: bytes, entry: "np.dtype[np.void]") -> Any:
    """The whole entries of an index."""
    return np.frombuffer(data[: len(data) // entry.itemsize * entry.itemsize], entry)
