"""Fetches packages from registries once, by the registry's own client, into `build/`.

Several processes may want the same at once."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class InstallError(Exception):
    """The output of an installer."""


@contextmanager
def once(folder: Path) -> Iterator[Path | None]:
    """A new folder to fill, which gets this name in the end; None if it is there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            yield None
            return
        new = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        yield new
        new.rename(folder)


def run(
    *command: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """The output of an installer. InstallError: it failed; the error has its last lines."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = f"{done.stdout}{done.stderr}".strip().splitlines()
        raise InstallError(f"{' '.join(command[:3])}: " + "\n".join(lines[-15:]))
    return done.stdout
