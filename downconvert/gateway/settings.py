"""Reads a gateway's settings from a TOML file, overridden by flags.

    bootstrap = ["kafka-1:9092", "kafka-2:9092"]
    listen = "0.0.0.0:9092"
    topics = ["metrics-*"]

    [cluster]
    tls = true
    sasl = "SCRAM-SHA-512"
    username = "old-clients"
    secret_file = "/run/secrets/kafka"

    [[recode_rules]]
    client = "sarama*"
    lz4 = "gzip"

Not here: their meaning (config.py)."""

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from downconvert import ConversionPolicy
from downconvert.access.rights import Access, ConfigError
from downconvert.access.settings import (
    CLIENT_LIMITS,
    access_of,
    check_known,
    identities_of,
    load,
    networks_of,
    number_of,
    table_of,
    texts_of,
    value_of,
)
from downconvert.serving.conversions import DEFAULT_RULES, RecodeRule

from .advertised import PORT_MAX, Advertised
from .config import TLS_DEFAULT, GatewayConfig, Limits, parse_address
from .security import ClusterSecurity, Credentials

__all__ = ["SECRET_VARIABLE", "build", "load"]

SECRET_VARIABLE: Final = "DOWNCONVERT_SASL_SECRET"
# No two clusters may share these settings.
OWN: Final = frozenset(
    {
        "bootstrap",
        "listen",
        "advertise",
        "advertise_without_name",
        "server_names",
        "node_port_first",
        "node_ports",
    }
)
TOP: Final = OWN | frozenset(
    {
        "tls_cert",
        "tls_key",
        "tls_min_version",
        "tls_ciphers",
        "topics",
        "groups",
        "transactional_ids",
        "networks",
        "proxy_networks",
        "deny_by_default",
        "read_only",
        "written_topics",
        "producer_byte_rate",
        "consumer_byte_rate",
        *CLIENT_LIMITS,
        "observe",
        "share_ports",
        "refresh_seconds",
        "spool_dir",
        "recode",
        "recode_rules",
        "isolation",
        "cluster",
        "limits",
        "users_file",
        "client_ca",
        "oauth",
        "clients",
    }
)
TOWARDS_CLUSTER: Final = frozenset({"sasl", "username", "secret_file"})
LIMITS: Final = {field.name: getattr(Limits(), field.name) for field in fields(Limits)}
CLUSTER: Final = frozenset(
    {
        "tls",
        "ca_file",
        "cert_file",
        "key_file",
        "verify_hostname",
        "sasl",
        "username",
        "secret_file",
    }
)


