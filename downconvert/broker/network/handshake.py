"""The start of a connection: TLS, and authentication by the client's certificate.

Not here: a login by SASL (handlers/sasl.py), matching rules to clients (access/guard.py)."""

from downconvert.access.identity import common_name
from downconvert.serving.tls import WANTS_READ, WANTS_WRITE

from .connection import Connection
from .served_connections import ServedConnections
from .serving import Serving


class Handshake:
    """The handshakes of the connections that one thread serves."""

    def __init__(self, serving: Serving, served: ServedConnections) -> None:
        self._broker = serving.broker
        self._limits = serving.limits
        self._memory = serving.memory
        self._served = served

    def advance(self, connection: Connection) -> bool:
        """Takes the next step of TLS. Returns whether it is done. Raises OSError if it failed."""
        try:
            connection.channel.do_handshake()
        except WANTS_READ:
            connection.waits_to_write = False
        except WANTS_WRITE:
            connection.waits_to_write = True
        else:
            connection.waits_to_write = connection.in_handshake = False
            self._take_certificate(connection)
            if not connection.authenticates:
                connection.request_started = None
        self._served.watch(connection)
        return not connection.in_handshake

    def settle(self, connection: Connection) -> None:
        """Called once the client is identified. It may then send larger requests, and keeps its
        place."""
        connection.authenticates = False
        connection.request_started = None
        memory = self._memory.of(connection.client.address)
        connection.incoming.settle(self._limits.request_size, memory)
        connection.place.settle()

    def _take_certificate(self, connection: Connection) -> None:
        """A client with a certificate that matches a rule need not log in."""
        client = connection.client
        client.certificate = common_name(connection.channel.getpeercert())
        if client.certificate is not None and connection.authenticates:
            found = self._broker.guard.find(client.address, None, client.certificate)
            if found is not None:
                self.settle(connection)
