"""Parses one request from its frame: the header and the body.

Not here: which versions are served (apis.py), handling a request."""

import struct
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from .decoder import TEXT_MAX, Cursor, reader
from .errors import BadRequestError
from .schemas import ApiKey, Message, flexible_versions, schema

START: Final = Struct(">hhih")  # API, version, correlation id, length of the client id
FLEXIBLE_HEADER: Final = 2  # the header's version with tagged fields
KNOWN: Final[dict[int, ApiKey]] = {api.value: api for api in ApiKey}
NAMES: Final = {api: api.name for api in ApiKey}
MESSAGES: Final = {api: f"{api.name}Request" for api in ApiKey}


# The start of every request: the API's number, the version, the correlation id, the client id, the
# API (None: unknown), and the position of the body in the frame (in bytes; only for a known API).
Start: TypeAlias = tuple[int, int, int, str | None, ApiKey | None, int]


class RequestHeader(NamedTuple):
    """The header of a request with a known API."""

    api: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    size: int  # bytes: where in the frame the body begins


class Request:
    """A request that can be answered.

    derived: what its handler computes from its bytes alone. Requests with the same bytes share
    `derived` and `body`. elements: of all arrays in its body."""

    __slots__ = ("api", "body", "derived", "elements", "header", "name", "size", "version")

    def __init__(self, header: RequestHeader, body: Message, size: int, elements: int = 0) -> None:
        self.header = header
        self.body = body  # byte strings in it are views of the frame
        self.size = size  # bytes of the frame
        self.elements = elements
        self.derived: object = None
        self.api = header.api
        self.name = NAMES[header.api]  # of the API
        self.version = header.version


def parse_start(frame: memoryview) -> Start:
    """Parses the start of a frame, without its length. Raises BadRequestError if malformed."""
    try:
        key, version, correlation_id, length = START.unpack_from(frame)
    except struct.error:
        Cursor(frame).take(START.size)  # raises the error for an early end
        raise
    at = START.size
    client_id = None
    if length > 0 and length <= len(frame) - at:
        try:
            client_id = frame[at : at + length].tobytes().decode()
        except UnicodeDecodeError:
            client_id = _replaced(frame[at : at + length])
        at += length
    elif length >= 0:
        client_id = Cursor(frame, at).text(length, "client_id")
    api = KNOWN.get(key)
    if api is not None and version in flexible_versions(api):
        if at == len(frame):
            Cursor(frame, at).take(1)  # raises the error for an early end
        if frame[at]:  # it has tagged fields
            cursor = Cursor(frame)
            reader("RequestHeader", FLEXIBLE_HEADER)(cursor)
            at = cursor.position
        else:
            at += 1
    return key, version, correlation_id, client_id, api, at


def _replaced(client_id: memoryview) -> str:
    """A client id that is not UTF-8, with U+FFFD in place of what is wrong, as in Kafka. Nothing
    depends on it but logs, metrics and what other clients are told. Raises BadRequestError if no
    response could hold it."""
    text = client_id.tobytes().decode(errors="replace")
    if len(text.encode()) > TEXT_MAX:
        raise BadRequestError("client_id is not UTF-8, and too long")
    return text


def parse_header(frame: memoryview) -> RequestHeader:
    """Parses the header of a frame, without its length. Raises BadRequestError if it is malformed,
    or its API is unknown."""
    key, version, correlation_id, client_id, api, size = parse_start(frame)
    if api is None:
        raise BadRequestError(f"API {key} is not known here")
    # As `RequestHeader(…)`, without a call in between.
    return tuple.__new__(RequestHeader, (api, version, correlation_id, client_id, size))


def parse_body(header: RequestHeader, frame: memoryview) -> Request:
    """Parses the request. Raises BadRequestError if its bytes do not match this version."""
    name = MESSAGES[header.api]
    if not 0 <= header.version <= schema(name).newest:
        raise BadRequestError(f"{name} has no version {header.version}")
    cursor = Cursor(frame[header.size :])
    body: Message = reader(name, header.version)(cursor)
    return Request(header, body, len(frame), cursor.elements)
