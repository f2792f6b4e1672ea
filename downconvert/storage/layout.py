"""Finds the files of a partition's directory that make up its log, even after an interrupted
change.

A cleaner writes `.cleaned` files, renames them to `.swap` when they are complete, removes their
source segments (`.deleted`), and drops the suffix. After a crash Kafka's rules decide: a `.swap`
log counts, and replaces every segment that begins within its offsets. `.cleaned`, `.deleted` and
`.tmp` files do not count, nor does any file of an offset without a log. When an overflown segment
is split, a `.swap` at or after a `.cleaned` does not count either.

This code changes nothing. Readers use the result, and recovery applies it (recovery.py)."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from .disk.files import IS_LINK
from .errors import CorruptFileError
from .names import SEGMENT_KINDS, FileName, Kind, State, parse_file_name


@dataclass(slots=True)
class Layout:
    """The files of a partition's directory, by purpose."""

    logs: dict[int, State] = field(default_factory=dict)  # by base offset: live or swap
    snapshots: list[int] = field(default_factory=list)  # offsets, rising
    live: list[FileName] = field(default_factory=list)  # files of segments, in their final place
    swaps: list[FileName] = field(default_factory=list)
    leftovers: list[FileName] = field(default_factory=list)  # not needed any more
    # Names of symbolic links and of directories, each with the reason why it cannot be written.
    refused: dict[str, str] = field(default_factory=dict)


def read_layout(directory: Path) -> Layout:
    """Sorts the files of a directory by their names. OSError: there is no such directory.
    CorruptFileError: something named like a segment's file is not a file.

    Segments that a swap replaces are still in `logs`: see `replaced`."""
    layout = Layout()
    cleaned_min: int | None = None
    swaps: list[FileName] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            name = parse_file_name(entry.name)
            if name is None:
                continue
            if not entry.is_file(follow_symlinks=False) and not _is_accepted(entry, layout):
                continue
            if name.state is State.SWAP:
                swaps.append(name)
            elif name.state is not State.LIVE:
                layout.leftovers.append(name)
                if name.state is State.CLEANED:
                    cleaned_min = min(
                        name.offset, name.offset if cleaned_min is None else cleaned_min
                    )
            elif name.kind is Kind.SNAPSHOT:
                layout.snapshots.append(name.offset)
            else:
                layout.live.append(name)
    for name in swaps:
        unfinished = cleaned_min is not None and name.offset >= cleaned_min
        (layout.leftovers if unfinished else layout.swaps).append(name)
    layout.logs = {name.offset: State.LIVE for name in layout.live if name.kind is Kind.LOG}
    layout.logs |= {name.offset: State.SWAP for name in layout.swaps if name.kind is Kind.LOG}
    layout.logs = dict(sorted(layout.logs.items()))
    layout.snapshots.sort()
    return layout


def _is_accepted(entry: os.DirEntry[str], layout: Layout) -> bool:
    """Whether an entry that is not a regular file may be read: a link to one. CorruptFileError: it
    is something else than a link or a directory."""
    try:
        if entry.is_dir():
            layout.refused[entry.name] = "is a directory, and not a file of the log"
            return False
        is_file = entry.is_file()
    except OSError:  # a link to itself
        is_file = False
    if is_file:
        layout.refused[entry.name] = IS_LINK
    else:
        _check_is_gone(entry)
    return is_file


def _check_is_gone(entry: os.DirEntry[str]) -> None:
    """Allows an entry that was deleted while its directory was listed. An entry that exists and
    cannot be read (a pipe, a dangling link) must not be skipped, because the log might then have a
    gap."""
    try:
        entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return
    raise CorruptFileError("is not a regular file, nor a link to one", entry.path)


def check_writable(directory: Path, layout: Layout) -> None:
    """CorruptFileError: the directory or one of its segments' files is a link, or a file is a
    directory. A link may lead out of the log directory or to another log. Such a log is read, but
    never written."""
    if directory.is_symlink():
        raise CorruptFileError(IS_LINK, str(directory))
    for name, reason in layout.refused.items():
        raise CorruptFileError(reason, str(directory / name))


def replaced(layout: Layout, swap_end: int) -> list[int]:
    """Base offsets of the logs that the swaps replace. `swap_end`: the end offset of the swaps."""
    swapped = [name.offset for name in layout.swaps if name.kind is Kind.LOG]
    if not swapped:
        return []
    start = min(swapped)
    return [
        name.offset
        for name in layout.live
        if name.kind is Kind.LOG and start <= name.offset < swap_end
    ]


def orphans(layout: Layout) -> list[FileName]:
    """Indexes of offsets that have no log."""
    return [
        name
        for name in layout.live
        if name.kind in SEGMENT_KINDS and name.offset not in layout.logs
    ]
