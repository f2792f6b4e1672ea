"""One request from its frame: the header that says what it is, and its body.

Not here: which versions are served (apis.py), what is done with them."""

from dataclasses import dataclass

from downconvert.broker.errors import BadRequestError

from .decoder import Cursor, decode, reader
from .schemas import ApiKey, Message, is_flexible, schema

CLASSIC_HEADER, FLEXIBLE_HEADER = 1, 2


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """What every request begins with."""

    api: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    size: int  # bytes: where in the frame the body begins


@dataclass(frozen=True, slots=True)
class Request:
    """A request that can be answered."""

    header: RequestHeader
    body: Message  # byte strings in it are views of the frame
    size: int  # bytes of the frame

    @property
    def api(self) -> ApiKey:
        return self.header.api

    @property
    def version(self) -> int:
        return self.header.version


def parse_header(frame: memoryview) -> RequestHeader:
    """The header of a request's frame, without its length. BadRequestError: it is malformed."""
    cursor = Cursor(frame)
    start = reader("RequestHeader", CLASSIC_HEADER)(cursor)
    try:
        api = ApiKey(start.request_api_key)
    except ValueError:
        raise BadRequestError(f"API {start.request_api_key} is not known here") from None
    if is_flexible(api, start.request_api_version):
        cursor = Cursor(frame)
        reader("RequestHeader", FLEXIBLE_HEADER)(cursor)
    return RequestHeader(
        api, start.request_api_version, start.correlation_id, start.client_id, cursor.position
    )


def parse_body(header: RequestHeader, frame: memoryview) -> Request:
    """The request. BadRequestError: its bytes are none of this version."""
    name = f"{header.api.name}Request"
    if not 0 <= header.version <= schema(name).newest:
        raise BadRequestError(f"{name} has no version {header.version}")
    return Request(header, decode(name, header.version, frame[header.size :]), len(frame))
