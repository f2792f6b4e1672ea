"""A client's way through the log: requests, and what they must be answered.

Not here: how that is found out (load_plan.py), asking over sockets (load_clients.py)."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import xxhash

LENGTH_SIZE: Final = 4  # of a frame


class Step(NamedTuple):
    """A request, and its answer. Sizes in bytes, with the lengths of frames."""

    request: bytes
    size: int
    digest: bytes  # of what is behind the answer's length
    records: int


# By the version of Fetch that a client sends, and the number of its partitions' share.
Walks = Mapping[tuple[int, int], Sequence[Step]]


def new_digest() -> xxhash.xxh3_64:
    """Tells answers apart, piece by piece."""
    return xxhash.xxh3_64()
