"""The manifest of a conversion in an object store, and the notes that it is made of.

It is one object, written last: who reads it sees all entries of a run, or those of the run before.

Not here: entries and notes (manifest.py), writing objects (stores.py)."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from .manifest import MANIFEST, NOTE_SUFFIX, Entry, parse
from .stores import below, listed, read, write

THREADS = 16


def gather_stored(target: str) -> None:
    """Writes the manifest, a line for each note."""
    try:
        found = listed(target)
    except FileNotFoundError:
        return
    notes = [one.uri for one in found if _path(one.uri).endswith(NOTE_SUFFIX)]
    with ThreadPoolExecutor(THREADS) as threads:
        lines = list(threads.map(read, notes))
    write(below(target, MANIFEST), b"".join(lines))


def stored_entries(target: str) -> Iterator[Entry]:
    """The entries of a target's manifest. FileNotFoundError: it has none."""
    for line in read(below(target, MANIFEST)).splitlines():
        yield parse(line)


def is_a_conversion(target: str) -> bool | None:
    """Whether what is in a target is of a conversion; None: there is nothing."""
    try:
        found = listed(target)
    except FileNotFoundError:
        return None
    return any(_path(one.uri).endswith((NOTE_SUFFIX, MANIFEST)) for one in found)


def _path(uri: str) -> str:
    return uri.partition("?")[0]
