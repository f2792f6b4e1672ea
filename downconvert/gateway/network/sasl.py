"""Authenticates the gateway to the cluster by SASL.

PLAIN [RFC 4616], SCRAM-SHA-256 and -512 [RFC 5802, by scramp], OAUTHBEARER [RFC 7628]."""

from collections.abc import Generator

from downconvert.gateway.security import Credentials
from downconvert.gateway.session.exchanges import Ask
from downconvert.protocol.schemas import ApiKey, Message

HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 1


class AuthenticationError(Exception):
    """The cluster did not accept the gateway, or did not prove its identity."""


def authenticate(credentials: Credentials) -> Generator[Ask, Message, None]:
    """Yields the requests that authenticate the connection. AuthenticationError."""
    body = Message(mechanism=credentials.mechanism)
    response = yield Ask(ApiKey.SaslHandshake, HANDSHAKE_VERSION, body)
    if response.error_code:
        known = ", ".join(response.mechanisms) or "none"
        raise AuthenticationError(
            f"the cluster does not take {credentials.mechanism}; it takes: {known}"
        )
    match credentials.mechanism:
        case "PLAIN":
            token = f"\0{credentials.username}\0{credentials.secret}"
            yield from _send(token.encode())
        case "OAUTHBEARER":
            yield from _send(f"n,,\1auth=Bearer {credentials.secret}\1\1".encode())
        case mechanism:
            yield from _scram(credentials, mechanism)


def _send(token: bytes) -> Generator[Ask, Message, bytes]:
    body = Message(auth_bytes=token)
    response = yield Ask(ApiKey.SaslAuthenticate, AUTHENTICATE_VERSION, body)
    if response.error_code:
        raise AuthenticationError(response.error_message or "the cluster refused the credentials")
    return bytes(response.auth_bytes)


def _scram(credentials: Credentials, mechanism: str) -> Generator[Ask, Message, None]:
    from scramp import ScramClient, ScramException

    client = ScramClient([mechanism], credentials.username, credentials.secret)
    try:
        answered = yield from _send(client.get_client_first().encode())
        client.set_server_first(answered.decode())
        answered = yield from _send(client.get_client_final().encode())
        client.set_server_final(answered.decode())
    except (ScramException, UnicodeDecodeError) as error:
        raise AuthenticationError(f"the cluster's {mechanism} is wrong: {error}") from None
