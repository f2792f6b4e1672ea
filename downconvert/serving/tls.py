"""TLS on the server's side, over non-blocking sockets.

Not here: reading the files (pem.py), when a socket is ready (processor.py)."""

import ssl
from pathlib import Path
from socket import socket
from typing import Final

from .pem import load_authorities, load_pair
from .trust import trust_as_kafka

# Raised by a TLS connection that has to wait for the socket.
WANTS_READ: Final = ssl.SSLWantReadError
WANTS_WRITE: Final = ssl.SSLWantWriteError
# Raised once the client has gone, as ConnectionError is by a socket without TLS.
HAS_GONE: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)


def server_context(
    certificate: Path, key: Path | None = None, client_ca: Path | None = None
) -> ssl.SSLContext:
    """A context for a certificate chain and its key, as PEM. Both may be in one file. `client_ca`:
    the CA of clients' certificates. A client without one may still log in, or be identified by its
    network. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    trust_as_kafka(context)
    load_pair(context, certificate, key, ("--tls-cert", "--tls-key"))
    if client_ca is not None:
        load_authorities(context, client_ca, "client_ca")
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def wrap(context: ssl.SSLContext, channel: socket) -> ssl.SSLSocket:
    """A channel before its handshake. Raises OSError if the client has gone."""
    return context.wrap_socket(channel, server_side=True, do_handshake_on_connect=False)


def has_pending(channel: socket) -> bool:
    """Whether TLS holds bytes that the selector does not see."""
    return isinstance(channel, ssl.SSLSocket) and channel.pending() > 0
