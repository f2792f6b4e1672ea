"""A client that costs less than any server: C, compiled when it is needed.

Not here: what is asked (small_requests.py), of whom (small_fetches.py)."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

from downconvert.protocol.error_codes import error_codes
from downconvert.protocol.schemas import ApiKey

from .draining import LENGTH, Wire, parsed

SOURCE: Final = Path(__file__).with_name("small_client.c")
START: Final = Struct(">hh")  # of a request: its API and version
SECONDS_MAX: Final = 300.0  # of a run


@dataclass(frozen=True, slots=True)
class Shape:
    """How many connections ask, and how many requests each of them has under way."""

    connections: int
    pipelined: int

    @property
    def name(self) -> str:
        return f"{self.connections}x{self.pipelined}"


@dataclass(frozen=True, slots=True)
class Ran:
    """Seconds by the wall clock, and of the client's own CPU."""

    seconds: float
    cpu_seconds: float


class SmallClient:
    """The compiled client, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self._program = directory / "small_client"
        self._request = directory / "request"
        compiler = ("cc", "-O2", "-o", str(self._program), str(SOURCE))
        subprocess.run(compiler, check=True)

    def run(self, port: int, shape: Shape, count: int, request: bytes, answer_size: int) -> Ran:
        """Asks `count` times. RuntimeError: an answer has another size than `answer_size`, which
        counts its length's four bytes, or the server went away."""
        self._request.write_bytes(request)
        numbers = (port, shape.connections, shape.pipelined, count, answer_size)
        done = subprocess.run(
            (str(self._program), *map(str, numbers), str(self._request)),
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS_MAX,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return Ran(*map(float, done.stdout.split()))


@contextmanager
def small_client() -> Iterator[SmallClient]:
    """The client, while it is needed. OSError, CalledProcessError: there is no compiler."""
    with tempfile.TemporaryDirectory(prefix="small-client-") as directory:
        yield SmallClient(Path(directory))


def size_of_answer(port: int, frame: bytes) -> int:
    """Bytes of the answer to a request, with its length. RuntimeError: it tells an error."""
    key, version = START.unpack_from(frame, LENGTH.size)
    with Wire(("127.0.0.1", port)) as wire:
        wire.send(frame)
        answer = wire.answer()
    errors = error_codes(ApiKey(key), parsed(ApiKey(key), version, answer))
    if errors:
        raise RuntimeError(f"{ApiKey(key).name} is answered with errors {errors}")
    return LENGTH.size + len(answer)
