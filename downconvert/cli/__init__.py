"""The command `downconvert`.

Not here: the command itself (app.py). This file must load even without the packages that the
command needs."""

import sys

from .extras import words_for


def main() -> int:
    """Runs the command with the process's arguments. Returns the exit code."""
    try:
        from .app import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules are loaded
        return 130
    except ImportError as error:
        if error.name is None:  # records.backend: the requested kernel is missing
            words: str | None = str(error)
        else:
            words = words_for(error.name)
        if words is None:
            raise
        print(f"downconvert: {words}", file=sys.stderr)
        return 2
