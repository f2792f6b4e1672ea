"""`downconvert serve` and `downconvert gateway` as processes of their own, and their use of the
machine, from /proc."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Final
from urllib.request import urlopen

from records.units import KiB

ROOT: Final = Path(__file__).parents[2]
TICKS: Final = os.sysconf("SC_CLK_TCK")  # a second
STOP_SECONDS: Final = 30.0
SETTLED: Final = 0.5  # seconds without a change
SAME_WITHIN: Final = 64 * KiB
PATIENCE: Final = 60.0  # seconds


def status(field: str, process: int | str = "self") -> int:
    """The bytes in a field of /proc/PROCESS/status. RuntimeError: it is missing."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * KiB
    raise RuntimeError(f"the system does not say {field} of a process")


@dataclass(frozen=True, slots=True)
class Serving:
    """A running server, and its address."""

    pid: int
    address: tuple[str, int]
    metrics_port: int | None = None

    @property
    def memory(self) -> int:
        """Bytes of memory that belong only to the process, not to files."""
        return status("RssAnon", self.pid)

    @property
    def resident(self) -> int:
        """Bytes of memory, including pages of files that it shares with others."""
        return status("VmRSS", self.pid)

    def counted(self, name: str) -> float:
        """The value of this name in /metrics, summed over all its series."""
        url = f"http://{self.address[0]}:{self.metrics_port}/metrics"
        with urlopen(url, timeout=PATIENCE) as page:
            lines = page.read().decode().splitlines()
        series = [line for line in lines if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(float(line.rpartition(" ")[2]) for line in series)

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def started(*arguments: str) -> Iterator[Serving]:
    """A server with this command line, from when it is ready until it is stopped. RuntimeError: it
    did not start, or did not end properly."""
    command = (sys.executable, "-m", "downconvert", *arguments, "--json", "--quiet")
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            assert process.stdout is not None
            lines = map(json.loads, process.stdout)
            address = next((line for line in lines if line["ready"]), None)
            if address is None:
                raise RuntimeError("the server did not start")
            where = (address["host"], address["port"])
            pages = address.get("metricsPort", address.get("httpPort"))
            yield Serving(process.pid, where, pages)
        finally:
            process.terminate()
            try:
                code = process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        if code:
            raise RuntimeError(f"the server ended with {code}")


def served(directory: Path, *options: str) -> AbstractContextManager[Serving]:
    """Our broker, on a free port."""
    return started("serve", str(directory), "--listen", "127.0.0.1:0", *options)


def settled(size: Callable[[], int], seconds: float = SETTLED) -> int:
    """The value of a size once it has stayed the same for so long."""
    give_up = monotonic() + PATIENCE
    before, since = size(), monotonic()
    while monotonic() - since < seconds and monotonic() < give_up:
        sleep(SETTLED / 10)
        now = size()
        if abs(now - before) > SAME_WITHIN:
            before, since = now, monotonic()
    return size()
