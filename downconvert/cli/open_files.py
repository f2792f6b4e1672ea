"""The limit of a server's open files and sockets."""

import resource
from contextlib import suppress


def allow_files() -> None:
    """Raises the limit as far as the system allows, because each connection needs a file."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
