"""`downconvert serve`: serves a log directory as a broker, for clients of every age.

Not here: running the broker (serve_run.py), the meaning of the options (serve_options.py)."""

from pathlib import Path
from typing import Any, Final

import click

from downconvert.broker import BrokerConfig
from downconvert.broker.handlers.admin import PARTITIONS_MAX
from downconvert.serving.limits import Limits
from records.units import format_size

from .config_file import ConfigFile, config_option, read
from .failure import CommandError, need_directory
from .option_groups import grouped_command
from .serve_guard import GuardFiles
from .serve_options import TOPIC_CONFIG
from .serve_run import run
from .server_options import ADDRESS, PORT_MAX, recode_option, shown_options
from .values import SIZE, Seconds

DEFAULT_ADDRESS: Final = "127.0.0.1:9092"
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
def serve(config: Path | None, directory: Path, check: bool, **options: Any) -> None:
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
    if options["writable"] and options["follow"]:
        raise CommandError(
            "--follow is for a directory that another broker writes to: leave --writable out"
        )
    if options["auto_create_topics"] and not options["writable"]:
        raise CommandError("--auto-create-topics creates topics: it needs --writable")
    context = click.get_current_context()

    def read_again() -> ConfigFile:
        return ConfigFile() if config is None else read(context, config)

    access, users = options["access"], options["sasl_users"]
    files = GuardFiles(access, users, options["tls_cert"], options["tls_key"], read_again)
    if check:
        from .serve_check import show

        show(context, files.read()[0], as_json=options["as_json"])
        return
    run(directory, files, options)
