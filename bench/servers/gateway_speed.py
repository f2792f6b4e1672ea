"""What throughput and latency does a consumer have through a gateway?

The same records are on a Kafka 3.9 broker, which converts for old clients, and on a Kafka 4.4
broker with the gateway in front. After a warm-up, one client, which only drains, fetches from each
in turn. It sends Fetch v1 and v2 (converted) to Kafka 3.9 and to the gateway. It sends Fetch v12
(unchanged) and a small request to Kafka 4.4, directly and through the gateway. Rounds of one run
are compared in pairs, because machines are noisy.

    python -m bench.gateway speed [--size 64] [--rounds 7] [--relay]

With `--relay`, Fetch v12 also goes through a relay that only splices (splice_relay.py). No gateway
can be faster on this machine, which client, broker and relay share."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import click

from bench.contenders.splice_relay import relayed
from bench.serving import FETCH_SIZE, FULL_SPEED, SHAPES, Shape, produce
from downconvert.protocol.schemas import ApiKey, Message
from simulator import generate as write_segments
from tests import kafka_server

from .draining import Address, Drained, Wire, by_turns, paired, request
from .gateway_clients import in_front

CONVERTED, AS_IT_IS = (1, 2), 12  # versions of Fetch
WARM_UP: Final = 3
REQUESTS: Final = 500
HOST: Final = "127.0.0.1"


@contextmanager
def all_three(size: int) -> Iterator[tuple[Address, Address, Address]]:
    """Kafka 3.9, Kafka 4.4, and the gateway in front of that, with the same records."""
    with (
        tempfile.TemporaryDirectory(prefix="speed-") as directory,
        kafka_server.running(kafka_server.OLD, jvm_options=FULL_SPEED) as old,
        kafka_server.running(kafka_server.NEW, jvm_options=FULL_SPEED) as new,
        in_front(new.bootstrap) as gateway,
    ):
        for shape in SHAPES:
            segments = write_segments(shape.workload(size), Path(directory) / shape.topic)
            for kafka in (old, new):
                kafka.create_topic(shape.topic)
                produce(kafka.ports[0], shape.topic, segments)
        yield (HOST, old.ports[0]), (HOST, new.ports[0]), gateway.address


def say(
    shape: Shape,
    version: int,
    direct: list[Drained],
    through: list[Drained],
    what: str = "gateway",
) -> None:
    def records(rounds: list[Drained]) -> float:
        return median(one.records_per_second for one in rounds) / 1e6

    ratio = paired(through, direct)
    click.echo(
        f"{shape.topic:10} Fetch v{version:<3} direct {records(direct):6.2f} M records/s   "
        f"{what:7} {records(through):6.2f} M records/s   {ratio:5.2f}x"
    )


def latencies(direct: Address, through: Address) -> tuple[float, float]:
    """Medians in milliseconds of a request that the cluster answers from memory, both ways in
    turns."""
    heartbeat = request(
        ApiKey.Heartbeat,
        3,
        Message(group_id="none", generation_id=1, member_id="nobody", group_instance_id=None),
    )
    with Wire(direct) as first, Wire(through) as second:
        ask: list[Callable[[], object]] = []
        for wire in (first, second):
            ask.append(lambda wire=wire: (wire.send(heartbeat), wire.response()))  # type: ignore[misc]
        times: list[list[float]] = [[], []]
        for number in range(REQUESTS):
            for which in (0, 1):
                started = perf_counter()
                ask[which]()
                if number >= REQUESTS // 10:
                    times[which].append(perf_counter() - started)
    return median(times[0]) * 1000, median(times[1]) * 1000


@click.command()
@click.option("--size", default=64, help="MiB of each kind of records.")
@click.option("--rounds", default=7)
@click.option("--relay", is_flag=True, help="Measure a relay that only splices, too.")
def speed(size: int, rounds: int, relay: bool) -> None:
    """Measures the throughput of old and new clients through the gateway."""

    def drained(
        servers: tuple[Address, Address], shape: Shape, version: int
    ) -> tuple[list[Drained], list[Drained]]:
        return by_turns(servers, version, shape.topic, FETCH_SIZE, WARM_UP, rounds)

    with all_three(size) as (old, new, through):
        for version in CONVERTED:
            for shape in SHAPES:
                say(shape, version, *drained((old, through), shape, version))
        for shape in SHAPES:
            say(shape, AS_IT_IS, *drained((new, through), shape, AS_IT_IS))
        if relay:
            with relayed(new) as through_relay:
                for shape in SHAPES:
                    found = drained((new, through_relay), shape, AS_IT_IS)
                    say(shape, AS_IT_IS, *found, what="relay")
        direct, by_gateway = latencies(new, through)
        click.echo(
            f"small request, p50: direct {direct:.2f} ms, gateway {by_gateway:.2f} ms, "
            f"added {by_gateway - direct:.2f} ms"
        )
