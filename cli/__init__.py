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
        from cli.app import run

        return run(sys.argv[1:])
    except ModuleNotFoundError as error:
        if str(error.name).split(".")[0] not in OF_THE_EXTRA:
            raise
        print(EXTRA_NEEDED, file=sys.stderr)
        return 2
