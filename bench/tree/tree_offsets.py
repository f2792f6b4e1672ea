"""Flips bits in the base offsets of batches, which no checksum covers. A wrong offset shows if the
batch overlaps a neighbour. Other batches get a wrong number of offsets, which their checksum shows,
or a wrong leader epoch, which only the copy's leader epoch checkpoint shows.

Not here: other damage (tree_model.py, tree_damage.py)."""

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from downconvert.storage.names import LEADER_EPOCHS
from records import BatchHeader, CorruptRecordsError, MemoryRecords
from records.formats import V2
from tests.damage import damaged

from .tree_model import NAME, WRONG_EPOCH, Copy, Tree
from .tree_places import TIERS

# Seeds from here on have flipped bits. Earlier ones stay as they are: tests name them.
FLIPPED: Final = 10_300_000
# Seeds from here on also have flipped bits beside other damage, and wrong numbers of offsets.
BESIDE: Final = 24_000_000
# Seeds from here on also have too low numbers of offsets and of records.
FEWER: Final = 25_000_000
# Seeds from here on also have wrong leader epochs.
MISDATED: Final = 27_000_000
# Seeds from here on also have wrong leader epochs before other batches, beside other damage.
AMID: Final = 32_000_000
BITS: Final = 64
SIGN: Final = 63


def flip(tree: Tree) -> None:
    """Flips bits in the base offsets of some batches whose neighbours are sound."""
    chance = random.Random(f"flip {tree.seed}")
    if not tree.is_hurt and chance.random() < 0.7:
        return
    for copy in tree.copies:
        for number, at in list(_possible(copy)):
            piece = copy.pieces[number]
            around = {piece.broken.get(number, "") for number in (at - 1, at, at + 1)}
            allowed = {"", "body"} if tree.seed >= BESIDE and at not in piece.broken else {""}
            if chance.random() < 0.08 and around <= allowed:
                bits = [bit for bit in range(BITS) if _is_noticed(copy, number, at, bit)]
                if bits:
                    piece.broken[at], piece.flips[at] = "offset", chance.choice(bits)


def miscount(tree: Tree) -> None:
    """Gives some headers a wrong number of offsets or records. The next batch is right. Another
    one, which follows it, shows that."""
    chance = random.Random(f"miscount {tree.seed}")
    for copy in tree.copies if tree.is_hurt else ():
        for number, at in list(_possible(copy)):
            piece = copy.pieces[number]
            some = piece.batches[at : at + 3]
            are_sound = not {at, at + 1, at + 2} & set(piece.broken)
            is_shown = len(some) == 3 and some[1].last + 1 == some[2].base
            is_new = all(one.magic == V2 for one in some)
            if are_sound and is_shown and is_new and chance.random() < 0.1:
                kinds = ["many"]
                if tree.seed >= FEWER and some[0].last > some[0].base:
                    kinds += ["few", *(["records"] * (len(some[0].records) > 1))]
                piece.broken[at] = chance.choice(kinds)


def misdate(tree: Tree) -> None:
    """Gives the last batches of some copies a wrong, later leader epoch. Each of these copies has
    its checkpoint, and the longest copy has the batch. No other damage is there."""
    chance = random.Random(f"epoch {tree.seed}")
    longest = max(tree.copies, key=lambda copy: copy.end)
    for copy in tree.copies if not tree.is_hurt else ():
        last = copy.pieces[-1] if copy.pieces else None
        is_new = last is not None and bool(last.batches) and last.batches[-1].magic == V2
        is_short = copy.end < longest.end and longest.covers(copy.end - 1)
        is_noted = (
            bool(copy.epochs) and copy.broker not in TIERS and LEADER_EPOCHS not in copy.lost_notes
        )
        if last and is_new and is_short and is_noted and chance.random() < 0.5:
            last.broken[len(last.batches) - 1] = "epoch"


def misdate_amid(tree: Tree) -> None:
    """Gives some batches a wrong leader epoch. The next batch of the segment is sound."""
    chance = random.Random(f"epoch amid {tree.seed}")
    for copy in tree.copies if tree.is_hurt else ():
        for piece in copy.pieces:
            whole = [number for number, one in piece.whole() if one.magic == V2]
            for number in whole:
                are_sound = not {number - 1, number, number + 1} & set(piece.broken)
                if are_sound and number + 1 in whole and chance.random() < 0.15:
                    piece.broken[number] = "epoch"


@contextmanager
def misdated(logs: Path, seed: int) -> Iterator[None]:
    """Gives the last batch of a segment below the directory `logs` a wrong leader epoch meanwhile,
    for some seeds."""
    chance = random.Random(f"epoch {seed}")
    files = sorted(file for file in logs.glob(f"**/{NAME}/*.log") if file.stat().st_size)
    if not files or seed < AMID or chance.random() < 0.5:
        yield
        return
    file = chance.choice(files)
    whole = file.read_bytes()
    headers: list[BatchHeader] = []
    with suppress(CorruptRecordsError):  # the end of a copy may be cut off
        headers += MemoryRecords(whole).batches()
    for last in headers[-1:]:
        end = last.position + last.size
        one = damaged(whole[last.position : end], field="leader_epoch", to=WRONG_EPOCH, crc="stale")
        file.write_bytes(whole[: last.position] + one + whole[end:])
    yield
    file.write_bytes(whole)


def _possible(copy: Copy) -> Iterator[tuple[int, int]]:
    """The batches whose offset may be flipped, by segment and number. A cleaned copy has none,
    because a wrong offset does not show in the gaps between its batches."""
    if copy.cleaned:
        return
    for number, piece in enumerate(copy.pieces):
        is_whole = piece.keep is None and not piece.is_gone and not piece.replaces
        for at, one in enumerate(piece.batches):
            if is_whole and one.magic == V2:
                yield number, at


def _is_noticed(copy: Copy, number: int, at: int, bit: int) -> bool:
    """Whether a flipped bit makes the offsets of a batch overlap those of a neighbour."""
    piece, one = copy.pieces[number], copy.pieces[number].batches[at]
    is_lower = bit == SIGN or bool(one.base & 1 << bit)
    if is_lower:
        return at > 0 or piece.base == one.base
    if at + 1 < len(piece.batches):
        return True
    following = copy.pieces[number + 1 : number + 2]
    is_rolled = bool(following) and not following[0].is_gone and copy.broker not in TIERS
    return is_rolled and following[0].base == one.last + 1
