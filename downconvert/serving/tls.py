"""TLS on the server's side, over non-blocking sockets.

Not here: when a socket is ready (network_thread.py)."""

import ssl
from pathlib import Path
from socket import socket
from typing import Final

# Raised by a TLS connection that has to wait for the socket.
WANTS_READ: Final = ssl.SSLWantReadError
WANTS_WRITE: Final = ssl.SSLWantWriteError


class TlsError(Exception):
    """A certificate or a key that cannot be used."""


def server_context(
    certificate: Path, key: Path | None = None, client_ca: Path | None = None
) -> ssl.SSLContext:
    """A context for a certificate chain and its key, as PEM; both may be in one file. `client_ca`:
    the CA of clients' certificates. A client without one may still log in, or be identified by its
    network. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        names = f"{certificate}" + (f" and {key}" if key is not None else "")
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise TlsError(f"{names}: no certificate with its key in PEM: {reason}") from None
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except OSError as error:  # ssl.SSLError is one
            reason = error.strerror or error
            raise TlsError(f"those who sign clients' certificates, {client_ca}: {reason}") from None
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def wrap(context: ssl.SSLContext, channel: socket) -> ssl.SSLSocket:
    """A channel before its handshake. Raises OSError if the client has gone."""
    return context.wrap_socket(channel, server_side=True, do_handshake_on_connect=False)


def has_pending(channel: socket) -> bool:
    """Whether TLS holds bytes that the selector does not see."""
    return isinstance(channel, ssl.SSLSocket) and channel.pending() > 0
