"""Which old clients read through a gateway, from a real Kafka 4, what they read from a broker?

A broker of Kafka 4 finds the topics of tests/clients in its log, the gateway is a process of its
own as a user starts it, and every client reads through it.

    python -m bench.gateway clients --clients pypi,maven --json outcomes.jsonl

Not here: clients, topics and what is right (tests/clients)."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from tests import kafka_server
from tests.clients import brokers, run, topics
from tests.downconvert.gateway.serving import free_ports

ROOT: Final = Path(__file__).parent.parent
STOP_SECONDS: Final = 20.0


@contextmanager
def in_front(bootstrap: str, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of `downconvert gateway` before a cluster, and its process."""
    (first,) = free_ports(1)
    command = ("-m", "downconvert", "gateway", "--bootstrap", bootstrap, "--listen", "127.0.0.1:0")
    with subprocess.Popen(
        (sys.executable, *command, "--node-port", f"0={first}", "--json", *options),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready, "the gateway did not start"
        address = json.loads(ready)
        try:
            yield f"{address['host']}:{address['port']}", process
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


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
            in_front(cluster.bootstrap) as (address, _),
        ):
            sys.exit(run.main(["--bootstrap", address, *options]))
