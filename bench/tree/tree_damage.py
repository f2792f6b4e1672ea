"""Varies generated trees (tree_model.py) further: compression and old formats, snapshots of
producers, ranges of zeros and noise, damaged checkpoints, and copies of copies."""

import copy as copying
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from downconvert.storage.names import (
    CLEANER_POINTS,
    LEADER_EPOCHS,
    LOG_STARTS,
    PARTITION_METADATA,
    Kind,
    file_name,
)
from downconvert.storage.producers.producer_state import (
    ProducerStates,
    read_marker,
    write_snapshot,
)
from records import Codec, MemoryRecords
from records.formats import V0, V1, V2
from tests.downconvert.storage.logs import UNSYNCED

from .tree_files import written
from .tree_log import Batch
from .tree_mixed import MIXED, add_unfinished, mix
from .tree_model import NAME, VARIED, Copy, Tree, generated
from .tree_offsets import AMID, BESIDE, FLIPPED, MISDATED, flip, miscount, misdate, misdate_amid
from .tree_places import PLACED, REMOTE, move, place
from .tree_rows import dress
from .tree_selected import SELECTED, select
from .tree_shapes import SHAPED, add_swaps, shape
from .tree_sizes import SIZED, enlarge

CODECS: Final = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


def varied(seed: int) -> Tree:
    """Generates a tree, and varies it. The same seed gives the same tree."""
    tree = generated(seed)
    if seed >= VARIED:
        _vary(tree)
    if seed >= PLACED:
        place(tree)
    if seed >= SHAPED:
        shape(tree)
    if seed >= MIXED:
        mix(tree)
    if seed >= SELECTED:
        select(tree)
    if seed >= FLIPPED:
        flip(tree)
        dress(tree)
    if seed >= BESIDE:
        miscount(tree)
    if seed >= SIZED:
        enlarge(tree)
    if seed >= MISDATED:
        misdate(tree)
    if seed >= AMID:
        misdate_amid(tree)
    return tree


def write_varied(tree: Tree, path: Path, *, is_healed: bool = False) -> None:
    """Writes the directories. `is_healed`: in their state before the damage."""
    written(tree, path, is_healed=is_healed)
    for copy in tree.copies:
        if copy.has_snapshots:
            _write_snapshots(path / copy.broker / NAME, copy)
    if not is_healed:
        _damage_notes(path, tree)
    add_swaps(tree, path)
    move(tree, path)
    if tree.seed >= MIXED:
        add_unfinished(tree, path / REMOTE)


def _vary(tree: Tree) -> None:
    chance = random.Random(f"vary {tree.seed}")
    is_plain = all(copy.is_valid for copy in tree.copies)
    is_simple = (
        is_plain
        and all(not copy.cleaned for copy in tree.copies)
        and not any(one.producer >= 0 and one.records for one in tree.log)
    )
    if is_simple and chance.random() < 0.4:
        _make_old(chance, tree)
    elif chance.random() < 0.3:
        codecs = chance.choices((Codec.NONE, *CODECS), k=7)
        _replace_batches(tree, lambda one: replace(one, codec=codecs[one.base % 7]))
    if tree.is_hurt or chance.random() < 0.2:
        for copy in tree.copies:
            _hurt_ranges(chance, copy)
    for copy in tree.copies:
        copy.has_snapshots = copy.pieces != [] and chance.random() < 0.4
        copy.lost_notes = _lost_notes(chance, copy, is_plain=is_plain, is_refused=tree.is_refused)
    if chance.random() < 0.1:
        twin = copying.deepcopy(chance.choice(tree.copies))
        twin.broker = "b8"
        if tree.is_hurt:
            _hurt_ranges(chance, twin)
        tree.copies.append(twin)


def _make_old(chance: random.Random, tree: Tree) -> None:
    """Rewrites a log in the format v0 or v1: without epochs, producers and control batches."""
    magic, codec = chance.choice([V0, V1]), chance.choice([Codec.NONE, Codec.GZIP, Codec.SNAPPY])

    def old(one: Batch) -> Batch:
        records = one.records or ((one.base, b"k0", b"was a marker"),)
        return Batch(one.base, one.last, -1, records, magic=magic, codec=codec)

    _replace_batches(tree, old)
    if chance.random() < 0.5:
        for copy in tree.copies:
            copy.epochs = []


def _replace_batches(tree: Tree, change: Callable[[Batch], Batch]) -> None:
    def changed(batches: Iterable[Batch]) -> list[Batch]:
        return list(map(change, batches))

    tree.log[:] = changed(tree.log)
    for copy in tree.copies:
        if copy.log is not tree.log:
            copy.log = changed(copy.log)
        for piece in copy.pieces:
            piece.batches = changed(piece.batches)


def _hurt_ranges(chance: random.Random, copy: Copy) -> None:
    """Overwrites consecutive batches of some segments, often up to the end."""
    for piece in copy.pieces:
        if not piece.batches or chance.random() > 0.15:
            continue
        first = chance.randrange(len(piece.batches))
        end = len(piece.batches) if chance.random() < 0.5 else first + chance.randrange(1, 4)
        what = chance.choice(["zeros", "noise"])
        for number in range(first, min(end, len(piece.batches))):
            piece.broken[number] = what


def _lost_notes(
    chance: random.Random, copy: Copy, *, is_plain: bool, is_refused: bool
) -> dict[str, str]:
    """The small files to damage, each with the kind of damage."""
    lost = {}
    for name in (LEADER_EPOCHS, PARTITION_METADATA, CLEANER_POINTS, LOG_STARTS, "snapshot"):
        if chance.random() < 0.06:
            lost[name] = chance.choice(["gone", "empty", "noise", "cut"])
    if any(one.magic != V2 for one in copy.log) or not is_plain:
        # Without this file, nothing would show that a later leader truncated records of another
        # copy: messages of old formats have no epoch.
        lost.pop(LEADER_EPOCHS, None)
    if any(piece.is_gone for piece in copy.pieces):
        lost.pop(CLEANER_POINTS, None)  # nothing else tells a lost segment from a cleaned one
    if is_refused:
        lost.pop(PARTITION_METADATA, None)
    if LOG_STARTS in lost:
        copy.deleted = 0
    return lost


def _write_snapshots(directory: Path, copy: Copy) -> None:
    """Writes a snapshot of producers at the base offset of each segment."""
    for piece in copy.pieces:
        states = ProducerStates()
        for one in copy.log:
            if one.last < piece.base and one.magic == V2:
                records = MemoryRecords(one.data)
                header = next(records.batches())
                states.update(header, read_marker(records, header))
        write_snapshot(UNSYNCED, directory / file_name(piece.base, Kind.SNAPSHOT), states)


def _damage_notes(path: Path, tree: Tree) -> None:
    """Damages checkpoints, topic ids and snapshots."""
    chance = random.Random(f"notes {tree.seed}")
    for copy in tree.copies:
        directory = path / copy.broker / NAME
        for name, what in copy.lost_notes.items():
            found = (
                sorted(directory.glob("*.snapshot"))
                if name == "snapshot"
                else [directory.parent / name, directory / name]
            )
            for file in found:
                if file.exists():
                    _damage(chance, file, what)


def _damage(chance: random.Random, file: Path, what: str) -> None:
    data = file.read_bytes()
    if what == "gone":
        file.unlink()
    elif what == "empty":
        file.write_bytes(b"")
    elif what == "noise":
        file.write_bytes(chance.randbytes(len(data)))
    else:  # cuts after a line, because a cut within a number would not show
        file.write_bytes(data[: data.rindex(b"\n", 0, -1) + 1] if b"\n" in data[:-1] else data[:5])
