"""How often a server's process collects all its garbage: objects that refer to each other.

A collection holds Python's lock, and all clients wait. A full one takes tens of milliseconds for
each 100,000 objects. By default, a request with as many partitions causes nine of them, though none
of its objects refer to each other. Young objects are collected as often as by default, because a
few of them may hold much memory."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# Collections of the middle generation for each full one, ten times the default: one for 700,000 new
# objects.
FULL_EVERY: Final = 100


@contextmanager
def rare_collections() -> Iterator[None]:
    """Full collections are rare during the block, in the whole process. So it is for commands, and
    not for servers that run in the process of another program."""
    before = gc.get_threshold()
    gc.set_threshold(*before[:2], FULL_EVERY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
