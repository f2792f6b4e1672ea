"""One request from its frame: the header that says what it is, and its body.

Not here: which versions are served (apis.py), what is done with them."""

from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from downconvert.broker.errors import BadRequestError

from .decoder import Cursor, decode, reader
from .malformed import bad_length
from .schemas import ApiKey, Message, is_flexible, schema

START: Final = Struct(">hhih")  # API, version, correlation id, length of the client id
FLEXIBLE_HEADER: Final = 2  # the header's version with tagged fields
KNOWN: Final[dict[int, ApiKey]] = {api.value: api for api in ApiKey}
NAMES: Final = {api: api.name for api in ApiKey}
MESSAGES: Final = {api: f"{api.name}Request" for api in ApiKey}


class Start(NamedTuple):
    """What every request begins with. `api`: None where the API is not known here."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None
    api: ApiKey | None
    size: int  # bytes: where in the frame the body begins, if the API is known


@dataclass(slots=True)
class RequestHeader:
    """The header of a request whose API is known."""

    api: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    size: int  # bytes: where in the frame the body begins


class Request:
    """A request that can be answered."""

    __slots__ = ("api", "body", "header", "name", "size", "version")

    def __init__(self, header: RequestHeader, body: Message, size: int) -> None:
        self.header = header
        self.body = body  # byte strings in it are views of the frame
        self.size = size  # bytes of the frame
        self.api = header.api
        self.name = NAMES[header.api]  # of the API
        self.version = header.version


def parse_start(frame: memoryview) -> Start:
    """How a request's frame begins, without its length. BadRequestError: it is malformed."""
    cursor = Cursor(frame)
    key, version, correlation_id, length = START.unpack_from(frame, cursor.take(START.size))
    if length < -1:
        raise bad_length("client_id", cursor.position, length)
    client_id = None if length < 0 else cursor.text(length, "client_id")
    api = KNOWN.get(key)
    if api is not None and is_flexible(api, version) and frame[cursor.take(1)]:
        cursor = Cursor(frame)  # it has tagged fields
        reader("RequestHeader", FLEXIBLE_HEADER)(cursor)
    return Start(key, version, correlation_id, client_id, api, cursor.position)


def parse_header(frame: memoryview) -> RequestHeader:
    """The header of a request's frame, without its length. BadRequestError: it is malformed, or
    of an API that is not known here."""
    key, version, correlation_id, client_id, api, size = parse_start(frame)
    if api is None:
        raise BadRequestError(f"API {key} is not known here")
    return RequestHeader(api, version, correlation_id, client_id, size)


def parse_body(header: RequestHeader, frame: memoryview) -> Request:
    """The request. BadRequestError: its bytes are none of this version."""
    name = MESSAGES[header.api]
    if not 0 <= header.version <= schema(name).newest:
        raise BadRequestError(f"{name} has no version {header.version}")
    return Request(header, decode(name, header.version, frame[header.size :]), len(frame))
