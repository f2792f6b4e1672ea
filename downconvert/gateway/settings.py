"""A gateway's settings as an operator writes them: a TOML file, overridden by flags.

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

Not here: what they mean (config.py)."""

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from downconvert import ConversionPolicy
from downconvert.broker.conversions import DEFAULT_RULES, RecodeRule

from .config import GatewayConfig, Limits, parse_address
from .identity import ClientRule, Identities, Users
from .security import Access, ClusterSecurity, ConfigError, Credentials, parse_network

SECRET_VARIABLE: Final = "DOWNCONVERT_SASL_SECRET"
TOP: Final = frozenset(
    {
        "bootstrap",
        "listen",
        "advertise",
        "node_port_first",
        "node_ports",
        "tls_cert",
        "tls_key",
        "topics",
        "groups",
        "transactional_ids",
        "networks",
        "read_only",
        "written_topics",
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
        "clients",
    }
)
RULE: Final = frozenset({"user", "certificate", "networks"})  # which clients a rule is for
RIGHTS: Final = frozenset({"topics", "written_topics", "groups", "transactional_ids", "read_only"})
TOWARDS_CLUSTER: Final = frozenset({"sasl", "username", "secret_file"})
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


def load(path: Path) -> dict[str, Any]:
    """A file's settings. ConfigError: it is not TOML; OSError: it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def build(
    settings: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> GatewayConfig:
    """The configuration from settings. ConfigError: what is wrong, and what to write."""
    _known("a setting", settings, TOP)
    cluster = _table(settings, "cluster")
    _known("a setting of [cluster]", cluster, CLUSTER)
    limits = _table(settings, "limits")
    _known("a limit", limits, {field.name for field in fields(Limits)})
    access = _access(settings, Access())
    security = _security(cluster, environment)
    config = GatewayConfig(
        bootstrap=tuple(parse_address(text) for text in _texts(settings, "bootstrap")),
        access=access,
        identities=Identities(
            users=_users(settings),
            client_ca=_of(str, settings, "client_ca", None),
            rules=_client_rules(settings, access, security.credentials),
        ),
        limits=replace(Limits(), **{name: _number(limits, name) for name in limits}),
        security=security,
        policy=_policy(settings),
        recode_rules=_rules(settings),
        is_observing=_of(bool, settings, "observe", False),
        advertised_host=_of(str, settings, "advertise", None),
        node_port_first=_of(int, settings, "node_port_first", None),
        node_ports=_node_ports(settings),
        shares_ports=_of(bool, settings, "share_ports", False),
        tls_cert=_of(str, settings, "tls_cert", None),
        tls_key=_of(str, settings, "tls_key", None),
        spool_dir=_of(str, settings, "spool_dir", None),
    )
    if "listen" in settings:
        config = replace(config, listen=parse_address(_of(str, settings, "listen", "")))
    if "refresh_seconds" in settings:
        config = replace(config, refresh_seconds=float(_number(settings, "refresh_seconds")))
    return config


def _access(settings: Mapping[str, Any], default: Access) -> Access:
    """Access rights; those that are not set are the default's."""
    named = {
        name: tuple(_texts(settings, name))
        for name in ("topics", "written_topics", "groups", "transactional_ids")
        if name in settings
    }
    networks = tuple(parse_network(text) for text in _texts(settings, "networks"))
    is_read_only = _of(bool, settings, "read_only", default.is_read_only)
    return replace(default, networks=networks, is_read_only=is_read_only, **named)


def _users(settings: Mapping[str, Any]) -> Users | None:
    path = _of(str, settings, "users_file", None)
    if path is None:
        return None
    try:
        users = Users.load(Path(path))
    except (OSError, ValueError) as error:
        raise ConfigError(f"users_file: {error}") from None
    assert isinstance(users, Users)
    return users


def _client_rules(
    settings: Mapping[str, Any], default: Access, credentials: Credentials | None
) -> tuple[ClientRule, ...]:
    """Rules for clients. What a rule does not name is as for the whole listener."""
    rules = []
    for table in _of(list, settings, "clients", []):
        if not isinstance(table, dict):
            raise ConfigError("clients are tables: write [[clients]] before each")
        _known("a setting of [[clients]]", table, RULE | RIGHTS | TOWARDS_CLUSTER)
        if not RULE & table.keys():
            raise ConfigError("a rule of [[clients]] is for a user, a certificate or networks")
        user, certificate = (_of(str, table, name, None) for name in ("user", "certificate"))
        if user is not None and "users_file" not in settings:
            raise ConfigError(f"a rule for user {user!r} needs users_file")
        if certificate is not None and "client_ca" not in settings:
            raise ConfigError(f"a rule for certificate {certificate!r} needs client_ca")
        access = _access(table, default)
        if "sasl" in table:
            if "secret_file" not in table:
                raise ConfigError("a rule of [[clients]] with sasl needs its secret_file")
            towards_cluster: Credentials | None = _credentials(table, {})
        else:
            towards_cluster = credentials
        networks, access = access.networks, replace(access, networks=())
        rules.append(
            ClientRule(
                access=access,
                credentials=towards_cluster,
                user=user,
                certificate=certificate,
                networks=networks,
            )
        )
    return tuple(rules)


