"""What clients may do: which topics, groups and transactional ids they may name, and write to.

Not here: who has which rights (identity.py), what requests name (permissions.py)."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TypeAlias

Network: TypeAlias = IPv4Network | IPv6Network


class ConfigError(Exception):
    """A setting is invalid. The message says what to write instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What clients may do."""

    networks: tuple[Network, ...] = ()  # empty: all
    topics: tuple[str, ...] = ()  # shell patterns; empty: all
    written_topics: tuple[str, ...] = ()  # likewise: of those, the ones that may be changed
    groups: tuple[str, ...] = ()  # likewise
    transactional_ids: tuple[str, ...] = ()  # likewise
    is_read_only: bool = False
    producer_byte_rate: float | None = None  # bytes a second of each client's produces
    consumer_byte_rate: float | None = None  # and of the answers to its fetches

    def admits(self, address: str) -> bool:
        """Whether a client at this address may connect."""
        return is_in(address, self.networks)

    def allows(self, topic: str) -> bool:
        """Whether a topic may be named."""
        return _matches(topic, self.topics)

    def allows_writing(self, topic: str) -> bool:
        """Whether a topic may be written to, made, changed or deleted."""
        if self.is_read_only:
            return False
        return self.allows(topic) and _matches(topic, self.written_topics)

    def allows_group(self, group: str) -> bool:
        """Whether a group may be named."""
        return _matches(group, self.groups)

    def allows_transactional_id(self, name: str) -> bool:
        """Whether a transactional id may be named."""
        return _matches(name, self.transactional_ids)

    @property
    def has_lists(self) -> bool:
        """Whether the client may use only some names."""
        return bool(self.topics or self.written_topics or self.groups or self.transactional_ids)


def is_in(address: str, networks: tuple[Network, ...]) -> bool:
    """Whether an address is in one of the networks; without any, each is."""
    if not networks:
        return True
    host = ip_address(address.partition("%")[0])
    mapped = getattr(host, "ipv4_mapped", None)
    return any((mapped or host) in network for network in networks)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def parse_network(text: str) -> Network:
    """`10.0.0.0/8`, or one address. ConfigError."""
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        raise ConfigError(f"{text!r} is no network: write for example 10.1.0.0/16") from None
