"""`downconvert gateway`: serves old clients in front of a cluster that no longer accepts their
requests.

Not here: the gateway (gateway), the report of clients of old versions (gateway_report.py)."""

import json
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Final

import click

from records.backend import NAME, REFERENCE
from records.logged import log_of

from .config_file import ConfigFile, config_file, config_option
from .config_file import read as read_file
from .failure import CommandError
from .gateway_flags import merged, settings_of
from .logs import keep_audit, level_of, show_logs
from .open_files import allow_files
from .server_options import recode_option, shown_options
from .terminal import REFERENCE_NOTICE
from .values import OutputFile

LOG: Final = log_of("downconvert.gateway")
LOGS: Final = ("downconvert.access", "downconvert.gateway")
SECONDS: Final = click.FloatRange(min=0, min_open=True)
LOOK_SECONDS: Final = 0.1  # between two checks whether the cluster has answered
AT_START: Final = (
    "http",
    "workers",
    "history",
    "audit",
    "verbose",
    "quiet",
    "json",
)  # options that a file may set
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command(context_settings={"auto_envvar_prefix": "DOWNCONVERT_GATEWAY"})
@config_option(*AT_START)
@click.option("--bootstrap", metavar="HOST:PORT,…", help="Brokers of the cluster to begin with.")
@click.option(
    "--listen", metavar="HOST:PORT", help="Where clients connect. [default: 127.0.0.1:9092]"
)
@click.option(
    "--advertise",
    metavar="HOST[:PORT]",
    help="How clients reach brokers here; {id} is a broker's: broker-{id}.example.com:{9100+id}. "
    "With one port for all and --tls-cert, by the server name (SNI). [default: as they reached us]",
)
@click.option(
    "--advertise-without-name",
    metavar="HOST[:PORT]",
    help="To clients that send no server name, where --advertise has one port for all.",
)
@click.option(
    "--server-names",
    metavar="NAME,…",
    help="Accept only these names besides those of brokers. [default: any]",
)
@click.option(
    "--node-port",
    "node_ports",
    metavar="ID=PORT",
    multiple=True,
    help="The port of a broker. [default: the listener's + 1 + ID]",
)
@click.option("--topics", metavar="PATTERN,…", help="Only these topics.")
@click.option("--groups", metavar="PATTERN,…", help="Only these groups.")
@click.option("--transactional-ids", metavar="PATTERN,…", help="Only these transactional ids.")
@click.option("--networks", metavar="CIDR,…", help="Only clients from these networks.")
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
    help="Pass everything through; only count which clients use old versions.",
)
@click.option("--tls-cert", metavar="FILE", help="Certificate of the listener.")
@click.option("--tls-key", metavar="FILE", help="Its key.")
@click.option(
    "--tls-min-version",
    metavar="VERSION",
    help="The oldest TLS that clients may speak: 1.0, 1.1, 1.2 or 1.3. [default: 1.2]",
)
@click.option(
    "--tls-ciphers",
    metavar="CIPHERS",
    help="For TLS 1.2 and older, as OpenSSL writes them. [default: safe ones]",
)
@click.option("--cluster-tls", is_flag=True, help="Speak TLS to the cluster.")
@click.option(
    "--cluster-ca", metavar="FILE", help="The authority that signs the cluster's certificates."
)
@click.option(
    "--sasl",
    metavar="MECHANISM",
    help="How to authenticate to the cluster. The secret: --secret-file, or "
    "$DOWNCONVERT_SASL_SECRET.",
)
@click.option("--username", metavar="NAME", help="With --sasl.")
@click.option("--secret-file", metavar="FILE", help="With --sasl: the file with the secret.")
@click.option(
    "--spool-dir", metavar="DIR", help="Where large responses wait. [default: the system's]"
)
@recode_option
@click.option(
    "--connect-timeout",
    metavar="SECONDS",
    type=SECONDS,
    help="For a broker to be connected and to answer. [default: 10]",
)
@click.option(
    "--request-timeout",
    metavar="SECONDS",
    type=SECONDS,
    help="For a broker to answer a request, added to the request's own time. [default: 30]",
)
@click.option(
    "--idle-timeout",
    metavar="SECONDS",
    type=SECONDS,
    help="For a connection without a request. [default: 600]",
)
@click.option(
    "--share-ports", is_flag=True, help="Other gateways of this cluster may listen here, too."
)
@click.option("--http", metavar="HOST:PORT", help="Serve /healthz, /metrics and /clients there.")
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(1, 64),
    default=1,
    help="Processes behind the one port; one for each core.",
)
@click.option(
    "--history",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Keep the last times of old versions there, across restarts.",
)
@click.option(
    "--audit",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Append logins, refusals and changes by clients there, as JSON lines.",
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
    type=click.Choice(("principal", "rule", "prefix", "topic")),
    help="With --report: group by principal, rule, or prefix of the client id. "
    "topic: the last time of an old version.",
)
@click.option(
    "--html",
    metavar="FILE",
    type=OutputFile(),
    help="With --report: write it as a page.",
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

    Kafka 4 removed the request versions of clients older than 0.11. Through a gateway these clients
    continue to consume and produce, in groups too. All requests that the cluster understands pass
    through unchanged. Each broker gets its own port after the first one.

    \b
    downconvert gateway --bootstrap kafka-1:9092 --listen 0.0.0.0:9092
    downconvert gateway --config gateway.toml --http 127.0.0.1:9100
    downconvert gateway --config gateway.toml --check
    downconvert gateway --report http://127.0.0.1:9100 --html old-clients.html

    SIGHUP reads the file again for later connections. SIGTERM lets current requests end."""
    if report:
        from .gateway_report import show

        show(report, html, by, as_json=as_json)
        return
    for option, value in (("--by", by), ("--html", html)):
        if value is not None:
            raise click.UsageError(f"{option} needs --report URL")
    from downconvert.access.rights import ConfigError
    from downconvert.gateway.config import GatewayConfig
    from downconvert.gateway.processes import Processes
    from downconvert.gateway.server import Gateway, Running
    from downconvert.gateway.settings import build

    from .gateway_history import STORE_SECONDS, History

    def built(file: ConfigFile) -> GatewayConfig:
        try:
            read = build(merged(file.settings, settings_of(flags)))
            return replace(read, recode_rules=(*flags["recode"], *read.recode_rules))
        except ConfigError as error:
            raise CommandError(f"{error}{file.where(str(error))}") from None

    file = config_file()
    settings = built(file)
    if check:
        from .gateway_check import show as show_meaning

        try:
            show_meaning(settings, as_json=as_json)
        except ConfigError as error:
            raise CommandError(f"{error}{file.where(str(error))}") from None
        return
    context = click.get_current_context()
    kept = History(history)

    def read_again() -> tuple[GatewayConfig, tuple[str, ...]]:
        """The settings, and the changed options that need a restart."""
        later = file if config is None else read_file(context, config, AT_START)
        return built(later), file.differing(later)

    level = level_of(verbose=verbose, quiet=quiet)
    log = partial(_logs, audit, as_json=as_json, level=level)
    try:
        context.call_on_close(log())
    except OSError as error:
        raise CommandError(f"--audit {audit}: {error.strerror or error}") from None
    allow_files()
    stop = Event()
    running: Running
    try:
        running = Gateway(settings) if workers == 1 else Processes(settings, workers, log)
    except ConfigError as error:
        raise CommandError(str(error)) from None
    for number in SIGNALS:
        context.call_on_close(partial(signal.signal, number, signal.getsignal(number)))
    _on_signals(stop, lambda: _reload(running, read_again))
    with ExitStack() as stack:
        try:
            stack.enter_context(running)
        except ConfigError as error:
            raise CommandError(str(error)) from None
        except OSError as error:
            raise _taken(settings.listen, "--listen", error) from None
        observation = _observe(running, http, kept.page)
        if observation is not None:
            stack.callback(observation.close)
        if NAME == REFERENCE:
            LOG.warning("%s", REFERENCE_NOTICE)
        announce = partial(_announce, running, settings, observation, as_json=as_json)
        announce(is_ready=False)
        while running.figures().unready and not stop.wait(LOOK_SECONDS):
            pass
        if not stop.is_set():
            announce(is_ready=True)
        while not stop.wait(STORE_SECONDS):
            kept.store(running.figures().last_old)
        kept.store(running.figures().last_old)
        LOG.info("closing: requests under way are finished")


def _logs(audit: Path | None, *, as_json: bool, level: int) -> Callable[[], None]:
    """Sets up the logs of each process. Returns a function that ends them. OSError: the file cannot
    be written."""
    stack = ExitStack()
    if audit is not None:
        stack.callback(keep_audit(audit))
    stack.callback(show_logs(LOGS, as_json=as_json, level=level))
    return stack.close


def _announce(
    running: Any, config: Any, observation: Any, *, is_ready: bool, as_json: bool
) -> None:
    """Prints the address for clients: a line at the start, and one when the cluster has
    answered."""
    address = running.address
    if as_json:
        line = {"ready": is_ready, "host": address.host, "port": address.port}
        if observation is not None:
            line["httpPort"] = observation.address.port
        click.echo(json.dumps(line))
    elif not is_ready:
        cluster = ", ".join(map(str, config.bootstrap))
        click.echo(f"connecting to {cluster}; clients will connect to {address}")
    else:
        text = f"ready: clients connect to {address}, "
        if config.has_node_ports:
            text += f"brokers follow from port {config.ports(address.port).first} on"
        else:
            text += "and name the broker that they want"
        click.echo(f"{text}; Ctrl-C ends it")
    sys.stdout.flush()


def _observe(running: Any, http: str | None, history: Callable[[list[Any]], object]) -> Any:
    if http is None:
        return None
    from downconvert.access.rights import ConfigError
    from downconvert.gateway.config import parse_address
    from downconvert.gateway.observing import Observation

    try:
        address = parse_address(http, 9100)
    except ConfigError as error:
        raise CommandError(str(error)) from None
    try:
        observation = Observation(running, address, history)
    except OSError as error:
        raise _taken(address, "--http", error) from None
    LOG.info("observe at http://%s/healthz, /metrics, /clients, /history", observation.address)
    return observation


def _taken(address: Any, option: str, error: OSError) -> CommandError:
    from downconvert.gateway.network.listeners import why

    return CommandError(f"cannot listen at {address}: {why(error)}; choose another with {option}")


def _reload(running: Any, read: Callable[[], tuple[Any, tuple[str, ...]]]) -> None:
    from downconvert.access.rights import ConfigError
    from downconvert.gateway.changes import changes

    try:
        settings, waiting = read()
        found = changes(running.config, settings)
        running.reload(settings)
    except (CommandError, ConfigError, OSError) as error:
        LOG.error("the settings stay as they were: %s", error)
    else:
        found = replace(found, after_restart=(*found.after_restart, *waiting))
        level = logging.WARNING if found.after_restart else logging.INFO
        fields = {"applied": found.applied, "after_restart": found.after_restart}
        text = "the settings have been read again: %s"
        LOG.log(level, text, found, extra={"fields": fields})


def _on_signals(stop: Event, reload: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    signal.signal(signal.SIGHUP, lambda *_: reload())
