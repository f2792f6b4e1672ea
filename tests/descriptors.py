"""The files that this process has open, and how it can open no more."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .ports import claims


@contextmanager
def no_more_files() -> Iterator[None]:
    """Lets this process open no more files meanwhile. Those that are open can be used."""
    free = os.dup(0)  # the lowest descriptor that is free
    os.close(free)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_files() -> set[str]:
    """The targets of this process's descriptors, without those that only claim a port."""
    found, claimed = set(), {str(descriptor) for descriptor in claims()}
    for path in Path("/dev/fd").iterdir():
        with suppress(OSError):  # that of the listing
            if path.name not in claimed:
                found.add(str(path.readlink()))
    return found
