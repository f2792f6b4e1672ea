"""Which old clients read the same through a gateway, from a real Kafka 4, as directly from a
broker?

A broker of Kafka 4 has the topics of tests/clients. The gateway is a process of its own, started as
users start it, and every client reads through it.

    python -m bench.gateway clients --clients pypi,maven --json outcomes.jsonl"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import click

from tests import kafka_server
from tests.clients import brokers, run, topics
from tests.ports import free_ports

from .processes import Serving, started


def in_front(bootstrap: str, *options: str) -> AbstractContextManager[Serving]:
    """`downconvert gateway` in front of a cluster."""
    (first,) = free_ports(1)
    ports = ("--bootstrap", bootstrap, "--listen", "127.0.0.1:0", "--node-port", f"0={first}")
    return started("gateway", *ports, *options)


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--kafka", default=kafka_server.NEW, help="The cluster's version.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def clients(kafka: str, options: Sequence[str]) -> None:
    """Runs old clients through a gateway. OPTIONS: those of `python -m tests.clients.run`."""
    with tempfile.TemporaryDirectory(prefix="clients-") as temporary:
        directory = Path(temporary)
        written = list(topics.topics())
        topics.write(directory, written)
        with (
            brokers.kafka_with(written, directory, kafka) as cluster,
            in_front(cluster.bootstrap) as gateway,
        ):
            sys.exit(run.main(["--bootstrap", "{}:{}".format(*gateway.address), *options]))
