"""Processes of applications: in a group of their own, with an end to their time, and dead
afterwards, also where the command that started them is killed."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests import kafka_server

LEASHED: Final = ("sh", str(kafka_server.HOME / "leashed.sh"))
STOP_SECONDS: Final = 5.0


@contextmanager
def running(
    command: Sequence[str],
    log: Path,
    *,
    out: Path | None = None,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process until the end of the block. It appends what it says to `log`, and what it prints
    to `out` where that is another file."""
    with (
        log.open("ab") as errors,
        (out or log).open("ab") as printed,
        subprocess.Popen(
            (*LEASHED, *command),
            stdin=subprocess.PIPE,
            stdout=printed,
            stderr=errors,
            cwd=directory or log.parent,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            _stop(process)


def finished(
    command: Sequence[str],
    log: Path,
    seconds: float,
    *,
    out: Path | None = None,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> int | None:
    """Its exit code once it has ended; None where its time was over, and it is dead."""
    with running(command, log, out=out, directory=directory, environment=environment) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


def _stop(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()  # the leash
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
