"""Runs a program with a time limit, and ends all processes that it started."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

# More output than this is not read, because a failing test may log without an end.
SAID_MAX: Final = 32 << 20  # bytes
_LOOK: Final = 1.0  # seconds between two checks whether the output is enough


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a program. `code` is None if it was killed at its time limit, and 0 if it was
    ended after `enough` output."""

    code: int | None
    output: str
    seconds: float

    @property
    def last_line(self) -> str:
        lines = self.output.strip().splitlines()
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
    """Runs a program. Its output on both streams goes to `log`, too. If it does not exit, it is
    ended once `enough` returns true for its output."""
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
        with suppress(BrokenPipeError):  # a few lines fit into the pipe
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
