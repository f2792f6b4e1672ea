"""Several clusters in one gateway: the sections [[clusters]] of its file.

    tls_cert = "/etc/downconvert/cert.pem"

    [[clusters]]
    name = "orders"
    bootstrap = ["orders-1:9092"]
    listen = "0.0.0.0:9092"

    [clusters.limits]
    connections = 500

    [[clusters]]
    name = "logs"
    bootstrap = ["logs-1:9092"]
    listen = "0.0.0.0:9192"

A section may have every setting of a file. Its missing settings are taken from the top of the file.

Not here: the settings of one cluster (settings.py)."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from downconvert.access.rights import ConfigError
from downconvert.access.settings import check_known, value_of
from records.logged import log_fields

from .config import GatewayConfig
from .settings import OWN, TOP, build, overridden

CLUSTERS: Final = "clusters"
NAME: Final = "name"
ONLY: Final = ""  # the name of the cluster of a file without sections
NAMES: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")  # names are part of URLs


class SectionError(ConfigError):
    """A section is wrong. `section`: its index among the sections. `reason`: the problem, without
    the name of the cluster."""

    def __init__(self, reason: str, section: int, name: str = "") -> None:
        super().__init__(f"cluster {name}: {reason}" if name else reason)
        self.section = section
        self.reason = reason


@contextmanager
def cluster_named(name: str, section: int = 0) -> Iterator[None]:
    """Log lines in this context name the cluster, and ConfigErrors become SectionErrors."""
    if name == ONLY:
        yield
        return
    try:
        with log_fields(cluster=name):
            yield
    except ConfigError as error:
        raise SectionError(str(error), section, name) from None


def build_all(
    settings: Mapping[str, Any],
    overrides: Mapping[str, Any],
    environment: Mapping[str, str],
) -> dict[str, GatewayConfig]:
    """The configurations of all clusters, by their names. `overrides`: settings that override those
    of each cluster. ConfigError says what is wrong and what to write. SectionError also says in
    which section."""
    if CLUSTERS not in settings:
        return {ONLY: build(overridden(settings, overrides), environment)}
    check_known("a setting", settings, TOP | {CLUSTERS})
    top = {name: value for name, value in settings.items() if name != CLUSTERS}
    for name in sorted(OWN):
        if name in top:
            raise ConfigError(
                f"{name} belongs to one cluster: write it in each section of [[clusters]]"
            )
        if name in overrides:
            option = name.replace("_", "-").removesuffix("s" if name == "node_ports" else "")
            raise ConfigError(f"--{option} belongs to one cluster, and the file has [[clusters]]")
    sections = value_of(list, settings, CLUSTERS, [])
    if not sections:
        raise ConfigError("clusters is empty: write [[clusters]] before the settings of each")
    found: dict[str, GatewayConfig] = {}
    for number, section in enumerate(sections):
        name = _name(section, number, found)
        with cluster_named(name, number):
            found[name] = _built(section, top, overrides, environment)
            _check_ports(name, found)
    return found


def _name(section: object, number: int, known: Mapping[str, Any]) -> str:
    """The name of a section. ConfigError: it has no name, or that of another section."""
    if not isinstance(section, dict):
        raise ConfigError("clusters are tables: write [[clusters]] before each")
    name = section.get(NAME)
    if not isinstance(name, str) or not NAMES.fullmatch(name):
        example = 'name = "orders", of letters, digits, dots, - and _'
        raise SectionError(f"name: each section of [[clusters]] has one, such as {example}", number)
    if name in known:
        raise SectionError(f"name: two clusters are called {name!r}", number)
    return name


def _built(
    section: Mapping[str, Any],
    top: Mapping[str, Any],
    overrides: Mapping[str, Any],
    environment: Mapping[str, str],
) -> GatewayConfig:
    check_known("a setting of [[clusters]]", section, TOP | {NAME})
    own = {name: value for name, value in section.items() if name != NAME}
    if "listen" not in own:
        raise ConfigError('no listen: each cluster has its own, such as listen = "0.0.0.0:9092"')
    return build(overridden(overridden(top, own), overrides), environment)


def _check_ports(name: str, found: Mapping[str, GatewayConfig]) -> None:
    """ConfigError: the last cluster uses a port of an earlier one."""
    ports = _ports(found[name])
    for other, config in found.items():
        if other != name:
            twice = ports.keys() & _ports(config).keys()
            for address in sorted(twice):
                raise ConfigError(
                    f"{ports[address]}: cluster {other!r} has port {address[1]} already"
                )


def _ports(config: GatewayConfig) -> dict[tuple[str, int], str]:
    """The listening addresses that do not depend on the cluster's brokers, each with its
    setting."""
    host = config.listen.host
    ports = {(host, port): "node_ports" for port in config.node_ports.values()}
    if config.listen.port:
        ports[host, config.listen.port] = "listen"
    return ports
