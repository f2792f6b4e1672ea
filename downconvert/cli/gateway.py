"""`downconvert gateway`: serves old clients in front of a cluster that no longer accepts their
requests.

Not here: the gateway (gateway), its configuration (gateway_configs.py), running it
(gateway_run.py), the report of old clients (gateway_report.py)."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .config_file import config_file, config_option
from .config_file import read as read_file
from .logs import level_of
from .option_groups import grouped_command
from .server_options import recode_option, shown_options
from .values import OutputFile, Seconds

if TYPE_CHECKING:
    from downconvert.gateway.config import GatewayConfig

SECONDS: Final = Seconds(min=0, min_open=True)
AT_START: Final = (
    "http",
    "workers",
    "history",
    "audit",
    "verbose",
    "quiet",
    "json",
)  # options that a file may set
OPTION_GROUPS: Final = {
    "Cluster": (
        *("bootstrap", "cluster_tls", "cluster_ca", "sasl", "username", "secret_file"),
        *("connect_timeout", "request_timeout"),
    ),
    "Listener": ("listen", "share_ports", "workers", "proxy_networks", "idle_timeout"),
    "Advertised addresses": ("advertise", "advertise_without_name", "server_names", "node_ports"),
    "TLS": ("tls_cert", "tls_key", "tls_min_version", "tls_ciphers"),
    "Access": (
        *("topics", "groups", "transactional_ids", "networks"),
        *("read_only", "deny_by_default"),
    ),
    "Conversion": ("observe", "recode", "spool_dir"),
    "Report of clients": ("report", "by", "html"),
    "Process": ("config", "check", "http", "history", "audit", "verbose", "quiet", "as_json"),
}


@click.command(
    cls=grouped_command(OPTION_GROUPS),
    context_settings={"auto_envvar_prefix": "DOWNCONVERT_GATEWAY"},
)
@config_option(*AT_START)
@click.option(
    "--bootstrap", metavar="HOST:PORT,…", help="Brokers that the gateway connects to first."
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="The address that clients connect to. [default: 127.0.0.1:9092]",
)
@click.option(
    "--advertise",
    metavar="HOST[:PORT]",
    help="The address that clients get for a broker, such as broker-{id}.example.com:{9100+id} "
    "(one port for all brokers needs --tls-cert, for SNI). "
    "[default: the address that the client connected to]",
)
@click.option(
    "--advertise-without-name",
    metavar="HOST[:PORT]",
    help="The address for clients that send no server name (SNI).",
)
@click.option(
    "--server-names",
    metavar="NAME,…",
    help="Accept only these server names besides those of brokers. [default: any]",
)
@click.option(
    "--node-port",
    "node_ports",
    metavar="ID=PORT",
    multiple=True,
    help="The port of a broker. [default: the listener's + 1 + ID]",
)
@click.option("--topics", metavar="PATTERN,…", help="Allow only these topics.")
@click.option("--groups", metavar="PATTERN,…", help="Allow only these groups.")
@click.option(
    "--transactional-ids", metavar="PATTERN,…", help="Allow only these transactional ids."
)
@click.option("--networks", metavar="CIDR,…", help="Allow only clients from these networks.")
@click.option(
    "--proxy-networks",
    metavar="CIDR,…",
    help="Load balancers, whose connections begin with a header of the PROXY protocol.",
)
@click.option("--read-only", is_flag=True, help="Refuse all requests that change something.")
@click.option(
    "--deny-by-default",
    is_flag=True,
    help="Deny what no list names, even without a list.",
)
@click.option(
    "--observe",
    is_flag=True,
    help="Pass everything through, and only count the clients that use old versions.",
)
@click.option("--tls-cert", metavar="FILE", help="The certificate of the listener.")
@click.option("--tls-key", metavar="FILE", help="The key of the certificate.")
@click.option(
    "--tls-min-version",
    metavar="VERSION",
    help="The oldest TLS that clients may speak: 1.0, 1.1, 1.2 or 1.3. [default: 1.2]",
)
@click.option(
    "--tls-ciphers",
    metavar="CIPHERS",
    help="Ciphers of TLS 1.2 and older, as OpenSSL writes them. [default: safe ones]",
)
@click.option("--cluster-tls", is_flag=True, help="Speak TLS to the cluster.")
@click.option(
    "--cluster-ca", metavar="FILE", help="The authority that signs the cluster's certificates."
)
@click.option(
    "--sasl",
    metavar="MECHANISM",
    help="How to authenticate to the cluster, with the secret in --secret-file or "
    "$DOWNCONVERT_SASL_SECRET.",
)
@click.option("--username", metavar="NAME", help="The user for --sasl.")
@click.option("--secret-file", metavar="FILE", help="The file with the secret for --sasl.")
@click.option(
    "--spool-dir",
    metavar="DIR",
    help="The directory where large responses wait. [default: the system's]",
)
@recode_option
@click.option(
    "--connect-timeout",
    metavar="SECONDS",
    type=SECONDS,
    help="Time until a broker is connected and has responded. [default: 10]",
)
@click.option(
    "--request-timeout",
    metavar="SECONDS",
    type=SECONDS,
    help="Time until a broker responds, beyond the request's own time. [default: 30]",
)
@click.option(
    "--idle-timeout",
    metavar="SECONDS",
    type=SECONDS,
    help="Time until an unused connection is closed. [default: 600]",
)
@click.option(
    "--share-ports",
    is_flag=True,
    help="Let other gateways of this cluster listen at the same ports.",
)
@click.option(
    "--http",
    metavar="HOST:PORT",
    help="Serve /healthz, /readyz, /metrics, /history and /clients at this address.",
)
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(1, 64),
    default=1,
    help="Processes that share the ports, one for each core.",
)
@click.option(
    "--history",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Keep the last times of old versions in this file, across restarts.",
)
@click.option(
    "--audit",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Append logins, refusals and changes by clients to this file, as JSON lines.",
)
@shown_options
@click.option(
    "--report",
    metavar="URL",
    multiple=True,
    help="Show the clients with old versions, from the --http of one or more gateways.",
)
@click.option(
    "--by",
    type=click.Choice(("principal", "rule", "prefix", "cluster", "topic")),
    help="With --report: group the clients, or list when each topic last needed the gateway "
    "(topic, without --html).",
)
@click.option(
    "--html",
    metavar="FILE",
    type=OutputFile(),
    help="With --report: write an HTML page.",
)
def gateway(
    config: Path | None,
    http: str | None,
    workers: int,
    verbose: bool,
    quiet: bool,
    as_json: bool,
    check: bool,
    history: Path | None,
    audit: Path | None,
    report: tuple[str, ...],
    by: str | None,
    html: Path | None,
    **flags: Any,
) -> None:
    """Stand in front of a Kafka cluster, and serve old and new clients.

    \b
    downconvert gateway --bootstrap kafka-1:9092 --listen 0.0.0.0:9092
    downconvert gateway --config gateway.toml --http 127.0.0.1:9100
    downconvert gateway --config gateway.toml --check
    downconvert gateway --report http://127.0.0.1:9100 --html old-clients.html

    Kafka 4 removed the request versions of clients older than 0.11. Through a gateway these clients
    continue to consume and produce, in groups too. All requests that the cluster understands pass
    through unchanged. Each broker gets its own port after the first one.

    SIGHUP reads the file again for later connections. SIGTERM lets current requests end."""
    if report:
        from .gateway_report import BY_TOPIC, show

        if by == BY_TOPIC and html is not None:
            raise click.UsageError("--by topic makes no page: use --json")
        show(report, html, by, as_json=as_json)
        return
    for option, value in (("--by", by), ("--html", html)):
        if value is not None:
            raise click.UsageError(f"{option} needs --report URL")
    from downconvert.gateway.config import parse_address

    from .gateway_check import show as show_meaning
    from .gateway_configs import configs_of, errors_of
    from .gateway_run import logs, run

    file = config_file()
    clusters = configs_of(file, flags)
    with errors_of(file, "http: "):
        pages = None if http is None else parse_address(http, 9100)
    if check:
        with errors_of(file):
            show_meaning(clusters, as_json=as_json)
        return
    context = click.get_current_context()

    def read_again() -> "tuple[dict[str, GatewayConfig], tuple[str, ...]]":
        """The current settings, and the options that have changed and need a restart."""
        later = file if config is None else read_file(context, config, AT_START)
        return configs_of(later, flags), file.differing(later)

    log = partial(logs, audit, as_json=as_json, level=level_of(verbose=verbose, quiet=quiet))
    run(clusters, read_again, log, pages, workers, history, as_json=as_json)
