"""Frames: the header says what a request is."""

from random import Random

import pytest

from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.requests import parse_body, parse_header
from downconvert.protocol.schemas import ApiKey, Message
from tests.damage import cut, flipped
from tests.downconvert.broker.asking import CORRELATION_ID, frame
from tests.downconvert.broker.messages import other, random_message


@pytest.mark.parametrize(("version", "client"), [(0, "me"), (11, None), (12, "ich"), (17, None)])
def test_a_frame_has_a_header_and_a_body(version: int, client: str | None) -> None:
    data = memoryview(frame(ApiKey.Fetch, version, Message(max_wait_ms=77), client))
    header = parse_header(data)
    assert (header.api, header.version) == (ApiKey.Fetch, version)
    assert (header.correlation_id, header.client_id) == (CORRELATION_ID, client)
    request = parse_body(header, data)
    assert (request.body.max_wait_ms, request.size) == (77, len(data))


@pytest.mark.parametrize("version", [11, 12])
def test_a_client_id_that_is_not_utf8_is_read_as_kafka_reads_it(version: int) -> None:
    """Old clients send what their system's encoding makes of a name."""
    data = frame(ApiKey.Fetch, version, Message(max_wait_ms=77), "caf#")
    latin = memoryview(data.replace(b"caf#", "café".encode("latin-1")))
    header = parse_header(latin)
    assert header.client_id == "caf\N{REPLACEMENT CHARACTER}"
    assert parse_body(header, latin).body.max_wait_ms == 77


def test_a_client_id_that_no_response_could_hold_is_a_bad_request() -> None:
    """Each wrong byte becomes three."""
    start = bytes((0, 18, 0, 0, 0, 0, 0, 7))
    for size, is_taken in ((32_767 // 3, True), (32_767 // 3 + 1, False)):
        data = memoryview(start + size.to_bytes(2) + b"\xff" * size)
        if is_taken:
            assert len(parse_header(data).client_id or "") == size
        else:
            with pytest.raises(BadRequestError, match="too long"):
                parse_header(data)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_another_library_s_frames_are_read(version: int) -> None:
    theirs = other("ApiVersionsRequest")(version=version, client_software_name="a")
    theirs.with_header(correlation_id=5, client_id="x")
    data = memoryview(theirs.encode(header=True))
    header = parse_header(data)
    assert (header.correlation_id, header.client_id) == (5, "x")
    assert parse_body(header, data).body.client_software_name == ("a" if version > 2 else "")


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\1\0\0\0\0\0\1", b"\x7f\xff" + bytes(20)])
def test_bytes_without_a_header_are_bad_requests(data: bytes) -> None:
    with pytest.raises(BadRequestError):
        parse_header(memoryview(data))


def test_a_version_that_never_was_is_a_bad_request() -> None:
    data = bytearray(frame(ApiKey.Fetch, 0, Message()))
    data[2:4] = (99).to_bytes(2)
    with pytest.raises(BadRequestError):
        parse_body(parse_header(memoryview(data)), memoryview(data))


def test_hostile_frames_are_requests_or_bad_requests() -> None:
    random, taken, refused = Random(7), 0, 0
    for api in ApiKey:
        data = frame(api, 0, random_message(random, f"{api.name}Request", 0))
        for _ in range(30):
            hostile = flipped(data, *(random.randrange(8 * len(data)) for _ in range(4)))
            for one in (hostile, cut(data, random.randrange(len(data)))):
                try:
                    parse_body(parse_header(memoryview(one)), memoryview(one))
                except BadRequestError:
                    refused += 1
                else:
                    taken += 1
    assert min(taken, refused) > 100
