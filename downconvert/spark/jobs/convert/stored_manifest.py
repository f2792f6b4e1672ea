"""The manifest of a conversion in an object store, and the notes that form it.

It is one object, written last: readers see all entries of a run, or those of the previous run.

Not here: entries and notes (manifest.py), writing objects (stores.py)."""

from collections.abc import Iterator
from typing import Final

from downconvert.spark.stores.parallel import in_parallel
from downconvert.spark.stores.stores import below, listed, read, shown, write

from .manifest import MANIFEST, NOTE_SUFFIX, Entry, parse

MARKER: Final = "conversion-settings.txt"  # written first, to recognise what a killed run left


def stored_notes(target: str) -> dict[str, str]:
    """The URIs of all notes, by their names below the target. FileNotFoundError: there is no such
    target."""
    start = len(shown(target)) + 1
    names = {shown(one.uri)[start:]: one.uri for one in listed(target)}
    return {name: uri for name, uri in names.items() if name.endswith(NOTE_SUFFIX)}


def read_stored_note(uri: str) -> Entry | None:
    """The note at a URI; None if there is none that can be read."""
    try:
        return parse(read(uri))
    except (FileNotFoundError, ValueError):
        return None


def gather_stored(target: str) -> None:
    """Writes the manifest, a line for each note."""
    try:
        notes = stored_notes(target).values()
    except FileNotFoundError:
        return
    write(below(target, MANIFEST), b"".join(in_parallel(read, notes)))


def stored_entries(target: str) -> Iterator[Entry]:
    """The entries of a target's manifest. FileNotFoundError: it has none."""
    for line in read(below(target, MANIFEST)).splitlines():
        yield parse(line)


def begin(target: str, settings: str) -> None:
    """Notes a target's settings before anything else is written there. ValueError: it has other
    content."""
    try:
        found = {_path(one.uri) for one in listed(target)}
    except FileNotFoundError:
        found = set()
    marker = below(target, MARKER)
    if _path(marker) in found:
        known = read(marker).decode(errors="replace")
        if known != settings:
            raise ValueError(
                f"holds a conversion to {known}, and this is one to {settings}: name another folder"
            )
    elif found:
        raise ValueError("holds other things: name a new folder")
    else:
        write(marker, settings.encode())


def _path(uri: str) -> str:
    return uri.partition("?")[0]
