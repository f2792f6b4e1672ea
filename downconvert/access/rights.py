"""The rights of clients: which topics, groups and transactional ids they may use and write to.

Not here: which client has which rights (identity.py), the names in requests (permissions.py)."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from . import operations
from .operations import Kind

Network: TypeAlias = IPv4Network | IPv6Network


class ConfigError(Exception):
    """A setting is invalid. The message says what to write instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The rights of a client.

    Lists are shell patterns. Without any list, a client may do everything, or read everything if it
    `is_read_only`. With a list, it `is_closed`: it may use only names in lists. But a client that
    `is_read_only` without `topics` still reads all topics."""

    networks: tuple[Network, ...] = ()  # empty: all
    topics: tuple[str, ...] = ()  # may be read; may also be written to if `written_topics` is empty
    written_topics: tuple[str, ...] = ()  # a part of `topics`, if that is set
    groups: tuple[str, ...] = ()  # its own
    transactional_ids: tuple[str, ...] = ()  # its own
    is_read_only: bool = False
    denies_unnamed: bool = False  # whether it is closed even without a list
    follower_ids: frozenset[int] = frozenset()  # the brokers that it may fetch as
    producer_byte_rate: float | None = None  # bytes a second of each client's produce requests
    consumer_byte_rate: float | None = None  # bytes a second of the responses to its fetches
    connections: int | None = None  # at a time, for each client
    connection_creation_rate: float | None = None  # connections a second of each client
    request_percentage: float | None = None  # of one core's time, for each client's requests
    has_rates: bool = field(init=False, repr=False, compare=False)
    is_closed: bool = field(init=False, repr=False, compare=False)  # unlisted names are denied

    def __post_init__(self) -> None:
        rates = (self.producer_byte_rate, self.consumer_byte_rate, self.request_percentage)
        object.__setattr__(self, "has_rates", rates != (None, None, None))
        object.__setattr__(self, "is_closed", self.denies_unnamed or self.has_lists)

    def admits(self, address: str) -> bool:
        """Whether a client at this address may connect."""
        return is_in(address, self.networks)

    def operations(self, kind: Kind, name: str) -> int:
        """Kafka's operations that the client may do on a resource, as bits. A cluster has no
        name."""
        match kind:
            case Kind.TOPIC:
                reads = operations.READING if self._reads(name) else operations.NO_OPERATION
                return reads | (
                    operations.CHANGING if self._changes(name) else operations.NO_OPERATION
                )
            case Kind.GROUP:
                return self._of_group(name)
            case Kind.TRANSACTIONAL_ID:
                return self._of_transactional_id(name)
        if self.is_closed:
            return operations.NO_OPERATION
        return operations.LOOKING if self.is_read_only else operations.ALL[Kind.CLUSTER]

    def allows(self, topic: str) -> bool:
        """Whether the client may name a topic, and so may know that it exists."""
        return self._reads(topic) or self._changes(topic)

    def allows_writing(self, topic: str) -> bool:
        """Whether a topic may be written to, created, changed or deleted."""
        return self._changes(topic)

    def allows_group(self, group: str) -> bool:
        """Whether a group may be named."""
        return bool(self._of_group(group))

    @property
    def has_lists(self) -> bool:
        """Whether there is a list of names."""
        return bool(self.topics or self.written_topics or self.groups or self.transactional_ids)

    @property
    def writes_somewhere(self) -> bool:
        """Whether it may write to any topic. If so, it may be an idempotent producer [KIP-679]."""
        if self.is_read_only:
            return False
        return bool(self.topics or self.written_topics) or not self.is_closed

    def _reads(self, topic: str) -> bool:
        if self.topics:
            return _matches(topic, self.topics)
        return self.is_read_only or not self.is_closed

    def _changes(self, topic: str) -> bool:
        if self.is_read_only:
            return False
        if self.written_topics and not _matches(topic, self.written_topics):
            return False
        if self.topics:
            return _matches(topic, self.topics)
        return bool(self.written_topics) or not self.is_closed

    def _of_group(self, group: str) -> int:
        """A read-only client with a list of groups may use these. It may only describe other
        groups, because joining, leaving and committing change a group for all members."""
        if self.groups:
            if not _matches(group, self.groups):
                return operations.NO_OPERATION
            return operations.READING if self.is_read_only else operations.ALL[Kind.GROUP]
        if self.is_closed:
            return operations.NO_OPERATION
        return operations.LOOKING if self.is_read_only else operations.ALL[Kind.GROUP]

    def _of_transactional_id(self, name: str) -> int:
        is_listed = _matches(name, self.transactional_ids)
        if not is_listed and (self.transactional_ids or self.is_closed):
            return operations.NO_OPERATION
        if self.is_read_only:
            return operations.DESCRIBE
        return operations.ALL[Kind.TRANSACTIONAL_ID]


def is_in(address: str, networks: tuple[Network, ...]) -> bool:
    """Whether an address is in one of the networks. Without networks, every address is."""
    if not networks:
        return True
    host = ip_address(address.partition("%")[0])
    mapped = getattr(host, "ipv4_mapped", None)
    return any((mapped or host) in network for network in networks)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def parse_network(text: str) -> Network:
    """Parses `10.0.0.0/8`, or one address. ConfigError."""
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        raise ConfigError(f"{text!r} is not a network: write for example 10.1.0.0/16") from None
