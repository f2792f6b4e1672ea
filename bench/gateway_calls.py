"""How many Python functions does the gateway call for the large fetches of an old client?

And how often does its event loop poll, and hand work to a thread? A gateway and its cluster run in
this process. The gateway's threads count their calls. Counts hardly depend on other load on the
machine, so a test can limit them. A coroutine counts each time that it resumes.

    python -m bench.gateway calls [--only none-1000] [--names]

Not here: throughput (gateway_speed.py), small requests (request_calls.py)."""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from simulator import generate as write_segments
from tests.downconvert.gateway.serving import cluster, gateway

from .draining import Drain, Wire
from .request_calls import Calls, Counting
from .serving import FETCH_SIZE, SHAPES, Shape, produce

OLD: Final = 2  # a version of Fetch with v1 messages
SIZE: Final = 8  # MiB of records
ROUNDS: Final = 3
THREADS: Final = ("gateway", "conversion")  # the prefixes of the names of the gateway's threads
POLL: Final = "EpollSelector.select"
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


def per_fetch(found: Calls, fetches: int) -> dict[str, float]:
    """The calls of one fetch, and the number of polls and hand-overs among them."""
    by_name = Counter({name: count for (_, name), count in found.functions.items()})
    counts = {"calls": found.calls, "polls": by_name[POLL], "hand-overs": by_name[HAND_OVER]}
    return {part: count / fetches for part, count in counts.items()}


@click.command()
@click.option("--only", multiple=True, help="How shapes begin; all, without any.")
@click.option("--names", is_flag=True, help="The functions, and how often each is called.")
def calls(only: Sequence[str], *, names: bool) -> None:
    """Calls, polls and hand-overs of a large fetch of an old client."""
    shapes = [shape for shape in SHAPES if not only or shape.topic.startswith(tuple(only))]
    for found, fetches in measure(shapes):
        counts = per_fetch(found, fetches)
        summary = ", ".join(f"{count:.1f} {part}" for part, count in counts.items())
        click.echo(f"{found.request:12} {summary}")
        for line in found.lines() if names else ():
            click.echo(line)
