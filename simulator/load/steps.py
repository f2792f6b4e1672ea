"""The requests with which a client reads its partitions from beginning to end (its scan), and the
expected responses."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import xxhash

LENGTH_SIZE: Final = 4  # of a frame


class Step(NamedTuple):
    """A request, and its expected response: frames with their length fields. `size`: of the
    response, in bytes."""

    request: bytes
    size: int
    digest: bytes  # of the response without its length field
    records: int


# The scans by the version of Fetch and the number of the share of partitions.
Scans = Mapping[tuple[int, int], Sequence[Step]]


def new_digest() -> xxhash.xxh3_64:
    """A digest that is updated piece by piece."""
    return xxhash.xxh3_64()
