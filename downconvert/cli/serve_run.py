"""Runs the broker of `downconvert serve`, until a signal ends it.

Not here: the options (serve.py), the broker and its server (broker), the files with users and rules
(serve_guard.py)."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import click
from rich.table import Table

from downconvert.access.tokens import keep
from downconvert.broker import Broker
from downconvert.broker.operating.following import Following
from downconvert.broker.operating.metrics_server import MetricsServer
from downconvert.broker.server import Server
from downconvert.serving.garbage import rare_collections
from downconvert.serving.system_errors import words_of
from downconvert.storage import Log, LogDir, LogInUseError
from records.units import format_size

from .failure import CommandError
from .logs import level_of, show_logs
from .open_files import allow_files
from .serve_guard import GuardFiles
from .serve_options import broker_config_of, limits_of
from .signals import AGAIN, Signals
from .terminal import name_the_backend, notices

TOPICS_SHOWN_MAX: Final = 20
LOGS: Final = ("downconvert.access", "downconvert.broker", "downconvert.storage")


def run(directory: Path, files: GuardFiles, options: Mapping[str, Any]) -> None:
    """Serves until SIGINT or SIGTERM. CommandError: a file cannot be used, another process writes
    to the directory, or a port cannot be bound."""
    guard, tls = files.read()
    name_the_backend()
    level = level_of(verbose=options["verbose"], quiet=options["quiet"])
    show_json = options["as_json"]
    click.get_current_context().call_on_close(show_logs(LOGS, as_json=show_json, level=level))
    allow_files()
    with ExitStack() as stack:
        stack.enter_context(rare_collections())
        logs = stack.enter_context(_opened(directory, writable=options["writable"]))
        broker = Broker(logs, broker_config_of(options))
        broker.guard = guard
        if guard.identities.tokens is not None:
            guard.identities.tokens.start()
        stack.callback(lambda: keep(broker.guard.identities.tokens, None))
        following = None
        if options["follow"]:
            following = Following(broker, beyond_high_watermark=options["uncommitted"])
            following.refresh(0.0)
        listen: tuple[str, int] = options["listen"]
        server = Server(
            broker,
            listen,
            advertise=options["advertise"],
            limits=limits_of(options),
            tls=tls,
            network_threads=options["threads"],
            converting_threads=options["converting_threads"],
            on_tick=None if following is None else following.refresh,
        )
        with _listening(*listen, "--listen"):
            stack.enter_context(server)
        ready: dict[str, Any] = {"ready": True, "host": server.address[0]}
        ready["port"] = server.address[1]
        metrics_port: int | None = options["metrics_port"]
        if metrics_port is not None:
            with _listening(listen[0], metrics_port, "--metrics-port"):
                metrics = stack.enter_context(MetricsServer(server, listen[0], metrics_port))
            ready["metricsPort"] = metrics.address[1]
        signals = stack.enter_context(Signals())
        _announce(broker, ready, as_json=show_json)
        while signals.wait() == {AGAIN}:
            files.read_again(server)


def _opened(directory: Path, *, writable: bool) -> LogDir:
    try:
        return LogDir.open(directory, writable=writable)
    except LogInUseError as error:
        raise CommandError(
            f"{error}; to read what it writes, use --follow and leave --writable out"
        ) from None


@contextmanager
def _listening(host: str, port: int, option: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CommandError(
            f"cannot listen at {host}:{port}: {words_of(error)}; choose another with {option}, "
            "or port 0 for any that is free"
        ) from None


def _announce(broker: Broker, ready: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(ready))
    else:
        _show_topics(broker)
        where = f"{ready['host']}:{ready['port']}"
        if "metricsPort" in ready:
            where += f", metrics are at http://{ready['host']}:{ready['metricsPort']}/metrics"
        click.echo(f"ready: clients connect to {where}; Ctrl-C ends it")
    sys.stdout.flush()


def _show_topics(broker: Broker) -> None:
    """Prints the topics, as many as fit a screen."""
    if not broker.topics:
        notices().print(
            "there are no topics in this directory: it has no partition, such as clicks-0",
            style="yellow",
        )
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
