"""The names and ports that the gateway advertises for the cluster's brokers.

The operator sets a pattern, such as `broker-{id}.kafka.example.com:{9100+id}`. `{id}` stands for
the broker's id, in the host and in the port. In the port, a number may be added to the id. If the
pattern has no port, the gateway advertises its listening port for the broker. So advertised ports
may differ from listening ports.

With one port for all brokers, as in `broker-{id}.kafka.example.com:9093`, the server name that a
TLS client requests (SNI) identifies the broker.

Not here: the listening ports (topology.py, listeners.py)."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from downconvert.access.rights import ConfigError
from downconvert.protocol.errors import BadRequestError

ID: Final = "{id}"
PORT: Final = re.compile(r"(?P<plain>\d{1,5})|\{(?:(?P<first>\d{1,5})\s*\+\s*)?id\}")
NAME: Final = re.compile(r"(?:[^\s{}:/]|\{id\})+")
NODE: Final = r"(0|[1-9]\d{0,9})"
PORT_MAX: Final = 65_535


@dataclass(frozen=True)
class Advertised:
    """The brokers' pattern. `port`: one port for all brokers. `port_first`: the port of broker 0;
    other brokers add their id."""

    host: str
    port: int | None = None
    port_first: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Advertised":
        """Parses `HOST` or `HOST:PORT`. Host and port may contain the broker's id. ConfigError."""
        text = text.strip()
        host, colon, port = text.rpartition(":")
        if not colon or (host.count(":") and not host.startswith("[")):  # or an IPv6 address
            host, colon, port = text, "", ""
        bare = host.removeprefix("[").removesuffix("]")
        found = PORT.fullmatch(port)
        if not (NAME.fullmatch(bare.replace(":", "")) and (found or not colon)):
            raise ConfigError(
                f"{text!r} cannot be advertised: write HOST, or HOST:PORT with {{id}} where "
                "brokers differ, such as broker-{id}.example.com:{9100+id}"
            )
        if found is None:
            return cls(bare)
        if found["plain"] is None:
            return cls(bare, port_first=int(found["first"] or 0))
        if not 0 < int(port) <= PORT_MAX:
            raise ConfigError(f"{text!r}: ports are 1 to {PORT_MAX}")
        return cls(bare, port=int(port))

    @property
    def goes_by_name(self) -> bool:
        """Whether only the server name identifies the broker that a client wants."""
        return self.port is not None

    @property
    def has_names(self) -> bool:
        """Whether each broker has a name of its own."""
        return ID in self.host

    def address(self, node_id: int, inside: Callable[[int], int]) -> tuple[str, int]:
        """The advertised address of a broker. `inside`: returns the listening port of a broker.
        BadRequestError: the pattern gives no valid port for it."""
        host = self.host.replace(ID, str(node_id))
        if self.port is not None:
            return host, self.port
        if self.port_first is None:
            return host, inside(node_id)
        port = self.port_first + node_id
        if not 0 < port <= PORT_MAX:
            raise BadRequestError(
                f"broker {node_id} would be advertised at port {port}: ports are 1 to {PORT_MAX}"
            )
        return host, port

    def node_of(self, name: str) -> int | None:
        """The broker with this name. None: there is none."""
        found = self._names.fullmatch(name.removesuffix("."))
        ids = set() if found is None else set(found.groups())
        return int(ids.pop()) if len(ids) == 1 else None

    @cached_property
    def _names(self) -> re.Pattern[str]:
        parts = (re.escape(part) for part in self.host.split(ID))
        return re.compile(NODE.join(parts), re.IGNORECASE)
