"""How often a server's process collects garbage: objects that refer to each other.

A collection holds Python's lock, and all clients wait. A full one takes tens of milliseconds for
each 100,000 objects. By default, a request with as many partitions causes nine of them, though none
of its objects refer to each other."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# New objects until the youngest are collected; 700 by default. Collecting so many takes a
# millisecond, and few of them stay.
NEW_MAX: Final = 20_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collections are rare during the block, in the whole process. So it is for commands, and not
    for servers that run in the process of another program."""
    before = gc.get_threshold()
    gc.set_threshold(NEW_MAX, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
