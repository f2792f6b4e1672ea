"""`downconvert serve`: a log directory as a broker, for clients of every age.

Not here: the broker and its server (broker), what the options' texts mean (serve_options.py)."""

import json
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

import click
from rich.table import Table

from broker import Broker, BrokerConfig
from broker.conversions import DEFAULT_RULES
from broker.limits import Limits
from broker.server import Server
from simulator.units import format_size
from storage import Log, LogDir

from .failure import CommandError
from .serve_options import ADDRESS, RECODE, TOPIC_CONFIG, grouped
from .terminal import name_the_backend, notices

DEFAULT_ADDRESS = "127.0.0.1:9092"
TOPICS_SHOWN_MAX = 20


@click.command(short_help="Be the broker of a log directory.")
@click.argument("directory", metavar="LOGDIR", type=click.Path(path_type=Path))
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=DEFAULT_ADDRESS,
    callback=ADDRESS,
    help="Where clients connect; port 0: any that is free.",
)
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    callback=ADDRESS,
    help="What clients are told to connect to.  [default: where each connected to]",
)
@click.option("--writable", is_flag=True, help="Let clients produce, and change topics.")
@click.option(
    "--recode",
    metavar="RULE",
    multiple=True,
    callback=RECODE,
    help="Another codec for old clients: lz4=gzip:magic0, or topic=logs-*,client=sarama*,lz4=none.",
)
@click.option(
    "--topic-config",
    "topic_configs",
    metavar="TOPIC:KEY=VALUE",
    multiple=True,
    callback=TOPIC_CONFIG,
    help="A topic's setting, such as events:message.downconversion.enable=false.",
)
@click.option("--threads", type=click.IntRange(1, 64), default=2, help="Network threads.")
@click.option(
    "--max-connections", type=click.IntRange(1), default=Limits().connections, help="In total."
)
@click.option(
    "--max-connections-per-address",
    type=click.IntRange(1),
    default=Limits().connections_per_address,
    help="From one host.",
)
@click.option("--json", "as_json", is_flag=True, help="The ready line as JSON, and nothing else.")
def serve(
    directory: Path,
    listen: tuple[str, int],
    advertise: tuple[str, int] | None,
    writable: bool,
    recode: Sequence[Any],
    topic_configs: Sequence[tuple[str, str, str]],
    threads: int,
    max_connections: int,
    max_connections_per_address: int,
    as_json: bool,
) -> None:
    """Be the broker of LOGDIR, for consumers from Kafka 0.8 to today's.

    LOGDIR is a broker's log directory, or a copy of one; its partitions are the directories in it.
    Old consumers get the format that they read, converted while it is sent. Nothing is written
    unless you say --writable; then the directory's own broker must be stopped.

    \b
    downconvert serve /var/kafka
    downconvert serve /var/kafka --listen 0.0.0.0:9092 --advertise logs.example.org:9092
    downconvert serve /tmp/new --writable
    downconvert serve /var/kafka --recode lz4=gzip:magic0 --topic-config events:retention.ms=-1

    Ctrl-C or SIGTERM ends it; answers under way are finished first.
    """
    if not directory.is_dir():
        raise CommandError(
            f"{directory}: is not a directory; give a broker's log.dirs, or a copy of it"
        )
    name_the_backend()
    _log()
    config = BrokerConfig(
        is_writable=writable,
        recode_rules=(*recode, *DEFAULT_RULES),
        topics=grouped(topic_configs),
        group_initial_rebalance_delay_ms=0,  # there are few clients, and somebody waits
    )
    limits = Limits(
        connections=max_connections, connections_per_address=max_connections_per_address
    )
    stop = Event()
    with ExitStack() as stack:
        log_dir = stack.enter_context(LogDir.open(directory, writable=writable))
        broker = Broker(log_dir, config)
        server = Server(broker, listen, advertise=advertise, limits=limits, network_threads=threads)
        try:
            stack.enter_context(server)
        except OSError as error:
            raise CommandError(
                f"cannot listen at {listen[0]}:{listen[1]}: {error.strerror}; choose another "
                "address with --listen, or port 0 for any"
            ) from None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        host, port = server.address
        if as_json:
            click.echo(json.dumps({"ready": True, "host": host, "port": port}))
        else:
            _show_topics(broker)
            click.echo(f"ready: clients connect to {host}:{port}; Ctrl-C ends it")
        sys.stdout.flush()
        stop.wait()


def _show_topics(broker: Broker) -> None:
    """What there is, as far as it fits a screen."""
    if not broker.topics:
        notices().print("there are no topics in this directory", style="yellow")
        return
    table = Table("topic", "partitions", "records up to", "bytes", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    topics = list(broker.topics.values())
    for topic in topics[:TOPICS_SHOWN_MAX]:
        partitions = topic.partitions.values()
        table.add_row(
            topic.name,
            f"{len(partitions):,}",
            f"{sum(partition.high_watermark for partition in partitions):,}",
            format_size(sum(_size(partition.log) for partition in partitions)),
        )
    notices().print(table)
    if len(topics) > TOPICS_SHOWN_MAX:
        notices().print(f"and {len(topics) - TOPICS_SHOWN_MAX:,} more topics")


def _size(log: Log) -> int:
    """Bytes."""
    return sum(log.end_of(segment) for segment in log.segments)


def _log() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log = logging.getLogger("broker")
    log.handlers[:] = [handler]
    log.propagate = False
