"""How many Python functions does the gateway call for a fetch, and for a client that connects?

How many turns does its event loop take for a large fetch of an old client, and how often does it
hand work to a thread? A gateway and its cluster run in this process. The gateway's threads count
their calls. Each resumption of a coroutine is a call. Counts hardly depend on other load on the
machine, so a test can limit them.

    python -m bench.gateway calls [--only none-1000] [--only Fetch] [--names]

Not here: throughput (gateway_speed.py), small requests to a server (request_calls.py)."""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import sleep
from typing import Final

import click

from bench.measuring.segments import segment
from bench.request_calls import Calls, Counting, counted
from bench.serving import FETCH_SIZE, SHAPES, Shape, produce
from downconvert.protocol.schemas import ApiKey, Message
from simulator import generate as write_segments
from tests.downconvert.gateway.serving import cluster, gateway

from .draining import Address, Drain, Wire, request
from .small_requests import FETCHED, KINDS, OLD, PASSED

SIZE: Final = 8  # MiB of records
ROUNDS: Final = 3
THREADS: Final = ("gateway", "conversion")  # the prefixes of the names of the gateway's threads
FETCHES: Final = (f"Fetch v{OLD} ", f"Fetch v{PASSED} ")  # how names of small requests begin
SMALL: Final = tuple(kind for kind in KINDS if kind.name.startswith(FETCHES))
CLIENT: Final = "a client"  # it connects, asks for versions, and leaves
CLIENTS: Final = 50
TURN: Final = "BaseEventLoop._run_once"
HAND_OVER: Final = "_Job.__init__"


def measure(shapes: Sequence[Shape] = SHAPES) -> Iterator[tuple[Calls, int]]:
    """The calls to read SIZE MiB of each shape, and the number of fetches for that."""
    counting = Counting(THREADS)
    with tempfile.TemporaryDirectory(prefix="gateway-calls-") as temporary:
        (log := Path(temporary) / "log").mkdir()
        with (
            cluster(log, *(shape.topic for shape in shapes)) as (_, port),
            gateway(port) as running,
        ):
            for shape in shapes:
                made = write_segments(shape.workload(SIZE), Path(temporary) / shape.topic)
                produce(port, shape.topic, made)
                with Wire(running.address) as wire:
                    drain = Drain(wire, OLD, shape.topic, FETCH_SIZE)
                    drain.once()
                    found = counting.calls(shape.topic, drain.once, ROUNDS)
                yield found, len(drain.steps)


def measure_small() -> Iterator[Calls]:
    """The calls of each small fetch, and of a client that connects, asks for versions and
    leaves."""
    counting = Counting(THREADS)
    with tempfile.TemporaryDirectory(prefix="gateway-calls-") as temporary:
        (log := Path(temporary) / "log").mkdir()
        with (
            cluster(log, *(shape.name for shape in FETCHED)) as (_, port),
            gateway(port) as running,
        ):
            for shape in FETCHED:
                produce(port, shape.name, [segment(shape)])
            for kind in SMALL:
                yield counted(kind, running.address, counting)

            def connect() -> None:
                _ask_and_leave(running.address)
                while running.places:
                    sleep(0.001)

            connect()
            yield counting.calls(CLIENT, connect, CLIENTS)


def _ask_and_leave(address: Address) -> None:
    with Wire(address) as wire:
        wire.send(request(ApiKey.ApiVersions, 0, Message()))
        wire.drain()


def per_fetch(found: Calls, fetches: int) -> dict[str, float]:
    """The calls of one fetch, and the numbers of the event loop's turns and of hand-overs."""
    by_name = Counter({name: count for (_, name), count in found.functions.items()})
    counts = {"calls": found.calls, "turns": by_name[TURN], "hand-overs": by_name[HAND_OVER]}
    return {part: count / fetches for part, count in counts.items()}


@click.command()
@click.option("--only", multiple=True, help="How shapes begin; all, without any.")
@click.option("--names", is_flag=True, help="The functions, and how often each is called.")
def calls(only: Sequence[str], *, names: bool) -> None:
    """Calls of fetches and of a new client; turns and hand-overs of a large fetch."""
    shapes = [shape for shape in SHAPES if not only or shape.topic.startswith(tuple(only))]
    for found, fetches in measure(shapes):
        counts = per_fetch(found, fetches)
        summary = ", ".join(f"{count:.1f} {part}" for part, count in counts.items())
        click.echo(f"{found.request:12} {summary}")
        for line in found.lines() if names else ():
            click.echo(line)
    for found in measure_small():
        if not only or found.request.startswith(tuple(only)):
            click.echo(found.line())
            for line in found.lines() if names else ():
                click.echo(line)