def _credentials(table: Mapping[str, Any], environment: Mapping[str, str]) -> Credentials:
    return Credentials(
        mechanism=_of(str, table, "sasl", ""),
        username=_of(str, table, "username", ""),
        secret=_secret(table, environment),
    )


def _security(cluster: Mapping[str, Any], environment: Mapping[str, str]) -> ClusterSecurity:
    credentials = None
    if "sasl" in cluster:
        credentials = _credentials(cluster, environment)
    return ClusterSecurity(
        tls=_of(bool, cluster, "tls", False),
        ca_file=_of(str, cluster, "ca_file", None),
        cert_file=_of(str, cluster, "cert_file", None),
        key_file=_of(str, cluster, "key_file", None),
        verify_hostname=_of(bool, cluster, "verify_hostname", True),
        credentials=credentials,
    )


def _secret(cluster: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    path = _of(str, cluster, "secret_file", None)
    if path is not None:
        try:
            return Path(path).read_text(encoding="utf-8").rstrip("\n")
        except OSError as error:
            raise ConfigError(f"the secret of the cluster: {error}") from None
    if SECRET_VARIABLE not in environment:
        raise ConfigError(
            f"no secret for the cluster: set {SECRET_VARIABLE}, or secret_file under [cluster]"
        )
    return environment[SECRET_VARIABLE]


def _policy(settings: Mapping[str, Any]) -> ConversionPolicy:
    policy = ConversionPolicy()
    try:
        if "recode" in settings:
            policy = replace(policy, recode={**policy.recode, **_table(settings, "recode")})
        if "isolation" in settings:
            policy = replace(policy, isolation=settings["isolation"])
    except ValueError as error:
        raise ConfigError(f"conversion: {error}") from None
    return policy


def _rules(settings: Mapping[str, Any]) -> tuple[RecodeRule, ...]:
    """Rules from the settings come before the built-in ones."""
    rules = []
    for table in _of(list, settings, "recode_rules", []):
        if not isinstance(table, dict):
            raise ConfigError("recode_rules are tables: write [[recode_rules]] before each")
        patterns = {name: _of(str, table, name, "*") for name in ("topic", "client")}
        recode = {name: instead for name, instead in table.items() if name not in patterns}
        if not recode:
            raise ConfigError('a rule of [[recode_rules]] names no codec: add lz4 = "gzip"')
        try:
            ConversionPolicy(recode=recode)
        except ValueError as error:
            raise ConfigError(f"[[recode_rules]]: {error}") from None
        rules.append(RecodeRule(recode, **patterns))
    return (*rules, *DEFAULT_RULES)


def _node_ports(settings: Mapping[str, Any]) -> dict[int, int]:
    table = _table(settings, "node_ports")
    try:
        return {int(node): int(port) for node, port in table.items()}
    except (TypeError, ValueError):
        raise ConfigError("node_ports is a table of broker ids and ports: { 1 = 9093 }") from None


def _known(what: str, settings: Mapping[str, Any], known: set[str] | frozenset[str]) -> None:
    unknown = settings.keys() - known
    if unknown:
        raise ConfigError(f"{min(unknown)!r} is not {what}; there are: {', '.join(sorted(known))}")


def _table(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    return dict(_of(dict, settings, name, {}))


def _texts(settings: Mapping[str, Any], name: str) -> list[str]:
    if name not in settings:
        return []
    texts = settings[name]
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"{name} is a list of texts")
    parts = [part.strip() for text in texts for part in text.split(",")]
    if not any(parts):
        # An empty list would mean "all" where an operator meant to restrict.
        raise ConfigError(f"{name} is an empty list: name something, or leave {name} out")
    return [part for part in parts if part]


def _number(settings: Mapping[str, Any], name: str) -> Any:
    value = settings[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ConfigError(f"{name} is a number above 0, not {value!r}")
    return value


def _of(kind: Callable[..., Any], settings: Mapping[str, Any], name: str, default: Any) -> Any:
    value = settings.get(name, default)
    if value is not default and type(value) is not kind:
        raise ConfigError(f"{name} is {value!r}, which should be of type {kind.__name__}")
    return value
