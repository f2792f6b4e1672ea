"""How many Python functions does one small request call, and in how many files?

A server runs in this process, and its threads count the calls for the requests of
`bench.small_fetches`: one at a time on one connection, after others of the same kind. The calls of
a request begin with its arrival, and end when the server waits in its selector again. Some work is
done every few milliseconds, such as checking files for changes. On a busy machine, more requests
include such work. The figure is for a request without it, so a test can set a limit.

    python -m bench.request_calls [--only "Fetch v11"] [--names]

Not here: the CPU time of a request (small_fetches.py)."""

import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from threading import get_ident
from time import sleep
from types import FrameType
from typing import Any, Final

import click

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.storage import LogDir
from downconvert.storage.names import Kind as FileKind
from downconvert.storage.names import file_name

from .measuring.segments import segment
from .servers.draining import Address, Wire
from .servers.small_requests import FETCHED, KINDS, Kind, Need
from .servers.small_servers import create_written

UNTIL_IDLE: Final = 0.05  # seconds after which threads with an event loop wait in their selectors
WAITED: Final = 0.0001  # seconds between two looks at these threads
WARM_UP: Final = 50  # requests before they are counted
COUNT: Final = 100  # requests that are counted
FEWEST: Final = 0.05  # the share of requests with fewer calls than the reported one
SERVING: Final = ("network-", "converting-")  # the prefixes of threads' names
WAITS: Final = ("poll", "control")  # functions in C in which a thread waits: of epoll and kqueue
C_CALLS: Final = ("c_call", "c_return")
SERVED: Final = tuple(kind for kind in KINDS if kind.needs is not Need.CLUSTER)

Function = tuple[str, str]  # its file and its name


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of one request, by function."""

    request: str
    functions: Counter[Function]

    @property
    def calls(self) -> int:
        return self.functions.total()

    def line(self) -> str:
        files = {file for file, _ in self.functions}
        return f"{self.request:16} {self.calls:5} calls in {len(files)} files"

    def lines(self) -> Iterator[str]:
        """The number of calls of each function."""
        for (file, name), count in self.functions.most_common():
            yield f"{count:6}  {Path(file).name}: {name}"


class Counting:
    """Counts the calls of Python functions in the serving threads, while it is on.

    Create it before these threads start. `threads`: the prefixes of their names."""

    def __init__(self, threads: tuple[str, ...] = SERVING) -> None:
        self._is_on = False
        self._functions: Counter[Function] = Counter()
        self._is_waiting: dict[int, bool] = {}  # in its selector, by thread
        self._threads = threads
        threading.setprofile(self._begin)

    def _begin(self, *_: Any) -> None:
        """Called once in each thread that starts."""
        serves = threading.current_thread().name.startswith(self._threads)
        sys.setprofile(self._count if serves else None)

    def _count(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "call":
            if self._is_on:
                code = frame.f_code
                self._functions[code.co_filename, code.co_qualname] += 1
        elif event in C_CALLS and getattr(called, "__name__", "") in WAITS:
            self._is_waiting[get_ident()] = event == "c_call"

    def calls(self, request: str, ask: Callable[[], object], count: int = COUNT) -> Calls:
        """The calls of a request that is sent `count` times."""
        requests = []
        sleep(UNTIL_IDLE)
        loops = [thread for thread, waits in self._is_waiting.copy().items() if waits]
        self._is_on = True
        for _ in range(count):
            self._functions = Counter()
            ask()
            while not all(map(self._is_waiting.__getitem__, loops)):
                sleep(WAITED)
            requests.append(self._functions)
        self._is_on = False
        return Calls(request, sorted(requests, key=Counter.total)[int(FEWEST * count)])

    @staticmethod
    def stop() -> None:
        """Stops counting threads that start from now on."""
        threading.setprofile(None)


@contextmanager
def serving(counting: Counting) -> Iterator[dict[Need, Address]]:
    """Two servers in this process, by the need of requests that they meet."""
    with tempfile.TemporaryDirectory(prefix="request-calls-") as temporary:
        followed, own = Path(temporary) / "followed", Path(temporary) / "own"
        own.mkdir()
        for shape in FETCHED:
            directory = followed / f"{shape.name}-0"
            directory.mkdir(parents=True)
            copyfile(segment(shape), directory / file_name(0, FileKind.LOG))
        LogDir.open(followed, writable=True).close()  # recovery builds the indexes
        config = BrokerConfig(is_writable=True, group_initial_rebalance_delay_ms=0)
        with (
            LogDir.open(followed) as read,
            LogDir.open(own, writable=True) as written,
            Server(Broker(read)) as reading,
            Server(Broker(written, config)) as writing,
        ):
            counting.stop()
            create_written(writing.address)
            yield {Need.RECORDS: reading.address, Need.WRITABLE: writing.address}


def counted(kind: Kind, address: Address, counting: Counting) -> Calls:
    """The calls of a kind of request."""
    with Wire(address) as wire:
        frame = kind.frame(wire)

        def ask() -> None:
            wire.send(frame)
            wire.drain()

        for _ in range(WARM_UP):
            ask()
        return counting.calls(kind.name, ask)


def measure(kinds: Sequence[Kind] = SERVED) -> Iterator[Calls]:
    """The calls of each kind of request."""
    counting = Counting()
    with serving(counting) as addresses:
        for kind in kinds:
            yield counted(kind, addresses[kind.needs], counting)


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--only", multiple=True, help="How names of requests begin; all, without any.")
@click.option("--names", is_flag=True, help="The functions, and how often each is called.")
def main(only: Sequence[str], *, names: bool) -> None:
    kinds = [kind for kind in SERVED if not only or kind.name.startswith(tuple(only))]
    for found in measure(kinds):
        click.echo(found.line())
        for line in found.lines() if names else ():
            click.echo(line)


if __name__ == "__main__":
    main()
