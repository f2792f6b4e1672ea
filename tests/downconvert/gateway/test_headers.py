import pytest

from downconvert.broker.errors import BadRequestError
from downconvert.broker.wire.schemas import ApiKey, Message
from downconvert.gateway.headers import parse
from tests.downconvert.broker.asking import CORRELATION_ID, frame


def test_the_header_of_an_api_that_nobody_here_knows_is_read() -> None:
    header = parse(memoryview(bytes.fromhex("7000 0005 00000009 0002 6869 ffff")))
    assert (header.key, header.version, header.correlation_id) == (0x7000, 5, 9)
    assert (header.client_id, header.api, header.name) == ("hi", None, "API 28672 v5")


@pytest.mark.parametrize(("version", "name"), [(0, "Fetch v0"), (12, "Fetch v12")])
def test_the_body_begins_behind_the_header(version: int, name: str) -> None:
    whole = frame(ApiKey.Fetch, version, Message(topics=[]))
    header = parse(memoryview(whole))
    assert (header.name, header.correlation_id) == (name, CORRELATION_ID)
    body = frame(ApiKey.Fetch, version, Message(topics=[]), client_id="another")
    assert whole[header.size :] == body[parse(memoryview(body)).size :]


@pytest.mark.parametrize("size", range(10))
def test_half_a_header_is_no_request(size: int) -> None:
    with pytest.raises(BadRequestError):
        parse(memoryview(frame(ApiKey.Metadata, 0, Message(topics=[]), "client")[:size]))
