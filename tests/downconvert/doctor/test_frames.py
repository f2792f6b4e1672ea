"""Requests out of a client's bytes."""

import struct

import pytest

from downconvert.doctor.evidence import Problems
from downconvert.doctor.frames import Frames, RequestHead
from records.units import GiB

from .wire import api_versions, request


def frames(*pieces: bytes, is_new: bool = True) -> tuple[list[RequestHead], Problems]:
    problems = Problems()
    reader = Frames(problems, is_new=is_new)
    return [seen for piece in pieces for seen in reader.feed(piece)], problems


def one_by_one(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def test_requests_are_read_from_single_bytes() -> None:
    data = request(1, 2, None) + request(0, 1, "ä", bytes(2000)) + request(3, 0, "")
    found, problems = frames(*one_by_one(data))
    names = [(one.api, one.version, one.client_id) for one in found]
    assert names == [(1, 2, ""), (0, 1, "ä"), (3, 0, "")]
    assert not problems.counts


def test_software_is_the_last_name_on_the_connection() -> None:
    found, _ = frames(request(1, 2) + api_versions("kgo", "1.0") + request(1, 12))
    assert [one.software for one in found] == [("", ""), ("kgo", "1.0"), ("kgo", "1.0")]


@pytest.mark.parametrize("cut", range(15, 24))
def test_a_cut_off_software_name_is_ignored(cut: int) -> None:
    whole = api_versions("kgo", "1.0")
    found, _ = frames(struct.pack(">i", cut - 4) + whole[4:cut])
    assert len(found) <= 1
    assert all(one.software == ("", "") for one in found)


def test_sasl_tokens_without_headers_are_skipped() -> None:
    token = struct.pack(">i", 12) + b"\0user\0secret"
    empty = struct.pack(">i", 0)
    found, problems = frames(request(17, 0) + token + empty + request(1, 2))
    assert [one.api for one in found] == [17, 1]
    assert not problems.counts


def test_tls_is_named() -> None:
    hello = b"\x16\x03\x01\x02\x00\x01" + bytes(200)
    found, problems = frames(hello, hello)
    assert not found
    assert list(problems.counts) == ["connections with TLS, which a capture does not show"]


@pytest.mark.parametrize(
    "stray",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 7) + bytes(7),
        struct.pack(">i", GiB) + bytes(100),
        struct.pack(">ihhih", 10, 999, 0, 0, -1),
        struct.pack(">ihhih", 10, 1, 99, 0, -1),
        struct.pack(">ihhih", 10, 1, 0, 0, 500),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_after_other_bytes_the_next_segment_is_examined(stray: bytes) -> None:
    found, problems = frames(stray + request(1, 1), b"????", request(1, 2))
    assert [one.version for one in found] == [2]
    assert sum(problems.counts.values()) == 1


def test_in_the_middle_of_a_connection_only_a_request_begins_one() -> None:
    found, _ = frames(b"\0" * 50, request(1, 2, "\x01"), request(1, 3), is_new=False)
    assert [one.version for one in found] == [3]


def test_sasl_tokens_of_a_newer_handshake_have_headers() -> None:
    """So other bytes after it are no tokens."""
    found, problems = frames(request(17, 1), struct.pack(">i", 4) + b"junk")
    assert len(found) == 1
    assert problems.counts == {"bytes that are no request": 1}
