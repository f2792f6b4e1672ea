"""The command `downconvert`.

Not here: what the command does (app.py). This file must load where the command line's own
packages are missing."""

import sys
from typing import Final

EXTRA_NEEDED: Final = (
    'downconvert needs its command line extra: pip install "lazy-downconvert[simulator]"'
)
OF_THE_EXTRA: Final = ("click", "rich", "matplotlib")


def main() -> int:
    """Runs the command with the process's arguments; the exit code."""
    try:
        from .app import run

        return run(sys.argv[1:])
    except ImportError as error:
        if str(error.name).split(".")[0] in OF_THE_EXTRA:
            words = EXTRA_NEEDED
        elif error.name is None:  # records.backend: the kernel that was asked for is not there
            words = f"downconvert: {error}"
        else:
            raise
        print(words, file=sys.stderr)
        return 2
