"""A program of others, for as long as it may take, with all that it started."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

# More than this of what a program says is not read: a failing test may log without an end.
SAID_MAX: Final = 32 << 20  # bytes
_LOOK: Final = 1.0  # seconds until it is looked again whether a program has said enough


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended. `code` None: it was killed at its time limit; 0, too, where it had said
    enough and went on."""

    code: int | None
    said: str
    seconds: float

    @property
    def last_line(self) -> str:
        lines = self.said.strip().splitlines()
        return lines[-1].strip() if lines else ""


def run(
    command: Sequence[str],
    seconds: float,
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: bytes = b"",
    enough: Callable[[str], bool] | None = None,
) -> Ended:
    """Runs a program; what it says on either stream goes to `log`, too. One that does not end by
    itself is ended once `enough` of what it said."""
    log.parent.mkdir(parents=True, exist_ok=True)
    began = monotonic()
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd=cwd,
            start_new_session=True,
        ) as process,
    ):
        code: int | None = None
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # a few lines: they fit into the pipe
            process.stdin.write(stdin)
            process.stdin.close()
        try:
            while code is None and (left := began + seconds - monotonic()) > 0:
                with suppress(subprocess.TimeoutExpired):
                    code = process.wait(min(left, _LOOK) if enough else left)
                if code is None and enough and enough(_read(log)):
                    code = 0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return Ended(code, _read(log), monotonic() - began)


def _read(log: Path) -> str:
    with log.open("rb") as written:
        return written.read(SAID_MAX).decode(errors="replace")
