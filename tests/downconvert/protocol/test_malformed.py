"""The texts of errors in malformed messages: which field, where, and how much is missing.

In each message the position, the bytes that are left, the length that is claimed and the size of
all are different numbers."""

import pytest

from downconvert.protocol.decoder import decode
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.requests import parse_header

GROUP = b"\0\3abc"  # the first field of a Heartbeat, in its first version
CLIENT = b"\5name\4v10"  # the first two fields of ApiVersions 3: the software's name and version


@pytest.mark.parametrize(
    ("name", "version", "data", "text"),
    [
        ("HeartbeatRequest", 0, GROUP + b"\0\0", "a number at 5: only 2 bytes are left"),
        ("HeartbeatRequest", 0, b"\0", "a number at 0: only 1 bytes are left"),
        ("HeartbeatRequest", 0, b"\0\6abcd", "6 bytes at 2: only 4 are left"),
        (
            *("HeartbeatRequest", 0, GROUP + b"\0\0\0\1\0\x09ab"),
            "9 bytes at 11: only 2 are left",
        ),
        ("HeartbeatRequest", 0, b"\0\4ab\xffd", "group_id at 2 is not UTF-8: invalid start byte"),
        (
            *("HeartbeatRequest", 0, GROUP + b"\0\0\0\1\0\2a\xc3"),
            "member_id at 11 is not UTF-8: unexpected end of data",
        ),
        ("HeartbeatRequest", 0, b"\xff\xf9abc", "group_id before 2 has a length of -7"),
        (
            *("HeartbeatRequest", 0, GROUP + b"\0\0\0\1\xff\xff"),
            "member_id before 11 has a length of -1",
        ),
        (
            *("MetadataRequest", 1, b"\0\0\0\x09\0\1a"),
            "topics before 4 has 9 elements in 3 bytes",
        ),
        ("MetadataRequest", 0, b"\xff\xff\xff\xfe", "topics before 4 has a length of -2"),
        (
            *("FindCoordinatorRequest", 4, b"\1\x09\2a"),
            "coordinator_keys before 2 has 8 elements in 2 bytes",
        ),
        (
            *("ApiVersionsRequest", 3, CLIENT + b"\2\7\1x\3\0"),
            "tag 3 after tag 7 at 15",
        ),
        ("ApiVersionsRequest", 3, CLIENT + b"\1\7\6x", "6 bytes at 12: only 1 are left"),
        ("ApiVersionsRequest", 3, CLIENT, "a number at 9: only 0 bytes are left"),
        (
            *("DescribeLogDirsRequest", 1, b"\0\0\0\1\0\1t\0\0\0\1\0\0"),
            "a number at 11: only 2 bytes are left",
        ),
        ("MetadataRequest", 10, b"\2" + bytes(5), "16 bytes at 1: only 5 are left"),  # a topic id
    ],
)
def test_an_error_names_the_field_the_position_and_what_is_missing(
    name: str, version: int, data: bytes, text: str
) -> None:
    with pytest.raises(BadRequestError) as caught:
        decode(name, version, memoryview(data))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("0012 0003 00000007 0009 6162", "9 bytes at 10: only 2 are left"),
        ("0012 0003 0000", "10 bytes at 0: only 6 are left"),
    ],
)
def test_errors_of_a_requests_header_count_from_its_start(header: str, text: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        parse_header(memoryview(bytes.fromhex(header)))
    assert str(caught.value) == text
