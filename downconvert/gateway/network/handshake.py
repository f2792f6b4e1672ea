"""Finds the broker that a connecting client wants, before its TLS handshake is over.

The port that it connected to identifies the broker. If brokers share a port, the requested server
name (SNI) does.

Not here: names and patterns (advertised.py)."""

import sys
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.topology import BOOTSTRAP

# A fatal alert, unrecognized_name [RFC 8446, 5.1 and 6; RFC 6066, 3], as an unencrypted record. It
# is sent here because asyncio closes the connection without sending OpenSSL's alert.
ALERT: Final = bytes.fromhex("15 0303 0002 02 70")
NAME_SHOWN_MAX: Final = 100  # characters of a requested name


@dataclass(slots=True)
class Handshake:
    """One handshake. node_id: the broker that the client wants. refusal: why the handshake is
    ended. send: writes to the client without waiting. reached: the address that it connected to;
    None: the socket's."""

    node_id: int = BOOTSTRAP
    send: Callable[[bytes], int] = len
    name: str | None = None
    refusal: str = ""
    reached: str | None = None
    connection: int = 0  # its number, for logs

    def take_server_name(
        self, name: str | None, config: GatewayConfig, nodes: Container[int]
    ) -> None:
        """Takes the server name in the ClientHello. None: it has none. `nodes`: the known
        brokers."""
        self.name = name
        advertised = config.advertised
        if name is None or advertised is None or not advertised.goes_by_name:
            return
        node_id = advertised.node_of(name)
        shown = f"{name[:NAME_SHOWN_MAX]!r}"
        if node_id is not None and node_id in nodes:
            self.node_id = node_id
        elif node_id is not None:
            self.refusal = f"it asks for {shown}, and the cluster has no broker {node_id} now"
        elif config.server_names and name.removesuffix(".").lower() not in config.server_names:
            self.refusal = f"it asks for {shown}, which is not a name of this gateway"
        if self.refusal:
            with suppress(OSError):
                self.send(ALERT)


@contextmanager
def no_traceback_for_names() -> Iterator[None]:
    """Suppresses the traceback that CPython writes to standard error for each server name that is
    not ASCII. CPython also ends the handshake, which is logged."""
    former = sys.unraisablehook

    def hook(what: "sys.UnraisableHookArgs") -> None:
        is_name = isinstance(what.exc_value, UnicodeDecodeError) and isinstance(what.object, bytes)
        if not is_name:
            former(what)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        if sys.unraisablehook is hook:
            sys.unraisablehook = former


# The handshake of the current task. OpenSSL's callbacks run in the task's context.
HANDSHAKE: Final[ContextVar[Handshake]] = ContextVar("handshake")
