from contextlib import suppress
from random import Random

import pytest

from downconvert.gateway.session.headers import known, parse
from downconvert.protocol.decoder import Cursor, reader
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message, is_flexible
from tests.damage import mutated
from tests.downconvert.broker.asking import CORRELATION_ID, frame


def test_the_header_of_an_unknown_api_is_read() -> None:
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


TAGS = bytes.fromhex("02 00 02 6162 05 00")  # two: tag 0 of two bytes, tag 5 of none


def by_its_fields(frame: memoryview) -> tuple[object, ...]:
    """A header as its definition says that it is read."""
    cursor = Cursor(frame)
    start = reader("RequestHeader", 1)(cursor)
    api = known(start.request_api_key)
    if api is not None and is_flexible(api, start.request_api_version):
        cursor = Cursor(frame)
        reader("RequestHeader", 2)(cursor)
    named = start.request_api_key, start.request_api_version, start.correlation_id
    return *named, start.client_id, api, cursor.position


@pytest.mark.parametrize("version", [4, 12])
def test_whatever_a_header_holds_it_is_read_as_its_fields_are(version: int) -> None:
    plain = frame(ApiKey.Fetch, version, Message(topics=[]), "a client")
    end = parse(memoryview(plain)).size
    random, outcomes = Random(version), set()
    for _ in range(1000):
        whole = plain[: end - 1] + TAGS + plain[end:] if random.random() < 0.5 else plain
        data = memoryview(mutated(whole[: end + len(TAGS)], random))
        try:
            expected = by_its_fields(data)
        except BadRequestError as error:
            outcomes.add("no header")
            if "is not UTF-8" not in str(error):
                with pytest.raises(BadRequestError):
                    parse(data)
                continue
            with suppress(BadRequestError):  # more may be wrong
                assert "\N{REPLACEMENT CHARACTER}" in str(parse(data).client_id)
            continue
        outcomes.add("header")
        header = parse(data)
        named = header.key, header.version, header.correlation_id, header.client_id
        assert (*named, header.api, header.size) == expected
    assert outcomes == {"header", "no header"}
