"""How many files and sockets a server may have."""

import resource
from contextlib import suppress


def allow_files() -> None:
    """As many as the system lets this process have: each connection is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
