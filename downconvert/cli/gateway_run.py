"""Runs a gateway for each cluster, until a signal ends them.

Not here: the options (gateway.py), the gateway itself (gateway)."""

import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeAlias

import click

from downconvert.access.rights import ConfigError
from downconvert.gateway.changes import Changes, changes
from downconvert.gateway.clusters import ONLY, cluster_named
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.network.listeners import why
from downconvert.gateway.observing import Observation, last_old
from downconvert.gateway.processes import Processes
from downconvert.gateway.server import Gateway
from downconvert.gateway.topology import Address
from downconvert.serving.garbage import rare_collections
from records.backend import NAME, REFERENCE
from records.logged import log_of

from .failure import CommandError
from .gateway_history import STORE_SECONDS, History
from .logs import CLUSTER, keep_audit, show_logs
from .open_files import allow_files
from .signals import AGAIN, Signals
from .terminal import REFERENCE_NOTICE

LOG: Final = log_of("downconvert.gateway")
LOGS: Final = ("downconvert.access", "downconvert.gateway")
LOOK_SECONDS: Final = 0.1  # between two checks whether a cluster has answered

Clusters: TypeAlias = Mapping[str, GatewayConfig]
Read: TypeAlias = Callable[[], tuple[Clusters, tuple[str, ...]]]
Gateways: TypeAlias = Mapping[str, Gateway | Processes]


def run(
    clusters: Clusters,
    read_again: Read,
    log: Callable[..., Callable[[], None]],
    http: Address | None,
    workers: int,
    history: Path | None,
    *,
    as_json: bool,
) -> None:
    """Serves until SIGINT or SIGTERM. `read_again`: returns the current settings, and the changed
    options that need a restart. `log`: sets up logging, also in the processes of a cluster, and
    returns a function that ends it. CommandError: a gateway cannot start."""
    context = click.get_current_context()
    kept = History(history, clusters)
    context.call_on_close(log())
    allow_files()
    context.with_resource(rare_collections())
    gateways = {}
    for name, config in clusters.items():
        with _errors(), cluster_named(name):
            alone = workers == 1
            gateways[name] = (
                Gateway(config) if alone else Processes(config, workers, partial(log, name))
            )
    signals = context.with_resource(Signals())
    with ExitStack() as stack:
        stack.callback(_stop, gateways)
        for name, one in gateways.items():
            with _errors(), cluster_named(name):
                try:
                    one.start()
                except OSError as error:
                    raise _taken(one.config.listen, "--listen", error, name) from None
        observation = _observe(gateways, http, kept)
        if observation is not None:
            stack.callback(observation.close)
        if NAME == REFERENCE:
            LOG.warning("%s", REFERENCE_NOTICE)
        announce = partial(_announce, observation=observation, as_json=as_json)
        for name, one in gateways.items():
            announce(name, one, is_ready=False)
        _serve(gateways, kept, signals, partial(_reload, gateways, read_again), announce)
        LOG.info("closing: requests under way are finished")


def _serve(
    gateways: Gateways,
    kept: History,
    signals: Signals,
    reload: Callable[[], None],
    announce: Callable[..., None],
) -> None:
    """Waits for the end. Announces each cluster when it has answered, and stores the history."""
    waiting, stored = dict(gateways), monotonic()
    while (noted := signals.wait(LOOK_SECONDS if waiting else STORE_SECONDS)) <= {AGAIN}:
        if noted:
            reload()
        for name in [name for name, one in waiting.items() if not one.figures().unready]:
            announce(name, waiting.pop(name), is_ready=True)
        if monotonic() - stored >= STORE_SECONDS:
            kept.store(last_old(gateways))
            stored = monotonic()
    kept.store(last_old(gateways))


def _stop(gateways: Gateways) -> None:
    """Stops all gateways at the same time, because each waits for its current requests."""
    with ThreadPoolExecutor(len(gateways), "stop") as pool:
        list(pool.map(lambda one: one.stop(), gateways.values()))


