"""`downconvert serve` as a process of its own, and what it takes of the machine."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TICKS = 100  # a second: what /proc counts CPU time in


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that runs."""

    pid: int
    address: tuple[str, int]

    @property
    def memory(self) -> int:
        """Bytes that it has for itself (not of files)."""
        return self._status("RssAnon")

    @property
    def resident(self) -> int:
        """Bytes of memory, files' pages that it shares with others included."""
        return self._status("VmRSS")

    def _status(self, name: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("the system does not say how much memory a process has")

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def served(directory: Path, *options: str) -> Iterator[Serving]:
    """From when it is ready until it is stopped, which must go well."""
    arguments = ("serve", str(directory), "--listen", "127.0.0.1:0", "--json", *options)
    command = (sys.executable, "-m", "cli", *arguments)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            yield Serving(process.pid, (ready["host"], ready["port"]))
        finally:
            process.terminate()
            code = process.wait(30)
        if code:
            raise RuntimeError(f"the server ended with {code}")
