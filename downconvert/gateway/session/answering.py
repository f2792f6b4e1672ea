"""Makes responses: to a request with a header, and to a SASL token without one."""

from collections.abc import Generator
from typing import Final

from downconvert.protocol.error_codes import error_codes
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.requests import RequestHeader
from downconvert.protocol.responses import response
from downconvert.protocol.schemas import ApiKey, Message, schema

from .exchanges import HangUp, Reply, Response, Whole
from .headers import Header

VERSIONS: Final = range(schema("ApiVersionsRequest").newest + 1)  # of ApiVersions


def answered(
    header: Header,
    body: Message,
    *,
    version: int | None = None,
    ends: HangUp | None = None,
) -> Response:
    """The response to a request, in its version unless another is given."""
    request = request_header(header)
    send = response(request, body, version)
    errors = error_codes(request.api, body)
    return Response(send, ends=ends, errors=errors)


def versions_unsupported(header: Header, offered: range) -> Response:
    """The response to ApiVersions in a version that is not offered."""
    one = Message(
        api_key=ApiKey.ApiVersions, min_version=offered.start, max_version=offered.stop - 1
    )
    body = Message(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[one])
    return Response(response(request_header(header), body, version=0))


def over_limit(header: Header, reason: str) -> Reply:
    """Ends a connection beyond its client's limits. The response to ApiVersions has Kafka's error,
    after which clients connect again. Other requests have no field for an error in all versions."""
    ends = HangUp(reason, is_over_limit=True)
    if header.api is not ApiKey.ApiVersions or header.version not in VERSIONS:
        return ends
    body = Message(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED, api_keys=[])
    return answered(header, body, ends=ends)


def request_header(header: Header) -> RequestHeader:
    assert header.api is not None
    return RequestHeader(
        header.api, header.version, header.correlation_id, header.client_id, header.size
    )


def raw_token(token: bytes) -> bytearray:
    """A SASL token as a frame of its own."""
    return bytearray(len(token).to_bytes(4) + token)


def whole(frame: memoryview, size: int) -> Generator[Whole, memoryview, memoryview]:
    """The whole frame of a request. `frame`: the frame, or its beginning."""
    return (yield Whole()) if len(frame) < size else frame