def logs(
    audit: Path | None, cluster: str = ONLY, *, as_json: bool, level: int
) -> Callable[[], None]:
    """Sets up logging in this process, and returns a function that ends it. `cluster`: the only
    cluster of the process. CommandError: the file of the audit cannot be written."""
    stack = ExitStack()
    if audit is not None:
        try:
            stack.callback(keep_audit(audit))
        except OSError as error:
            raise CommandError(f"--audit {audit}: {error.strerror or error}") from None
    stack.callback(show_logs(LOGS, as_json=as_json, level=level))
    stack.enter_context(cluster_named(cluster))
    return stack.close


@contextmanager
def _errors() -> Iterator[None]:
    """Errors of settings become errors of the command."""
    try:
        yield
    except ConfigError as error:
        raise CommandError(str(error)) from None


def _announce(
    name: str,
    running: Gateway | Processes,
    *,
    observation: Observation | None,
    is_ready: bool,
    as_json: bool,
) -> None:
    """Prints two lines: at the start, and when the cluster has answered, where clients connect."""
    address, config = running.address, running.config
    if as_json:
        line: dict[str, Any] = {} if name == ONLY else {CLUSTER: name}
        line |= {"ready": is_ready, "host": address.host, "port": address.port}
        if observation is not None:
            line["httpPort"] = observation.address.port
        text = json.dumps(line)
    elif not is_ready:
        cluster = ", ".join(map(str, config.bootstrap))
        text = f"connecting to {cluster}; clients will connect to {address}"
    else:
        text = f"ready: clients connect to {address}, "
        if config.has_node_ports:
            text += f"brokers follow from port {config.ports(address.port).first} on"
        else:
            text += "and name the broker that they want"
        text = f"{text}; Ctrl-C ends it"
    click.echo(text if as_json or name == ONLY else f"{name}: {text}")
    sys.stdout.flush()


def _observe(gateways: Gateways, http: Address | None, kept: History) -> Observation | None:
    if http is None:
        return None
    observed = gateways.get(ONLY, gateways)
    try:
        observation = Observation(observed, http, kept.page)
    except OSError as error:
        raise _taken(http, "--http", error) from None
    LOG.info("observe at http://%s/healthz, /metrics, /clients, /history", observation.address)
    return observation


def _taken(address: Address, option: str, error: OSError, name: str = ONLY) -> CommandError:
    what = "choose another with " + (option if name == ONLY else f"listen of cluster {name}")
    return CommandError(f"cannot listen at {address}: {why(error)}; {what}")


def _reload(gateways: Gateways, read: Read) -> None:
    try:
        clusters, waiting = read()
    except (CommandError, ConfigError, OSError) as error:
        LOG.error("the settings stay as they were: %s", error)
        return
    known = gateways.keys() & clusters.keys()
    changed = sorted(gateways.keys() ^ clusters.keys())
    waiting += tuple(f"cluster {name}" if name != ONLY else "[[clusters]]" for name in changed)
    if ONLY not in known and waiting:
        _log_changes(Changes(after_restart=waiting))
    for name in known:
        with cluster_named(name):
            _reload_one(gateways[name], clusters[name], waiting if name == ONLY else ())


def _reload_one(
    running: Gateway | Processes, config: GatewayConfig, waiting: tuple[str, ...]
) -> None:
    try:
        found = changes(running.config, config)
        running.reload(config)
    except (ConfigError, OSError) as error:
        LOG.error("the settings stay as they were: %s", error)
    else:
        _log_changes(replace(found, after_restart=(*found.after_restart, *waiting)))


def _log_changes(found: Changes) -> None:
    level = logging.WARNING if found.after_restart else logging.INFO
    fields = {"applied": found.applied, "after_restart": found.after_restart}
    LOG.log(level, "the settings have been read again: %s", found, extra={"fields": fields})
