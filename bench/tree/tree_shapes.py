"""Changes generated trees (tree_model.py) further: different timestamps, large offsets, segments
that a cleaner has merged or was about to swap in, and log start offsets in any segment.

Not here: reading them (tree_reads.py)."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from downconvert.storage.names import Kind, file_name
from records.formats import V0
from tests.downconvert.storage.logs import indexed_segment

from .tree_log import Batch
from .tree_model import NAME, Copy, Piece, Tree
from .tree_places import TIER

# Seeds from here on have shapes. Earlier ones stay as they are: tests name them.
SHAPED: Final = 9_000_000
KINDS: Final = (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX)


def shape(tree: Tree) -> None:
    """Gives a tree timestamps, larger offsets, merged segments and log start offsets."""
    chance = random.Random(f"shape {tree.seed}")
    spread, by = chance.choice([1, 1, 30, 300]), chance.choice([0, 0, 2**31 - 5, 2**40])
    if all(one.magic != V0 for one in tree.log):
        replace_batches(tree, lambda one: replace(one, spread=spread))
    _shift(tree, by)
    for copy in _written(tree):
        if copy.cleaned and chance.random() < 0.6:
            _merge(chance, copy)
        is_sound = copy.is_valid and not any(one.is_hurt for one in copy.pieces)
        is_sound = is_sound and bool(copy.pieces) and copy.pieces[0].base < copy.end
        if is_sound and copy.broker != TIER and chance.random() < 0.15:
            copy.deleted = chance.randrange(copy.pieces[0].base, copy.end) + 1


def _written(tree: Tree) -> list[Copy]:
    return [*tree.copies, *tree.lost]


def replace_batches(tree: Tree, change: Callable[[Batch], Batch]) -> None:
    """Changes all batches of a tree, in the log and in all copies."""
    changed: dict[int, list[Batch]] = {}
    for copy in _written(tree):
        for piece in copy.pieces:
            piece.batches = list(map(change, piece.batches))
        if id(copy.log) not in changed:
            changed[id(copy.log)] = list(map(change, copy.log))
    new = changed.get(id(tree.log)) or list(map(change, tree.log))
    for copy in _written(tree):
        copy.log = new if copy.log is tree.log else changed[id(copy.log)]
    tree.log = new


def _shift(tree: Tree, by: int) -> None:
    """Adds a number to all offsets. In indexes, offsets are relative to the segment."""

    def shifted(one: Batch) -> Batch:
        records = tuple((at + by, key, value) for at, key, value in one.records)
        return replace(one, base=one.base + by, last=one.last + by, records=records)

    if not by:
        return
    replace_batches(tree, shifted)
    for copy in _written(tree):
        copy.epochs = [(epoch, start + by) for epoch, start in copy.epochs]
        copy.cleaned += by if copy.cleaned else 0
        copy.deleted += by if copy.deleted else 0
        for piece in copy.pieces:
            piece.base += by


def _merge(chance: random.Random, copy: Copy) -> None:
    """Merges two neighbouring segments like a cleaner. The result may not be swapped in yet."""
    for before, piece in list(pairwise(copy.pieces)):
        is_possible = piece.base < copy.cleaned and not before.is_hurt and not piece.is_hurt
        if is_possible and chance.random() < 0.5 and not before.replaces and not piece.replaces:
            sources = (replace(before), piece)
            before.batches = [*before.batches, *piece.batches]
            copy.pieces.remove(piece)
            if not copy.packing and chance.random() < 0.5:
                before.replaces = sources
            return


def add_swaps(tree: Tree, path: Path) -> None:
    """Writes the files that a cleaner leaves if it dies while it swaps segments in: the new files
    with the suffix `.swap`, some of the files that they replace, and unfinished files."""
    for copy in tree.copies:
        directory = path / copy.broker / NAME
        for number, piece in enumerate(copy.pieces):
            if piece.replaces:
                _swap(random.Random(f"swap {tree.seed} {number}"), directory, piece)


def _swap(chance: random.Random, directory: Path, piece: Piece) -> None:
    for kind in KINDS:
        file = directory / file_name(piece.base, kind)
        if file.exists():
            file.rename(file.with_name(f"{file.name}.swap"))
    for source in piece.replaces:
        if chance.random() < 0.5:
            indexed_segment(directory, source.base, *(one.data for one in source.batches))
    if chance.random() < 0.3:
        last = piece.replaces[-1]
        log = directory / f"{file_name(last.base + 1000, Kind.LOG)}.cleaned"
        log.write_bytes(b"unfinished")