def build(
    settings: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> GatewayConfig:
    """The configuration from settings. ConfigError: what is wrong, and what to write."""
    _check_place(settings)
    check_known("a setting", settings, TOP)
    cluster = table_of(settings, "cluster")
    check_known("a setting of [cluster]", cluster, CLUSTER)
    limits = table_of(settings, "limits")
    check_known("a limit", limits, LIMITS.keys())
    access = access_of(settings, Access())
    security = _security(cluster, environment)
    config = GatewayConfig(
        bootstrap=tuple(parse_address(text, None) for text in texts_of(settings, "bootstrap")),
        access=access,
        identities=identities_of(
            settings,
            access,
            lambda table: _towards_cluster(table, security.credentials),
            TOWARDS_CLUSTER | CLIENT_LIMITS,
        ),
        limits=_limits(limits),
        security=security,
        policy=_policy(settings),
        recode_rules=_rules(settings),
        is_observing=value_of(bool, settings, "observe", False),
        advertised=_advertised(settings, "advertise"),
        advertised_without_name=_advertised(settings, "advertise_without_name"),
        server_names=tuple(
            name.removesuffix(".").lower() for name in texts_of(settings, "server_names")
        ),
        node_port_first=_node_port_first(settings),
        node_ports=_node_ports(settings),
        shares_ports=value_of(bool, settings, "share_ports", False),
        tls_cert=value_of(str, settings, "tls_cert", None),
        tls_key=value_of(str, settings, "tls_key", None),
        tls_min_version=value_of(str, settings, "tls_min_version", TLS_DEFAULT),
        tls_ciphers=value_of(str, settings, "tls_ciphers", None),
        spool_dir=value_of(str, settings, "spool_dir", None),
        proxy_networks=networks_of(settings, "proxy_networks"),
    )
    if "listen" in settings:
        config = replace(config, listen=parse_address(value_of(str, settings, "listen", "")))
    if "refresh_seconds" in settings:
        config = replace(config, refresh_seconds=float(number_of(settings, "refresh_seconds")))
    return config


def overridden(settings: Mapping[str, Any], by: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with overrides applied one by one, also in the tables [cluster] and [limits]."""
    tables = {
        name: {**settings[name], **by[name]}
        for name in ("cluster", "limits")
        if isinstance(settings.get(name), dict) and isinstance(by.get(name), dict)
    }
    return {**settings, **by, **tables}


def _advertised(settings: Mapping[str, Any], name: str) -> Advertised | None:
    text = value_of(str, settings, name, None)
    return None if text is None else Advertised.parse(text)


def _towards_cluster(table: Mapping[str, Any], default: Credentials | None) -> Credentials | None:
    """The credentials at the cluster from a rule for clients."""
    if "sasl" not in table:
        return default
    if "secret_file" not in table:
        raise ConfigError("a rule of [[clients]] with sasl needs its secret_file")
    return _credentials(table, {})


def _credentials(table: Mapping[str, Any], environment: Mapping[str, str]) -> Credentials:
    return Credentials(
        mechanism=value_of(str, table, "sasl", ""),
        username=value_of(str, table, "username", ""),
        secret=_secret(table, environment),
    )


def _security(cluster: Mapping[str, Any], environment: Mapping[str, str]) -> ClusterSecurity:
    credentials = None
    if "sasl" in cluster:
        credentials = _credentials(cluster, environment)
    return ClusterSecurity(
        tls=value_of(bool, cluster, "tls", False),
        ca_file=value_of(str, cluster, "ca_file", None),
        cert_file=value_of(str, cluster, "cert_file", None),
        key_file=value_of(str, cluster, "key_file", None),
        verify_hostname=value_of(bool, cluster, "verify_hostname", True),
        credentials=credentials,
    )


def _secret(cluster: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    path = value_of(str, cluster, "secret_file", None)
    if path is not None:
        try:
            return Path(path).read_text(encoding="utf-8").rstrip("\n")
        except UnicodeDecodeError:
            raise ConfigError(f"secret_file {path}: it is not UTF-8") from None
        except OSError as error:
            raise ConfigError(f"secret_file {path}: {error.strerror or error}") from None
    if SECRET_VARIABLE not in environment:
        raise ConfigError(
            f"no secret for the cluster: set {SECRET_VARIABLE}, or secret_file under [cluster]"
        )
    return environment[SECRET_VARIABLE]


def _policy(settings: Mapping[str, Any]) -> ConversionPolicy:
    policy = ConversionPolicy()
    try:
        if "recode" in settings:
            policy = replace(policy, recode={**policy.recode, **table_of(settings, "recode")})
        if "isolation" in settings:
            policy = replace(policy, isolation=settings["isolation"])
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return policy


def _rules(settings: Mapping[str, Any]) -> tuple[RecodeRule, ...]:
    """Rules from the settings come before the built-in ones."""
    rules = []
    for table in value_of(list, settings, "recode_rules", []):
        if not isinstance(table, dict):
            raise ConfigError("recode_rules are tables: write [[recode_rules]] before each")
        patterns = {name: value_of(str, table, name, "*") for name in ("topic", "client")}
        recode = {name: instead for name, instead in table.items() if name not in patterns}
        if not recode:
            raise ConfigError('a rule of [[recode_rules]] names no codec: add lz4 = "gzip"')
        try:
            ConversionPolicy(recode=recode)
        except ValueError as error:
            raise ConfigError(f"[[recode_rules]]: {error}") from None
        rules.append(RecodeRule(recode, **patterns))
    return (*rules, *DEFAULT_RULES)


def _check_place(settings: Mapping[str, Any]) -> None:
    """ConfigError: a setting at the top belongs into a table."""
    for table, names in (("limits", LIMITS.keys()), ("cluster", CLUSTER)):
        for name in sorted((names - TOP) & settings.keys()):
            raise ConfigError(f"{name} is a setting of [{table}]: write it below that line")


def _limits(limits: Mapping[str, Any]) -> Limits:
    for name in limits:
        if number_of(limits, name) % 1 and isinstance(LIMITS[name], int):
            raise ConfigError(f"{name} must be a whole number, not {limits[name]}")
    return replace(Limits(), **limits)


def _node_port_first(settings: Mapping[str, Any]) -> int | None:
    port: int | None = value_of(int, settings, "node_port_first", None)
    if port is not None and not 0 < port <= PORT_MAX:
        raise ConfigError(f"node_port_first is {port}: ports are 1 to {PORT_MAX}")
    return port


def _node_ports(settings: Mapping[str, Any]) -> dict[int, int]:
    table = table_of(settings, "node_ports")
    try:
        ports = {int(node): int(port) for node, port in table.items()}
    except (TypeError, ValueError):
        raise ConfigError("node_ports is a table of broker ids and ports: { 1 = 9093 }") from None
    for node, port in ports.items():
        if node < 0 or not 0 < port <= PORT_MAX:
            raise ConfigError(
                f"node_ports: broker {node} has port {port}; ids begin at 0, and ports are "
                f"1 to {PORT_MAX}"
            )
    return ports
