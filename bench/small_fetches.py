"""Measures the CPU cost of one small request, compared with Kafka.

A consumer at the tail of a log gets one batch, one request at a time. Kafka 3.9.1 and `downconvert
serve` have the same records and get the same requests: fetches of one batch of 16 KiB, unchanged
and converted, and clients' other requests. `downconvert gateway`, in front of Kafka 4.4.0, also
gets the old fetches. Its fetches that pass through are compared with those of Kroxylicious, a proxy
without filters.

A client in C sends the requests on eight connections: *8x16* has 16 requests in flight on each,
*8x1* has one. All servers are warmed up. A JVM gets each request 60,000 times first, because a half
warm one takes three times as long. Rounds of the servers alternate. The table has medians, and the
ratios of consecutive rounds. CPU is that of all threads of a server's process, from /proc.

    python -m bench.small_fetches [--only "Fetch v11"] [--rounds 5] [--json FILE] [--smoke]

Not here: fetches of a megabyte (serving.py)."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

import click

from .servers.draining import Wire
from .servers.small_client import Shape, SmallClient, size_of_response, small_client
from .servers.small_requests import KINDS, Kind
from .servers.small_servers import KAFKA, PROXY, Contender, contenders

SHAPES: Final = (Shape(8, 16), Shape(8, 1))
WARM_UP: Final = 60_000  # requests of a kind
COUNT: Final = 6_000  # requests of a round
SMOKE: Final = 64
BASELINES: Final = (KAFKA, PROXY)  # one of them gets each kind of request
MICRO: Final = 1e6


@dataclass(frozen=True, slots=True)
class Round:
    """Microseconds for one response: the server's CPU, wall clock, the client's CPU."""

    cpu: float
    wall: float
    client: float


@dataclass(frozen=True, slots=True)
class Row:
    """Results for one server, shape and kind of request: medians, and ratios to the kind's baseline
    (None for the baseline itself). `rate_ratio`: the ratio of responses per second."""

    server: str
    shape: str
    request: str
    cpu: float
    rate: float  # responses per second
    client: float
    cpu_ratio: float | None
    rate_ratio: float | None
    rounds: Sequence[Round]

    def line(self) -> str:
        ratios = "" if self.cpu_ratio is None else f"{self.cpu_ratio:5.2f} x {self.rate_ratio:5.2f}"
        return (
            f"{self.request:16} {self.shape:5} {self.server:14} {self.cpu:7.1f} us "
            f"{self.rate:9,.0f}/s  client {self.client:5.1f} us  {ratios}"
        )


class Client:
    """Sends one kind of request to a server."""

    def __init__(self, client: SmallClient, contender: Contender, kind: Kind) -> None:
        self.contender = contender
        self._client = client
        with Wire(("127.0.0.1", contender.port)) as wire:
            self._frame = kind.frame(wire)
        self._size = size_of_response(contender.port, self._frame)

    def round(self, shape: Shape, count: int) -> Round:
        """Sends `count` requests, and measures them."""
        before = self.contender.cpu_seconds
        ran = self._client.run(self.contender.port, shape, count, self._frame, self._size)
        cpu = self.contender.cpu_seconds - before
        return Round(*(MICRO * each / count for each in (cpu, ran.seconds, ran.cpu_seconds)))


def compared(
    client: SmallClient, servers: Sequence[Contender], kind: Kind, rounds: int, count: int
) -> Iterator[Row]:
    """The rows of one kind of request, for each shape and each server that gets it."""
    clients = [Client(client, one, kind) for one in servers if one.answers(kind)]
    for one in clients:
        one.round(SHAPES[0], one.contender.warm_up)
    for shape in SHAPES:
        done: list[list[Round]] = [[] for _ in clients]
        for _ in range(rounds):
            for one, own in zip(clients, done, strict=True):
                own.append(one.round(shape, count))
        baseline = next(
            (
                own
                for one, own in zip(clients, done, strict=True)
                if one.contender.name in BASELINES
            ),
            None,
        )
        for one, own in zip(clients, done, strict=True):
            yield _row(one.contender, shape, kind, own, None if own is baseline else baseline)


def _row(
    contender: Contender,
    shape: Shape,
    kind: Kind,
    rounds: list[Round],
    baseline: list[Round] | None,
) -> Row:
    pairs = [] if baseline is None else list(zip(rounds, baseline, strict=True))
    return Row(
        contender.name,
        shape.name,
        kind.name,
        median(one.cpu for one in rounds),
        MICRO / median(one.wall for one in rounds),
        median(one.client for one in rounds),
        median(ours.cpu / theirs.cpu for ours, theirs in pairs) if pairs else None,
        median(theirs.wall / ours.wall for ours, theirs in pairs) if pairs else None,
        rounds,
    )


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--only", multiple=True, help="How names of requests begin; all, without any.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--count", default=COUNT, show_default=True, help="Requests of a round.")
@click.option("--warm-up", default=WARM_UP, show_default=True, help="Requests of each kind.")
@click.option("--json", "found", type=click.Path(path_type=Path), help="Write the rows there.")
@click.option("--smoke", is_flag=True, help="Few requests: only that it runs.")
def main(
    only: Sequence[str], rounds: int, count: int, warm_up: int, found: Path | None, *, smoke: bool
) -> None:
    if smoke:
        rounds, count, warm_up = 1, SMOKE, SMOKE
    kinds = [kind for kind in KINDS if not only or kind.name.startswith(tuple(only))]
    click.echo(f"{rounds} rounds of {count:,} requests, after {warm_up:,}; ratios: CPU, rate")
    rows: list[Row] = []
    with contenders(warm_up) as servers, small_client() as client:
        for kind in kinds:
            for row in compared(client, servers, kind, rounds, count):
                rows.append(row)
                click.echo(row.line())
    if found is not None:
        found.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
