"""Sends requests to a broker, one at a time, in any version."""

import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from typing import Final

from downconvert.gateway.network.sasl import AuthenticationError, authenticate
from downconvert.gateway.security import Credentials
from downconvert.protocol.decoder import Cursor, reader
from downconvert.protocol.encoder import encode
from downconvert.protocol.errors import BadRequestError, name_of
from downconvert.protocol.schemas import ApiKey, Message, is_flexible
from records.units import MiB

TIMEOUT: Final = 30.0  # seconds, for a whole response
TIMEOUT_MIN: Final = 0.001  # a socket does not wait at all with 0
RESPONSE_MAX: Final = 64 * MiB  # bytes
CLIENT_ID: Final = "downconvert-conformance"
_LENGTH: Final = Struct(">i")
_TLS_ALERT: Final = b"\x15\x03"  # sent by a listener with TLS to a client without [RFC 8446, 5.1]


def named(code: int) -> str:
    """A broker's error code, with its name if Kafka has one."""
    name = name_of(code)
    return f"error {code}" if name == str(code) else f"error {code} ({name})"


class ConformanceError(Exception):
    """The broker cannot be judged: it does not answer, or refuses requests needed for writing."""


class SilentError(ConformanceError):
    """A request was not answered in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The way to connect to brokers: with TLS if there is a context, authenticated if there are
    credentials."""

    tls: ssl.SSLContext | None = None
    credentials: Credentials | None = None


PLAIN: Final = Access()


class Connection:
    """A connection to one broker. ConformanceError: it hangs up, or sends no valid response, or
    refuses us."""

    def __init__(self, host: str, port: int, access: Access = PLAIN) -> None:
        self.name = f"{host}:{port}"
        self._correlation_id = 0
        self._has_login = access.credentials is not None
        try:
            self._socket = socket.create_connection((host, port), timeout=TIMEOUT)
            if access.tls is not None:
                self._socket = access.tls.wrap_socket(self._socket, server_hostname=host)
        except (OSError, ValueError) as error:  # a broker's metadata may have invalid host names
            why = error.strerror if isinstance(error, OSError) else None
            raise ConformanceError(f"{self.name}: {why or error}") from None
        if access.credentials is not None:
            try:
                self._log_in(access.credentials)
            except ConformanceError:
                self.close()
                raise

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()

    def ask(self, api: ApiKey, version: int, body: Message) -> Message:
        """Sends a request of this version and returns the broker's response."""
        self._correlation_id += 1
        header = Message(
            request_api_key=api,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=CLIENT_ID,
        )
        flexible = is_flexible(api, version)
        frame = encode("RequestHeader", 2 if flexible else 1, header)
        frame += encode(f"{api.name}Request", version, body)
        try:
            self._socket.settimeout(TIMEOUT)
            self._socket.sendall(_LENGTH.pack(len(frame)) + frame)
            deadline = time.monotonic() + TIMEOUT
            length = self._take(_LENGTH.size, deadline)
            if length.startswith(_TLS_ALERT):
                raise ConformanceError(f"{self.name}: it speaks TLS: add --tls or --ca")
            (size,) = _LENGTH.unpack(length)
            if not 4 <= size <= RESPONSE_MAX:
                raise ConformanceError(
                    f"{self.name}: a response of {size} bytes; is it a Kafka broker?"
                )
            cursor = Cursor(memoryview(self._take(size, deadline)))
            # ApiVersions is answered with the oldest header, for clients that do not know newer.
            has_tags = flexible and api is not ApiKey.ApiVersions
            start = reader("ResponseHeader", 1 if has_tags else 0)(cursor)
            if start.correlation_id != self._correlation_id:
                raise ConformanceError(f"{self.name}: a response to another request")
            response: Message = reader(f"{api.name}Response", version)(cursor)
        except TimeoutError:
            words = f"{api.name} v{version}: no response within {TIMEOUT:g} s"
            raise SilentError(f"{self.name}: {words}") from None
        except (OSError, EOFError) as error:
            words = f"{api.name} v{version}: {error}"
            if isinstance(error, EOFError) and not (self._has_login or api is ApiKey.ApiVersions):
                words += ", as a broker does that wants a login"
            raise ConformanceError(f"{self.name}: {words}") from None
        except BadRequestError as error:
            words = f"its response to {api.name} v{version} cannot be read: {error}"
            raise ConformanceError(f"{self.name}: {words}") from None
        return response

    def _log_in(self, credentials: Credentials) -> None:
        steps = authenticate(credentials)
        try:
            step = next(steps)
            while True:
                assert step.body is not None, "a login passes no client's requests on"
                step = steps.send(self.ask(step.api, step.version, step.body))
        except StopIteration:
            return
        except AuthenticationError as error:
            raise ConformanceError(f"{self.name}: {error}") from None

    def _take(self, size: int, deadline: float) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            self._socket.settimeout(max(deadline - time.monotonic(), TIMEOUT_MIN))
            piece = self._socket.recv(min(size - len(taken), MiB))
            if not piece:
                raise EOFError("it closed the connection")
            taken += piece
        return bytes(taken)
