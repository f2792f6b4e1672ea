"""How many Python functions does one small request call, and in how many files?

A server runs in this process, and its threads count the calls of the requests that
`bench.small_fetches` asks: one at a time on one connection, after others of the same kind.
Counts do not depend on how busy a machine is, so a test can hold them.

    python -m bench.request_calls [--only "Fetch v11"] [--names]

Not here: what a request costs (small_fetches.py)."""

import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from types import FrameType
from typing import Any, Final

import click

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.storage import LogDir
from downconvert.storage.names import Kind as FileKind
from downconvert.storage.names import file_name

from .draining import Address, Wire
from .segments import segment
from .small_requests import FETCHED, KINDS, Kind
from .small_servers import create_written

WARM_UP: Final = 50  # requests before they are counted
COUNT: Final = 100  # requests that are counted; what is done once a second counts for little
SERVING: Final = ("network-", "converting-")  # how the names of threads begin

Function = tuple[str, str]  # its file and its name


@dataclass(frozen=True, slots=True)
class Calls:
    """The mean of calls of one request, and the files that have the functions."""

    request: str
    calls: float
    files: int
    functions: Counter[Function]  # of all requests together
    count: int  # of the requests

    def line(self) -> str:
        return f"{self.request:16} {self.calls:7.1f} calls in {self.files} files"

    def lines(self) -> Iterator[str]:
        """How often one request calls each function."""
        for (file, name), count in self.functions.most_common():
            yield f"{count / self.count:9.2f}  {Path(file).name}: {name}"


class Counting:
    """Counts the calls of Python functions in the threads that serve, while it is on.

    To be made before these threads start. `threads`: how their names begin."""

    def __init__(self, threads: tuple[str, ...] = SERVING) -> None:
        self.is_on = False
        self.functions: Counter[Function] = Counter()
        self._threads = threads
        threading.setprofile(self._begin)

    def _begin(self, *_: Any) -> None:
        """Is called once in each thread that starts."""
        serves = threading.current_thread().name.startswith(self._threads)
        sys.setprofile(self._count if serves else None)

    def _count(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and self.is_on:
            code = frame.f_code
            self.functions[code.co_filename, code.co_qualname] += 1

    @contextmanager
    def on(self) -> Iterator[None]:
        """Counts during the block."""
        self.functions.clear()
        self.is_on = True
        yield
        self.is_on = False

    def calls(self, request: str, count: int) -> Calls:
        """The calls of so many requests."""
        functions = self.functions.copy()
        often = {file for (file, _), calls in functions.items() if calls >= count // 2}
        return Calls(request, functions.total() / count, len(often), functions, count)

    @staticmethod
    def stop() -> None:
        """Threads that start from now on are not counted."""
        threading.setprofile(None)


@contextmanager
def serving(counting: Counting) -> Iterator[dict[bool, Address]]:
    """Two servers in this process, by whether they may be written to."""
    with tempfile.TemporaryDirectory(prefix="request-calls-") as temporary:
        followed, own = Path(temporary) / "followed", Path(temporary) / "own"
        own.mkdir()
        for shape in FETCHED:
            directory = followed / f"{shape.name}-0"
            directory.mkdir(parents=True)
            copyfile(segment(shape), directory / file_name(0, FileKind.LOG))
        LogDir.open(followed, writable=True).close()  # which makes the indexes
        config = BrokerConfig(is_writable=True, group_initial_rebalance_delay_ms=0)
        with (
            LogDir.open(followed) as read,
            LogDir.open(own, writable=True) as written,
            Server(Broker(read)) as reading,
            Server(Broker(written, config)) as writing,
        ):
            counting.stop()
            create_written(writing.address)
            yield {False: reading.address, True: writing.address}


def counted(kind: Kind, address: Address, counting: Counting) -> Calls:
    """The calls of a kind of request."""
    with Wire(address) as wire:
        frame = kind.frame(wire)
        for _ in range(WARM_UP):
            wire.send(frame)
            wire.drain()
        with counting.on():
            for _ in range(COUNT):
                wire.send(frame)
                wire.drain()
    return counting.calls(kind.name, COUNT)


def measure(kinds: Sequence[Kind] = KINDS) -> Iterator[Calls]:
    """The calls of each kind of request."""
    counting = Counting()
    with serving(counting) as addresses:
        for kind in kinds:
            yield counted(kind, addresses[kind.writes], counting)


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--only", multiple=True, help="How names of requests begin; all, without any.")
@click.option("--names", is_flag=True, help="The functions, and how often each is called.")
def main(only: Sequence[str], *, names: bool) -> None:
    kinds = [kind for kind in KINDS if not only or kind.name.startswith(tuple(only))]
    for found in measure(kinds):
        click.echo(found.line())
        for line in found.lines() if names else ():
            click.echo(line)


if __name__ == "__main__":
    main()
