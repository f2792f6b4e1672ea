"""Asks a broker, one request at a time, in any version."""

import socket
from contextlib import suppress
from struct import Struct
from typing import Final

from downconvert.broker.errors import BadRequestError
from downconvert.broker.wire.decoder import Cursor, reader
from downconvert.broker.wire.encoder import encode
from downconvert.broker.wire.schemas import ApiKey, Message, is_flexible

TIMEOUT: Final = 30.0  # seconds, for an answer
ANSWER_MAX: Final = 64 * 1024 * 1024  # bytes
CLIENT_ID: Final = "downconvert-conformance"
_LENGTH: Final = Struct(">i")


class ConformanceError(Exception):
    """The broker cannot be judged: it does not answer, or refuses what writing takes."""


class Connection:
    """To one broker. ConformanceError: it hung up, or answers what is no answer."""

    def __init__(self, host: str, port: int) -> None:
        self.name = f"{host}:{port}"
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection((host, port), timeout=TIMEOUT)
        except (OSError, UnicodeError) as error:  # a broker may name one by what is no name
            why = error.strerror if isinstance(error, OSError) else None
            raise ConformanceError(f"{self.name}: {why or error}") from None

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()

    def ask(self, api: ApiKey, version: int, body: Message) -> Message:
        """Its answer to a request of this version."""
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
            self._socket.sendall(_LENGTH.pack(len(frame)) + frame)
            (size,) = _LENGTH.unpack(self._take(_LENGTH.size))
            if not 4 <= size <= ANSWER_MAX:
                raise ConformanceError(f"{self.name}: an answer of {size} bytes")
            cursor = Cursor(memoryview(self._take(size)))
            # ApiVersions is answered with the oldest header, for clients that do not know newer.
            has_tags = flexible and api is not ApiKey.ApiVersions
            start = reader("ResponseHeader", 1 if has_tags else 0)(cursor)
            if start.correlation_id != self._correlation_id:
                raise ConformanceError(f"{self.name}: an answer to another request")
            answer: Message = reader(f"{api.name}Response", version)(cursor)
        except (OSError, EOFError) as error:
            words = f"{api.name} v{version}: {error}"
            raise ConformanceError(f"{self.name}: {words}") from None
        except BadRequestError as error:
            words = f"its answer to {api.name} v{version} cannot be read: {error}"
            raise ConformanceError(f"{self.name}: {words}") from None
        return answer

    def _take(self, size: int) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            piece = self._socket.recv(min(size - len(taken), 1 << 20))
            if not piece:
                raise EOFError("it closed the connection")
            taken += piece
        return bytes(taken)
