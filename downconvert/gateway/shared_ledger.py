"""A ledger that the processes of one gateway share. It makes a client's limit apply to all its
connections, whichever processes serve them.

It is a file, in memory if the system supports that. The file is divided into sets of a few entries.
A name belongs to one set, and a change of its entry locks only that set. The locks are those of the
operating system, which releases them if a process dies."""

import fcntl
import os
import secrets
import sys
import tempfile
from hashlib import blake2b
from multiprocessing.reduction import DupFd
from struct import Struct
from threading import Lock
from typing import Any, Final
from weakref import finalize

from downconvert.access.ledger import Change, Entry

SETS: Final = 2048
SET_ENTRIES: Final = 8
ENTRY: Final = Struct("=16sdq")  # the name's digest, or zeros; the time; the number
SET_SIZE: Final = SET_ENTRIES * ENTRY.size
DIGEST_SIZE: Final = 16
FREE: Final = bytes(DIGEST_SIZE)


class SharedLedger:
    """A shared ledger. A process that receives it at its start shares it. A full set forgets the
    name with the oldest time."""

    def __init__(self) -> None:
        # The secret key prevents clients from choosing names that evict others from their set.
        self._open(secrets.token_bytes(DIGEST_SIZE), _nameless_file(SETS * SET_SIZE))

    def _open(self, key: bytes, file: int) -> None:
        self._key = key
        self._file = file
        self._lock = Lock()  # the system's locks work between processes, not between threads
        finalize(self, os.close, file)

    def __getstate__(self) -> tuple[bytes, Any]:
        return self._key, DupFd(self._file)

    def __setstate__(self, state: tuple[bytes, Any]) -> None:
        key, handed = state
        self._open(key, handed.detach())

    def change(self, name: str, change: Change) -> None:
        data = name.encode(errors="backslashreplace")
        digest = blake2b(data, digest_size=DIGEST_SIZE, key=self._key).digest()
        at = int.from_bytes(digest) % SETS * SET_SIZE
        with self._lock:
            fcntl.lockf(self._file, fcntl.LOCK_EX, SET_SIZE, at)
            try:
                self._change_in_set(at, digest, change)
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, SET_SIZE, at)

    def _change_in_set(self, at: int, digest: bytes, change: Change) -> None:
        entries = list(ENTRY.iter_unpack(os.pread(self._file, SET_SIZE, at)))
        places = {known: place for place, (known, _, _) in enumerate(entries)}
        place = places.get(digest, places.get(FREE))
        if place is None:
            place = min(range(SET_ENTRIES), key=lambda one: entries[one][1])
        known, *kept = entries[place]
        changed = change(Entry(*kept) if known == digest else Entry())
        if changed is not None:
            os.pwrite(self._file, ENTRY.pack(digest, *changed), at + place * ENTRY.size)


def _nameless_file(size: int) -> int:
    """A file of zeros, deleted with its last descriptor. OSError: there is no space."""
    if sys.platform == "linux":
        file = os.memfd_create("ledger")
    else:
        with tempfile.TemporaryFile() as temporary:
            file = os.dup(temporary.fileno())
    os.pwrite(file, bytes(size), 0)
    return file
