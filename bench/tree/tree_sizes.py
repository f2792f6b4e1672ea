"""Gives some batches a size that leads beyond their segment, so that each looks like the end of an
unfinished copy. The index still leads to the batches behind it.

Not here: other damage (tree_model.py, tree_damage.py, tree_offsets.py)."""

import random
from typing import Final

from records.formats import V2

from .tree_model import Tree

# Seeds from here on have such sizes. Earlier ones stay as they are: tests name them.
SIZED: Final = 10_600_000


def enlarge(tree: Tree) -> None:
    """Damages the sizes of some batches whose neighbours are sound. A cleaned copy has none,
    because its gaps explain more."""
    chance = random.Random(f"size {tree.seed}")
    for copy in tree.copies:
        for piece in copy.pieces:
            is_whole = piece.keep is None and not piece.is_gone and not piece.replaces
            if copy.cleaned or not is_whole or not piece.batches or chance.random() < 0.5:
                continue
            number = chance.randrange(len(piece.batches))
            near = {number - 1, number, number + 1}
            if near & set(piece.broken) or piece.batches[number].magic != V2:
                continue
            piece.broken[number] = "size"
            if not piece.is_found_after(number):
                del piece.broken[number]
