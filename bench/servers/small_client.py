"""A client in C that uses less CPU than any server. It is compiled when it is needed.

Not here: the requests (small_requests.py), the servers (small_servers.py), measuring
(small_fetches.py)."""

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
START: Final = Struct(">hh")  # a request's API key and version
SECONDS_MAX: Final = 300.0  # of a run


@dataclass(frozen=True, slots=True)
class Shape:
    """The number of connections, and of requests in flight on each."""

    connections: int
    pipelined: int

    @property
    def name(self) -> str:
        return f"{self.connections}x{self.pipelined}"


@dataclass(frozen=True, slots=True)
class Ran:
    """A run's wall-clock seconds, and the client's own CPU seconds."""

    seconds: float
    cpu_seconds: float


class SmallClient:
    """The compiled client, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self._program = directory / "small_client"
        self._request = directory / "request"
        compiler = ("cc", "-O2", "-o", str(self._program), str(SOURCE))
        subprocess.run(compiler, check=True)

    def run(self, port: int, shape: Shape, count: int, request: bytes, response_size: int) -> Ran:
        """Sends `count` requests. `response_size`: bytes of each response, including the four bytes
        of its length. RuntimeError: a response has another size, or the server closed the
        connection."""
        self._request.write_bytes(request)
        numbers = (port, shape.connections, shape.pipelined, count, response_size)
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
    """Compiles the client, and removes it after the block. OSError, CalledProcessError: there is no
    compiler."""
    with tempfile.TemporaryDirectory(prefix="small-client-") as directory:
        yield SmallClient(Path(directory))


def size_of_response(port: int, frame: bytes) -> int:
    """The bytes of the response to a request, including its length. RuntimeError: it has an error
    code."""
    key, version = START.unpack_from(frame, LENGTH.size)
    with Wire(("127.0.0.1", port)) as wire:
        wire.send(frame)
        response = wire.response()
    errors = error_codes(ApiKey(key), parsed(ApiKey(key), version, response))
    if errors:
        raise RuntimeError(f"{ApiKey(key).name} is answered with errors {errors}")
    return LENGTH.size + len(response)
