"""The configuration of a gateway: listeners, the cluster, security, limits.

It comes from flags, or from a TOML file with the same names. Credentials come from a file or from
the environment, and are never shown."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from downconvert import ConversionPolicy
from downconvert.access.guard import is_limited
from downconvert.access.rights import Access, ConfigError, Network, is_in
from downconvert.serving.conversions import DEFAULT_RULES, RecodeRule

from .advertised import Advertised
from .identity import Identified, Identities
from .security import ClusterSecurity
from .topology import Address, Ports

TLS_VERSIONS: Final = ("1.0", "1.1", "1.2", "1.3")
TLS_DEFAULT: Final = "1.2"
OLD_TLS: Final = ("1.0", "1.1")
DEFAULT_LISTEN: Final = Address("127.0.0.1", 9092)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits for one client and for all of them. Sizes in bytes, times in seconds."""

    connections: int = 10_000
    connections_per_address: int = 10_000
    request_size: int = 104_857_600  # Kafka's socket.request.max.bytes
    translated_size: int = 16_777_216  # of a request that is held in memory to be translated
    requests_memory: int = 268_435_456  # of all such; as much for unread responses
    idle_timeout: float = 600.0  # Kafka's connections.max.idle.ms: no request, and no byte
    receive_timeout: float = 60.0  # from the first to the last byte of a client's request
    connect_timeout: float = 10.0  # to a broker: Kafka's socket.connection.setup.timeout.ms
    request_timeout: float = 30.0  # until a broker's response begins: Kafka's request.timeout.ms
    handshake_timeout: float = 10.0  # for a client's TLS
    drain_timeout: float = 10.0
    memory: int = 16_777_216  # for large responses of the cluster until they are sent


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """The whole configuration."""

    bootstrap: tuple[Address, ...]
    listen: Address = DEFAULT_LISTEN
    advertised: Advertised | None = None  # None: the address that the client connected to
    advertised_without_name: Advertised | None = None  # for clients that send no server name
    server_names: tuple[str, ...] = ()  # allowed besides brokers' names; empty: any
    node_port_first: int | None = None  # the port of broker 0; None: the listener's + 1
    node_ports: Mapping[int, int] = field(default_factory=dict)
    security: ClusterSecurity = field(default_factory=ClusterSecurity)
    tls_cert: str | None = None  # of the listeners
    tls_key: str | None = None
    tls_min_version: str = TLS_DEFAULT  # lowest of clients, one of TLS_VERSIONS
    tls_ciphers: str | None = None  # in OpenSSL's syntax, up to TLS 1.2; None: the default
    proxy_networks: tuple[Network, ...] = ()  # connections from here begin with a PROXY header
    access: Access = field(default_factory=Access)  # the rights of clients that match no rule
    identities: Identities = field(default_factory=Identities)
    limits: Limits = Limits()
    policy: ConversionPolicy = field(default_factory=ConversionPolicy)
    recode_rules: tuple[RecodeRule, ...] = DEFAULT_RULES  # other codecs for some clients or topics
    is_observing: bool = False
    shares_ports: bool = False  # with other gateways of the same cluster
    refresh_seconds: float = 30.0  # between two requests for the cluster's brokers
    spool_dir: str | None = None

    def __post_init__(self) -> None:
        if not self.bootstrap:
            raise ConfigError("no cluster: give --bootstrap HOST:PORT")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigError("TLS on the listener needs both --tls-cert and --tls-key")
        if self.tls_min_version not in TLS_VERSIONS:
            known = ", ".join(TLS_VERSIONS)
            raise ConfigError(f"tls_min_version {self.tls_min_version!r} is not one of {known}")
        has_tls_settings = self.tls_min_version != TLS_DEFAULT or self.tls_ciphers is not None
        if has_tls_settings and self.tls_cert is None:
            raise ConfigError("tls_min_version and tls_ciphers need TLS on the listener: tls_cert")
        ports = [*self.node_ports.values(), *([self.listen.port] if self.listen.port else [])]
        twice = [port for port, times in Counter(ports).items() if times > 1]
        if twice:
            raise ConfigError(f"port {twice[0]} is used twice: each broker needs a port of its own")
        self._check_names()
        if self.identities.client_ca is not None and self.tls_cert is None:
            raise ConfigError("client certificates need TLS on the listener: give tls_cert too")
        if self.is_observing and self.identities.is_needed:
            raise ConfigError(
                "--observe passes everything through, logins too: leave out users, client_ca and "
                "[[clients]], or --observe"
            )
        if self.is_observing and is_limited(self.access):
            raise ConfigError(
                "--observe passes everything through: it keeps nobody from a topic, a group or "
                "writing; leave out the lists and --read-only, or --observe"
            )

    def check_directories(self) -> None:
        """ConfigError: a directory is missing."""
        if self.spool_dir is not None and not Path(self.spool_dir).is_dir():
            raise ConfigError(f"spool_dir {self.spool_dir}: there is no such directory")

    def _check_names(self) -> None:
        if not self.goes_by_name:
            if self.advertised_without_name is not None or self.server_names:
                raise ConfigError(
                    "advertise_without_name and server_names are for brokers that share a port: "
                    "advertise HOST:PORT with {id} in the host"
                )
            return
        assert self.advertised is not None
        if not self.advertised.has_names or self.tls_cert is None:
            raise ConfigError(
                f"all brokers would be at port {self.advertised.port}: add {{id}} to the port, "
                "or to the host and give tls_cert, so that clients can name the one they want"
            )
        if self.advertised_without_name is not None and self.advertised_without_name.goes_by_name:
            raise ConfigError("advertise_without_name needs a port for each broker: add {id} to it")

    @property
    def takes_old_tls(self) -> bool:
        """Whether clients may use deprecated versions of TLS [RFC 8996]."""
        return self.tls_min_version in OLD_TLS

    @property
    def goes_by_name(self) -> bool:
        """Whether brokers share a port, so that server names identify them."""
        return self.advertised is not None and self.advertised.goes_by_name

    @property
    def has_node_ports(self) -> bool:
        """Whether each broker has a port of its own."""
        return not self.goes_by_name or self.advertised_without_name is not None

    def ports(self, port: int) -> Ports:
        """The ports of the brokers. `port`: the bound bootstrap port."""
        first = port + 1 if self.node_port_first is None else self.node_port_first
        return Ports(first, self.node_ports)

    def advertised_to(self, name: str | None, reached: str) -> Advertised:
        """The advertised addresses for a client. `name`: its requested server name, if any.
        `reached`: the address that it connected to."""
        if self.goes_by_name and name is None and self.advertised_without_name is not None:
            return self.advertised_without_name
        return self.advertised or Advertised(reached)

    def expects_proxy_header(self, address: str) -> bool:
        """Whether a connection from this address begins with a PROXY header."""
        return bool(self.proxy_networks) and is_in(address, self.proxy_networks)

    @property
    def default(self) -> Identified:
        """The rights of clients that no rule matches."""
        return Identified(name="", access=self.access, credentials=self.security.credentials)


def parse_address(text: str, default_port: int | None = 9092) -> Address:
    """Parses `host`, `host:port` or `[::1]:port`. Without a default, the port is required, and is
    not 0. ConfigError: invalid."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or (host and host.count(":") and not host.startswith("[")):
        host, port = text.strip(), str(default_port or "")
    host = host.removeprefix("[").removesuffix("]")
    if not colon and host.isdecimal():  # only a port was written
        host = ""
    # 0 (the system chooses) is only for the gateway's own ports.
    least = 1 if default_port is None else 0
    if not host or not port.isdecimal() or not least <= int(port) < 1 << 16:
        raise ConfigError(f"{text!r} is not an address: write HOST:PORT")
    return Address(host, int(port))
