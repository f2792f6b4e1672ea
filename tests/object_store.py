"""An object store of Amazon's protocol on loopback, for as long as a test needs it: versitygw, a
program that serves directories as buckets.

    with running(directory) as store:
        (directory / "bucket" / "folder").mkdir(parents=True)     # is s3://bucket/folder

Go is needed, and a network the first time: its module proxy has the program's source, which is
built into `build/`."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .fetching import once, run
from .ports import LOOPBACK, free_ports, wait_for_server

MODULE: Final = "github.com/versity/versitygw/cmd/versitygw"
VERSION: Final = "v1.8.0"
BUILD: Final = Path(__file__).parents[1] / "build" / "versitygw"
START_SECONDS: Final = 60.0
USER, SECRET = "tester", "not-a-secret"
REQUIRED: Final = os.environ.get("REQUIRE_STORES", "") not in ("", "0")


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A store that runs: where it listens, and what it has been asked."""

    endpoint: str
    log: Path
    process: int

    @property
    def environment(self) -> dict[str, str]:
        """The store's settings in a client's environment."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": USER,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def requests(self) -> list[tuple[str, str]]:
        """The kind of each request so far, and the object that it was about."""
        found = []
        for line in self.log.read_text().splitlines():
            _, kind, rest = line.partition(" s3_")
            if kind:
                words = rest.split()
                found.append((words[0], words[1]))
        return found


def missing() -> bool:
    """Whether neither the program is here nor what would build it."""
    return not BUILD.exists() and shutil.which("go") is None


def prepare() -> Path:
    """The program; it is built if it is not here."""
    with once(BUILD) as new:
        if new:
            at = {"GOBIN": str(new)}
            run("go", "install", "-trimpath", f"{MODULE}@{VERSION}", environment=at)
    return BUILD / "versitygw"


@contextmanager
def running(directory: Path, log: Path) -> Iterator[ObjectStore]:
    """Serves the folders in a directory as buckets; `log`: where it writes what it was asked."""
    (port,) = free_ports(1)
    address = f"{LOOPBACK}:{port}"
    options = ("--port", address, "--access", USER, "--secret", SECRET, "--access-log", str(log))
    output = log.parent / "store.out"
    with output.open("wb") as text:
        process = subprocess.Popen(
            [prepare(), "--quiet", *options, "posix", directory], stdout=text, stderr=text
        )
    try:
        wait_for_server(port, process, output.read_text, START_SECONDS)
        yield ObjectStore(f"http://{address}", log, process.pid)
    finally:
        process.kill()
        process.wait()
