"""Adds mixtures to generated trees (tree_model.py): several formats in one log, large records,
preallocated files, and segments that two leaders have copied to tiered storage.

Not here: queries with several options (tree_combined.py)."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Final

from records import Codec
from records.formats import V0, V1, V2

from .tree_log import Batch
from .tree_model import Copy, Piece, Tree
from .tree_places import SECOND_TIER, TIER, TIERS
from .tree_shapes import replace_batches

# Seeds from here on are mixed. Earlier ones stay as they are: tests name them.
MIXED: Final = 10_000_000
UNFINISHED_ID: Final = "u" * 22


def mix(tree: Tree) -> None:
    """Gives a tree old batches before new ones, large records, preallocated files and segments
    that two leaders have copied."""
    chance = random.Random(f"mix {tree.seed}")
    is_plain = all(copy.is_valid and not copy.cleaned for copy in _written(tree))
    has_transactions = any(one.producer >= 0 and one.records for one in tree.log)
    if is_plain and not has_transactions and tree.log and chance.random() < 0.3:
        _make_beginning_old(chance, tree)
    if chance.random() < 0.06:
        _enlarge(chance, tree)
    for copy in _written(tree):
        last = copy.pieces[-1] if copy.pieces else None
        is_whole = last is not None and last.keep is None and not last.replaces
        if last is not None and is_whole and copy.broker not in TIERS and chance.random() < 0.2:
            last.spare = chance.choice([1, 60, 61, 100, 4096])
    for copy in list(tree.copies):
        is_sound = not any(piece.is_hurt for piece in copy.pieces)
        if copy.broker == TIER and is_sound and chance.random() < 0.5:
            _copy_again(chance, tree, copy)


def _written(tree: Tree) -> list[Copy]:
    return [*tree.copies, *tree.lost]


def _make_beginning_old(chance: random.Random, tree: Tree) -> None:
    """Rewrites batches at the beginning of a log in the formats v0 and v1. Brokers note leader
    epochs of v2 only."""
    if any(one.magic != V2 for one in tree.log):
        return
    cuts = sorted(chance.choice(tree.log).base for _ in range(2))
    codec = chance.choice([Codec.NONE, Codec.GZIP, Codec.SNAPPY])

    def old(one: Batch) -> Batch:
        if one.base >= cuts[1]:
            return one
        magic = V0 if one.base < cuts[0] else V1
        records = one.records or ((one.base, b"k0", b"was a marker"),)
        return replace(
            one, epoch=-1, records=records, producer=-1, aborts=False, magic=magic, codec=codec
        )

    replace_batches(tree, old)
    for copy in _written(tree):
        copy.lost_notes.pop("leader-epoch-checkpoint", None)
        after = [*(start for _, start in copy.epochs[1:]), copy.end]
        copy.epochs = [
            (epoch, max(start, cuts[1]))
            for (epoch, start), end in zip(copy.epochs, after, strict=False)
            if end > cuts[1]
        ]


def _enlarge(chance: random.Random, tree: Tree) -> None:
    """Makes a record larger than the reader's buffers."""
    offsets = [at for one in tree.log for at, _, _ in one.records]
    if not offsets:
        return
    large = chance.choice(offsets)
    more = chance.randbytes(50) * chance.choice([400, 1500, 6000, 25_000])

    def enlarged(one: Batch) -> Batch:
        records = tuple(
            (at, key, (value or b"") + more if at == large else value)
            for at, key, value in one.records
        )
        return replace(one, records=records)

    replace_batches(tree, enlarged)


def _copy_again(chance: random.Random, tree: Tree, copy: Copy) -> None:
    """Lets a leader copy the first segments to tiered storage, and the next leader the others. The
    next leader's segments have other base offsets, so it copies some offsets once more."""
    batches = [one for piece in copy.pieces for one in piece.batches]
    if not batches or len(copy.pieces) < 2:
        return
    kept = chance.randrange(1, len(copy.pieces))
    begin = chance.randrange(copy.pieces[kept].base + 1)
    pieces: list[Piece] = []
    for one in batches:
        if not pieces or chance.random() < 0.25:
            pieces.append(Piece(one.base, [], is_indexed=True))
        pieces[-1].batches.append(one)
    pieces = [piece for piece in pieces if piece.batches[-1].last >= begin]
    if not pieces:
        return
    del copy.pieces[kept:]
    tree.copies.append(replace(copy, broker=SECOND_TIER, pieces=pieces))


def add_unfinished(tree: Tree, remote: Path) -> None:
    """Adds the files that a broker leaves if it dies while it copies a segment to tiered
    storage."""
    chance = random.Random(f"unfinished {tree.seed}")
    for log in sorted(remote.rglob("*.log")):
        if chance.random() < 0.2:
            data = log.read_bytes()
            name = f"{log.name.partition('-')[0]}-{UNFINISHED_ID}.log"
            log.with_name(name).write_bytes(data[: chance.randrange(len(data) + 1)])
