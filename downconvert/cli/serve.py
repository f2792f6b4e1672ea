"""`downconvert serve`: serves a log directory as a broker, for clients of every age.

Not here: the broker and its server (broker), parsing the options' texts (serve_options.py)."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import click
from rich.table import Table

from downconvert.access.tokens import keep
from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.handlers.admin import PARTITIONS_MAX
from downconvert.broker.operating.following import Following
from downconvert.broker.operating.metrics_server import MetricsServer
from downconvert.broker.server import Server
from downconvert.serving.conversions import DEFAULT_RULES, RecodeRule
from downconvert.serving.limits import Limits
from downconvert.serving.system_errors import words_of
from downconvert.storage import Log, LogDir, LogInUseError
from records.units import format_size

from .config_file import ConfigFile, config_option, read
from .failure import CommandError, need_directory
from .logs import level_of, show_logs
from .open_files import allow_files
from .option_groups import grouped_command
from .serve_guard import GuardFiles
from .serve_options import TOPIC_CONFIG, grouped
from .server_options import ADDRESS, PORT_MAX, recode_option, shown_options
from .signals import AGAIN, Signals
from .terminal import name_the_backend, notices
from .values import SIZE, Seconds

DEFAULT_ADDRESS: Final = "127.0.0.1:9092"
TOPICS_SHOWN_MAX: Final = 20
LOGS: Final = ("downconvert.access", "downconvert.broker", "downconvert.storage")
OPTION_GROUPS: Final = {
    "Log directory": ("writable", "follow", "uncommitted"),
    "Topics": ("topic_configs", "auto_create_topics", "default_partitions"),
    "Listener": (
        *("listen", "advertise"),
        *("max_connections", "max_connections_per_address", "idle_timeout"),
    ),
    "Security": ("tls_cert", "tls_key", "sasl_users", "access"),
    "Conversion": ("recode", "converting_threads"),
    "Groups": ("offsets_partitions", "offsets_retention", "rebalance_delay"),
    "Retention and compaction": ("cleanup", "cleanup_interval", "cleaner_rate"),
    "Process": ("config", "check", "threads", "metrics_port", "verbose", "quiet", "as_json"),
}


@click.command(
    cls=grouped_command(OPTION_GROUPS),
    context_settings={"auto_envvar_prefix": "DOWNCONVERT_SERVE"},
)
@config_option()
@click.argument("directory", metavar="LOGDIR", type=click.Path(path_type=Path))
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=DEFAULT_ADDRESS,
    callback=ADDRESS,
    help="The address that clients connect to, where port 0 is any free port.",
)
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    callback=ADDRESS,
    help="The address that clients get in metadata.  [default: the one each connected to]",
)
@click.option(
    "--writable", is_flag=True, help="Let clients produce, create topics and change them."
)
@click.option(
    "--auto-create-topics",
    is_flag=True,
    help="With --writable: create requested topics, as producers of 0.8 and 0.9 expect.",
)
@click.option(
    "--default-partitions",
    metavar="N",
    type=click.IntRange(1, PARTITIONS_MAX),
    default=BrokerConfig().num_partitions,
    help="With --writable: partitions of topics that are created without a number.",
)
@click.option(
    "--follow", is_flag=True, help="Serve what LOGDIR's own broker commits while it runs."
)
@click.option(
    "--uncommitted",
    is_flag=True,
    help="With --follow: serve records beyond the high watermark, too.",
)
@recode_option
@click.option(
    "--topic-config",
    "topic_configs",
    metavar="TOPIC:KEY=VALUE",
    multiple=True,
    callback=TOPIC_CONFIG,
    help="Set a topic's configuration, such as events:message.downconversion.enable=false.",
)
@click.option(
    "--tls-cert",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Speak TLS with these certificates (PEM).",
)
@click.option(
    "--tls-key",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The key of the certificates.  [default: it is in --tls-cert]",
)
@click.option(
    "--sasl-users",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Accept only these users, by PLAIN or SCRAM (one line NAME:PASSWORD for each).",
)
@click.option(
    "--access",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Apply the rules of this TOML file to users, certificates and networks.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, PORT_MAX),
    help="Serve /metrics for Prometheus at this port of --listen's host.",
)
@click.option(
    "--offsets-partitions",
    metavar="N",
    type=click.IntRange(1, PARTITIONS_MAX),
    help="Partitions of __consumer_offsets, the same on all brokers of the cluster.  "
    "[default: those in LOGDIR; 50 or more if some are missing there]",
)
@click.option(
    "--offsets-retention",
    metavar="MINUTES",
    type=click.IntRange(1),
    default=BrokerConfig().offsets_retention_minutes,
    help="With --writable: time until offsets of groups without members expire.",
)
@click.option(
    "--rebalance-delay",
    metavar="SECONDS",
    type=Seconds(0, 3600),
    default=BrokerConfig().group_initial_rebalance_delay_ms / 1000,
    help="Time that the first member of a group waits for others.",
)
@click.option(
    "--cleanup/--no-cleanup",
    default=True,
    help="With --writable: topics' retention, segment.ms and compaction take effect.",
)
@click.option(
    "--cleanup-interval",
    metavar="SECONDS",
    type=Seconds(min=1),
    default=BrokerConfig().log_retention_check_interval_ms / 1000,
    help="Time between checks for segments to remove or compact.",
)
@click.option(
    "--cleaner-rate",
    metavar="SIZE",
    default=format_size(int(BrokerConfig().log_cleaner_io_max_bytes_per_second)),
    callback=SIZE,
    help="Bytes that compaction reads in a second.",
)
@click.option("--threads", type=click.IntRange(1, 64), default=1, help="Network threads.")
@click.option(
    "--converting-threads",
    type=click.IntRange(1, 64),
    default=2,
    help="Threads for connections that need conversions.",
)
@click.option(
    "--max-connections",
    type=click.IntRange(1),
    default=Limits().connections,
    help="Connections in total.",
)
@click.option(
    "--max-connections-per-address",
    type=click.IntRange(1),
    default=Limits().connections_per_address,
    help="Connections from one host.",
)
@click.option(
    "--idle-timeout",
    metavar="SECONDS",
    type=Seconds(min=0, min_open=True),
    default=Limits().idle,
    help="Time until an unused connection is closed.",
)
@shown_options
def serve(
    config: Path | None,
    directory: Path,
    listen: tuple[str, int],
    advertise: tuple[str, int] | None,
    writable: bool,
    auto_create_topics: bool,
    default_partitions: int,
    follow: bool,
    uncommitted: bool,
    recode: Sequence[RecodeRule],
    topic_configs: Sequence[tuple[str, str, str]],
    tls_cert: Path | None,
    tls_key: Path | None,
    sasl_users: Path | None,
    access: Path | None,
    metrics_port: int | None,
    offsets_partitions: int | None,
    offsets_retention: int,
    rebalance_delay: float,
    cleanup: bool,
    cleanup_interval: float,
    cleaner_rate: int,
    threads: int,
    converting_threads: int,
    max_connections: int,
    max_connections_per_address: int,
    idle_timeout: float,
    verbose: bool,
    quiet: bool,
    as_json: bool,
    check: bool,
) -> None:
    """Serve LOGDIR to Kafka clients of every version since 0.8.

    \b
    downconvert serve /var/kafka
    downconvert serve /var/kafka --listen 0.0.0.0:9092 --advertise logs.example.org:9092
    downconvert serve /var/kafka --follow --metrics-port 9100
    downconvert serve /tmp/new --writable
    downconvert serve /var/kafka --tls-cert server.pem --sasl-users users.txt
    downconvert serve /var/kafka --access access.toml
    downconvert serve --config serve.toml
    downconvert serve /var/kafka --recode lz4=gzip:magic0 --topic-config events:retention.ms=-1

    LOGDIR is a broker's log directory, or a copy of one. Its subdirectories are the partitions. Old
    consumers get the format that they read, converted while it is sent. Nothing is written without
    --writable. With it, the directory's own broker must be stopped.

    Ctrl-C or SIGTERM ends it after current responses are finished. SIGHUP reads users, rules and
    certificates again for later connections, and names the options of --config that need a restart.
    """
    need_directory(directory)
    if writable and follow:
        raise CommandError(
            "--follow is for a directory that another broker writes to: leave --writable out"
        )
    if auto_create_topics and not writable:
        raise CommandError("--auto-create-topics makes topics: say --writable, too")
    context = click.get_current_context()

    def read_again() -> ConfigFile:
        return ConfigFile() if config is None else read(context, config)

    files = GuardFiles(access, sasl_users, tls_cert, tls_key, read_again)
    guard, tls = files.read()
    if check:
        from .serve_check import show

        show(context, guard, as_json=as_json)
        return
    name_the_backend()
    context.call_on_close(
        show_logs(LOGS, as_json=as_json, level=level_of(verbose=verbose, quiet=quiet))
    )
    allow_files()
    broker_config = BrokerConfig(
        is_writable=writable,
        recode_rules=(*recode, *DEFAULT_RULES),
        topics=grouped(topic_configs),
        offsets_topic_num_partitions=offsets_partitions,
        offsets_retention_minutes=offsets_retention,
        group_initial_rebalance_delay_ms=round(rebalance_delay * 1000),
        auto_create_topics=auto_create_topics,
        num_partitions=default_partitions,
        cleans_up=cleanup,
        log_retention_check_interval_ms=int(cleanup_interval * 1000),
        log_cleaner_io_max_bytes_per_second=max(1, cleaner_rate),
    )
    limits = Limits(
        connections=max_connections,
        connections_per_address=max_connections_per_address,
        idle=idle_timeout,
    )
    with ExitStack() as stack:
        broker = Broker(stack.enter_context(_opened(directory, writable=writable)), broker_config)
        broker.guard = guard
        if guard.identities.tokens is not None:
            guard.identities.tokens.start()
        stack.callback(lambda: keep(broker.guard.identities.tokens, None))
        following = Following(broker, beyond_high_watermark=uncommitted) if follow else None
        if following is not None:
            following.refresh(0.0)
        server = Server(
            broker,
            listen,
            advertise=advertise,
            limits=limits,
            tls=tls,
            network_threads=threads,
            converting_threads=converting_threads,
            on_tick=None if following is None else following.refresh,
        )
        with _listening(*listen, "--listen"):
            stack.enter_context(server)
        ready: dict[str, Any] = {"ready": True, "host": server.address[0]}
        ready["port"] = server.address[1]
        if metrics_port is not None:
            with _listening(listen[0], metrics_port, "--metrics-port"):
                metrics = stack.enter_context(MetricsServer(server, listen[0], metrics_port))
            ready["metricsPort"] = metrics.address[1]
        signals = stack.enter_context(Signals())
        _announce(broker, ready, as_json=as_json)
        while signals.wait() == {AGAIN}:
            files.read_again(server)


def _opened(directory: Path, *, writable: bool) -> LogDir:
    try:
        return LogDir.open(directory, writable=writable)
    except LogInUseError as error:
        raise CommandError(
            f"{error}; to read what it writes, say --follow and leave --writable out"
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
