"""Small topics and simulations over TCP, for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from pathlib import Path
from threading import Thread
from typing import Final

from downconvert.broker import Broker
from downconvert.broker.server import Server
from downconvert.storage import LogDir
from records.units import KiB
from simulator import Workload
from simulator.children import Parent
from simulator.load.clients import Clients, ClientSpec, RunStats
from simulator.load.options import Group, LoadOptions
from simulator.load.plan import config_of
from simulator.load.topic import make_topic

SMALL: Final = LoadOptions(
    clients=(Group("0.8", 2), Group("0.10", 2), Group("3.x", 2)),
    workload=Workload(size=512 * KiB),
    partitions=6,
    max_bytes=32 * KiB,
    pause=0.01,
    seconds=0.1,
    rounds=1,
)


def topic(directory: Path, options: LoadOptions) -> Path:
    make_topic(directory, options.workload, options.partitions)
    return directory


@contextmanager
def serving(directory: Path, options: LoadOptions) -> Iterator[tuple[str, int]]:
    """The address of a broker of that directory, in this process."""
    with LogDir.open(directory) as log_dir, Server(Broker(log_dir, config_of(options))) as server:
        yield server.address


def measured(address: tuple[str, int], specs: list[ClientSpec], seconds: float) -> RunStats:
    """The measurements of clients that run until they have had enough."""
    ours, theirs = Pipe()
    results: list[RunStats] = []
    clients = Clients(address, specs)
    thread = Thread(target=lambda: results.append(clients.run(Parent(theirs), seconds)))
    thread.start()
    assert ours.poll(20), "the clients have not had enough"
    ours.send("end")
    thread.join()
    ours.close()
    theirs.close()
    return results[0]
