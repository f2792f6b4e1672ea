"""Responses of the gateway's own: their version, their error codes, and whether they are the
last."""

from io import BytesIO
from typing import Any

import pytest

from downconvert.broker import ErrorCode
from downconvert.gateway.session.answering import answered, over_limit, versions_unsupported, whole
from downconvert.gateway.session.exchanges import HangUp, Response, Whole
from downconvert.gateway.session.headers import Header, parse
from downconvert.protocol.responses import ResponseSend
from downconvert.protocol.schemas import ApiKey, Message, schema
from tests.downconvert.broker.asking import frame, parsed

OFFERED = range(2, 5)
REASON = "it has 9 connections"


def header(api: ApiKey, version: int, body: Message) -> Header:
    return parse(memoryview(frame(api, version, body)))


def bytes_of(send: ResponseSend) -> bytes:
    channel = BytesIO()
    while not send.completed:
        send.write_to(channel)
    return channel.getvalue()


@pytest.mark.parametrize("version", [None, 1])
def test_a_response_has_the_requests_version_unless_another_is_given(version: int | None) -> None:
    asked = header(ApiKey.SaslAuthenticate, 2, Message(auth_bytes=b""))
    body = Message(error_code=58, error_message="no", auth_bytes=b"", session_lifetime_ms=7)
    found = answered(asked, body, version=version)
    response = parsed(ApiKey.SaslAuthenticate, version or 2, bytes_of(found.send))
    assert (response.error_code, response.error_message, response.session_lifetime_ms) == (
        58,
        "no",
        7,
    )
    assert found.errors == {58: 1}
    assert found.ends is None
    assert answered(asked, body, ends=HangUp(REASON)).ends == HangUp(REASON)


def test_an_unknown_version_is_answered_in_the_first_with_the_offered_ones() -> None:
    asked = header(ApiKey.ApiVersions, 3, Message(client_software_name="a"))
    found = versions_unsupported(asked, OFFERED)
    response = parsed(ApiKey.ApiVersions, 0, bytes_of(found.send))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    (one,) = response.api_keys
    assert (one.api_key, one.min_version, one.max_version) == (ApiKey.ApiVersions, 2, 4)
    assert found.ends is None


@pytest.mark.parametrize("version", range(schema("ApiVersionsRequest").newest + 1))
def test_a_client_over_its_limit_gets_an_error_in_each_version_that_has_one(
    version: int,
) -> None:
    asked = header(ApiKey.ApiVersions, version, Message(client_software_name="a"))
    found = over_limit(asked, REASON)
    assert isinstance(found, Response)
    response = parsed(ApiKey.ApiVersions, version, bytes_of(found.send))
    assert (response.error_code, response.api_keys) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, [])
    assert found.errors == {ErrorCode.THROTTLING_QUOTA_EXCEEDED: 1}
    assert found.ends == HangUp(REASON, is_over_limit=True)


def test_any_other_client_over_its_limit_is_cut_off() -> None:
    unknown = memoryview(bytes.fromhex("0012 0063 00000007 ffff 00"))  # ApiVersions v99
    metadata = header(ApiKey.Metadata, 1, Message(topics=[]))
    for asked in (parse(unknown), metadata):
        assert over_limit(asked, REASON) == HangUp(REASON, is_over_limit=True)


def test_the_rest_of_a_request_is_asked_for_only_if_it_has_not_arrived() -> None:
    def run(frame: bytes, size: int) -> tuple[list[Any], Any]:
        steps, asked = whole(memoryview(frame), size), []
        result: Any = None
        try:
            while True:
                asked.append(steps.send(result))
                result = memoryview(b"abcdef")
        except StopIteration as end:
            return asked, bytes(end.value)

    assert run(b"abc", 3) == ([], b"abc")
    assert run(b"abc", 6) == ([Whole()], b"abcdef")
