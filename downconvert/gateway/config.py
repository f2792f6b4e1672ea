"""What an operator says of a gateway: listeners, the cluster, security, limits.

From flags, or from a TOML file with the same names. Credentials come from a file or from the
environment, and are shown nowhere."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

from downconvert import ConversionPolicy
from downconvert.broker.conversions import DEFAULT_RULES, RecodeRule

from .topology import Address

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
DEFAULT_LISTEN: Final = Address("127.0.0.1", 9092)
Network = IPv4Network | IPv6Network


class ConfigError(Exception):
    """A setting that makes no sense, and what to say instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What the gateway shows the cluster. Its text never shows the secret."""

    mechanism: str
    username: str = ""
    secret: str = field(default="", repr=False)  # the password, or the token of OAUTHBEARER

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            known = ", ".join(MECHANISMS)
            raise ConfigError(f"SASL mechanism {self.mechanism!r} is not known: use one of {known}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSecurity:
    """How the gateway speaks to the cluster."""

    tls: bool = False
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify_hostname: bool = True
    credentials: Credentials | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may do what through a listener."""

    networks: tuple[Network, ...] = ()  # none: every one
    topics: tuple[str, ...] = ()  # patterns as of the shell; none: every one
    groups: tuple[str, ...] = ()  # likewise
    transactional_ids: tuple[str, ...] = ()  # likewise
    is_read_only: bool = False

    def admits(self, address: str) -> bool:
        """Whether a client at this address may connect."""
        host = ip_address(address.partition("%")[0])
        mapped = getattr(host, "ipv4_mapped", None)
        return not self.networks or any((mapped or host) in network for network in self.networks)

    def allows(self, topic: str) -> bool:
        """Whether a topic may be named."""
        return _matches(topic, self.topics)

    def allows_group(self, group: str) -> bool:
        """Whether a group may be named."""
        return _matches(group, self.groups)

    def allows_transactional_id(self, name: str) -> bool:
        """Whether a transactional id may be named."""
        return _matches(name, self.transactional_ids)

    @property
    def has_lists(self) -> bool:
        """Whether there are names that may not be named."""
        return bool(self.topics or self.groups or self.transactional_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one client, and all of them, may take. Sizes in bytes, times in seconds."""

    connections: int = 10_000
    connections_per_address: int = 10_000
    request_size: int = 104_857_600  # Kafka's socket.request.max.bytes
    translated_size: int = 16_777_216  # of a request that is held in memory to be translated
    idle_timeout: float = 600.0  # Kafka's connections.max.idle.ms: without a request, or a byte
    receive_timeout: float = 60.0  # for a client's request that has begun to be complete
    connect_timeout: float = 10.0  # Kafka's socket.connection.setup.timeout.ms: to a broker
    request_timeout: float = 30.0  # Kafka's request.timeout.ms: for a broker's answer to begin
    drain_timeout: float = 10.0
    memory: int = 16_777_216  # of large answers and conversions that wait to be sent, all together


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """All of it."""

    bootstrap: tuple[Address, ...]
    listen: Address = DEFAULT_LISTEN
    advertised_host: str | None = None  # None: what the client reached us by
    node_port_first: int | None = None  # the port of broker 0; None: the one behind the listener
    node_ports: Mapping[int, int] = field(default_factory=dict)
    security: ClusterSecurity = ClusterSecurity()
    tls_cert: str | None = None  # of the listeners
    tls_key: str | None = None
    access: Access = Access()
    limits: Limits = Limits()
    policy: ConversionPolicy = field(default_factory=ConversionPolicy)
    recode_rules: tuple[RecodeRule, ...] = DEFAULT_RULES  # for some clients or topics
    is_observing: bool = False
    shares_ports: bool = False  # with other gateways, of the same cluster
    refresh_seconds: float = 30.0  # between two looks at which brokers there are
    spool_dir: str | None = None

    def __post_init__(self) -> None:
        if not self.bootstrap:
            raise ConfigError("no cluster: give --bootstrap HOST:PORT")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigError("TLS on the listener needs both --tls-cert and --tls-key")
        ports = [*self.node_ports.values(), *([self.listen.port] if self.listen.port else [])]
        twice = [port for port, times in Counter(ports).items() if times > 1]
        if twice:
            raise ConfigError(f"port {twice[0]} stands for two: brokers have one port each")
        if self.is_observing and (self.access.has_lists or self.access.is_read_only):
            raise ConfigError(
                "--observe passes everything through: it keeps nobody from a topic, a group or "
                "writing; leave out the lists and --read-only, or --observe"
            )


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def parse_address(text: str, default_port: int = 9092) -> Address:
    """`host`, `host:port`, `[::1]:port`. ConfigError."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or (host and host.count(":") and not host.startswith("[")):
        host, port = text.strip(), str(default_port)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 <= int(port) < 1 << 16:
        raise ConfigError(f"{text!r} is no address: write HOST:PORT")
    return Address(host, int(port))


def parse_network(text: str) -> Network:
    """`10.0.0.0/8`, or one address. ConfigError."""
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        raise ConfigError(f"{text!r} is no network: write for example 10.1.0.0/16") from None
