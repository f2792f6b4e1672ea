"""Ranges are read by one request each over connections that are kept, and whatever is not a range
is left to Arrow's client."""

import re
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import DEFAULT_BUFFER_SIZE
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.credentials import Credentials, ReadOnlyCredentials
from botocore.exceptions import ClientError, CredentialRetrievalError

from downconvert.spark.stores import s3_ranges
from downconvert.spark.stores.s3_ranges import CA_BUNDLE, FAILURES_MAX, S3Ranges, ranges_of
from tests.certificates import self_signed

DATA = bytes(range(256)) * 100


class Store:
    """A server of one object. `refusals`: what the next requests are answered instead."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.refusals: list[int] = []
        self.sockets: list[socket.socket] = []  # of its connections
        self.cut_at: int | None = None  # bytes after which a response breaks off
        self.piece_size = len(DATA)  # bytes that are sent at once
        self.stalled: threading.Event | None = None  # what a response waits for
        self.has_ranges = True
        self.total = str(len(DATA))
        self.size_max: int | None = None  # of a range
        self.shift = 0  # bytes by which another range is answered
        self.endpoint = ""

    @property
    def connections(self) -> int:
        """How many there have been."""
        return len(self.sockets)

    def ranges(self) -> S3Ranges:
        settings = {"endpoint_override": self.endpoint, "scheme": "http"}
        found = ranges_of("bucket", settings, "us-east-1")
        assert found is not None
        return found


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(s3_ranges, "credentials", lambda: Credentials("a", "b"))
    monkeypatch.setattr(s3_ranges, "getproxies", dict)
    with serving() as found:
        yield found


@contextmanager
def serving(certificate: tuple[str, str] | None = None) -> Iterator[Store]:
    store = Store()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            store.sockets.append(self.request)
            super().setup()

        def do_GET(self) -> None:
            store.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
            if store.refusals:
                self.send_response(store.refusals.pop(0))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
            assert found is not None
            start, end = int(found[1]) + store.shift, int(found[2]) + store.shift
            part = DATA[start : end + 1][: store.size_max] if store.has_ranges else DATA
            self.send_response(206 if store.has_ranges else 200)
            self.send_header(
                "Content-Range", f"bytes {start}-{start + len(part) - 1}/{store.total}"
            )
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            sent = part[: store.cut_at]
            for start in range(0, len(sent), store.piece_size):
                self.wfile.write(sent[start : start + store.piece_size])
                time.sleep(0.01 if store.piece_size < len(sent) else 0)
                if store.stalled is not None:
                    store.stalled.wait(60)
            self.close_connection = store.cut_at is not None

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        store.endpoint = f"127.0.0.1:{server.server_address[1]}"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield store
        server.shutdown()
        thread.join()


def filled(ranges: S3Ranges, position: int, size: int) -> bytes | None:
    target = bytearray(size)
    read = ranges.read_into("a b/c", memoryview(target), position)
    return None if read is None else bytes(target[:read])


def test_a_range_is_one_request_over_a_connection_that_is_kept(store: Store) -> None:
    ranges = store.ranges()
    for position, size in ((0, 10), (255, 3), (len(DATA) - 5, 100)):
        assert filled(ranges, position, size) == DATA[position : position + size]
        assert ranges.read("a b/c", position, size) == DATA[position : position + size]
    assert (len(store.asked), store.connections) == (6, 1)
    path, headers = store.asked[0]
    assert path == "/bucket/a%20b/c"
    assert headers["range"] == "bytes=0-9"
    assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=a/")
    assert headers["host"] == store.endpoint


def test_errors_that_may_pass_are_left_to_arrow_once(store: Store) -> None:
    ranges = store.ranges()
    for status in (503, 500, 429, 404, 416):
        store.refusals = [status]
        assert filled(ranges, 0, 10) is None
        assert filled(ranges, 0, 10) == DATA[:10]


@pytest.mark.parametrize("status", [400, 403, 301])
def test_a_store_that_refuses_is_not_asked_again(store: Store, status: int) -> None:
    ranges = store.ranges()
    store.refusals = [status]
    assert filled(ranges, 0, 10) is None
    assert filled(ranges, 0, 10) is None
    assert len(store.asked) == 1


def test_a_response_without_a_range_is_not_used(store: Store) -> None:
    store.has_ranges = False
    assert filled(store.ranges(), 5, 10) is None
    store.has_ranges, store.shift = True, 1
    assert filled(store.ranges(), 5, 10) is None
    store.shift, store.total = 0, "*"  # a store that does not say how large an object is
    assert filled(store.ranges(), 5, 10) == DATA[5:15]
    store.total, store.size_max = (
        str(len(DATA)),
        7,
    )  # less than was asked for, and not for the object's end
    assert filled(store.ranges(), 5, 10) is None
    assert filled(store.ranges(), len(DATA) - 7, 10) == DATA[-7:]


def test_a_response_that_breaks_off_is_not_used(store: Store) -> None:
    ranges = store.ranges()
    store.cut_at = 7
    assert filled(ranges, 0, 10) is None
    assert ranges.read("a b/c", 0, 10) is None
    store.cut_at = None
    assert filled(ranges, 0, 10) == DATA[:10]
    store.cut_at = 7
    for _ in range(2 * FAILURES_MAX):
        assert filled(ranges, 0, 10) is None
    assert not ranges.is_usable


def test_a_store_is_used_on_if_failures_are_not_in_a_row(store: Store) -> None:
    ranges = store.ranges()
    for _ in range(2 * FAILURES_MAX):
        store.cut_at = 7
        assert filled(ranges, 0, 10) is None
        store.cut_at = None
        assert filled(ranges, 0, 10) == DATA[:10]


def test_a_range_is_read_by_one_call_however_it_arrives(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, receive = [], socket.socket.recv_into

    def counted(*given: Any) -> int:
        taken.append(receive(*given))
        return taken[-1]

    monkeypatch.setattr(socket.socket, "recv_into", counted)
    store.piece_size = 1000
    assert filled(store.ranges(), 0, len(DATA)) == DATA
    assert max(taken) > len(DATA) - 2 * DEFAULT_BUFFER_SIZE  # what did not come with the headers


def test_a_store_that_sends_nothing_more_is_not_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_ranges, "SECONDS", 1.0)
    store.piece_size, store.stalled = len(DATA) - 1, threading.Event()
    assert filled(store.ranges(), 0, len(DATA)) is None
    store.stalled.set()


def test_a_kept_connection_that_was_closed_is_opened_again(store: Store) -> None:
    ranges = store.ranges()
    assert filled(ranges, 0, 10) == DATA[:10]
    store.sockets[0].shutdown(socket.SHUT_RDWR)
    assert filled(ranges, 0, 10) == DATA[:10]
    assert store.connections == 2


def test_many_threads_have_a_connection_each(store: Store) -> None:
    ranges = store.ranges()
    wrong: Counter[int] = Counter()

    def read(start: int) -> None:
        for position in range(start, start + 200, 10):
            wrong[start] += filled(ranges, position, 50) != DATA[position : position + 50]

    threads = [threading.Thread(target=read, args=(1000 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(wrong.values()) == 0
    assert store.connections <= 4


def test_authorities_that_cannot_be_read_are_left_to_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_ranges, "getproxies", dict)
    monkeypatch.setenv("AWS_CA_BUNDLE", "/nowhere/ca.pem")
    assert ranges_of("logs", {"anonymous": "true"}, "eu-central-1") is None


def test_only_known_endpoints_are_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon by the bucket's name and region; others, and what only Arrow knows, not."""
    monkeypatch.setattr(s3_ranges, "credentials", lambda: Credentials("a", "b"))
    monkeypatch.setattr(s3_ranges, "getproxies", dict)
    found = ranges_of("logs", {}, "us-gov-west-1")
    assert found is not None
    assert (found.endpoint, found.prefix) == ("logs.s3.us-gov-west-1.amazonaws.com", "")
    assert ranges_of("logs", {}, "eu-central-1") is not None
    assert ranges_of("logs", {}, "cn-north-1") is None
    assert ranges_of("logs", {}, "us-isob-east-1") is None
    assert ranges_of("logs.example", {}, "eu-central-1") is None
    assert ranges_of("logs", {"endpoint_override": "host:1/path"}, "eu-central-1") is None
    monkeypatch.setattr(s3_ranges, "getproxies", lambda: {"https": "http://proxy:3128"})
    assert ranges_of("logs", {}, "eu-central-1") is None
    monkeypatch.setattr(s3_ranges, "getproxies", dict)
    monkeypatch.setattr(s3_ranges, "credentials", lambda: None)
    assert ranges_of("logs", {}, "eu-central-1") is None
    assert ranges_of("logs", {"anonymous": "true"}, "eu-central-1") is not None


def test_credentials_are_asked_for_at_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a role expire: botocore renews them."""
    frozen = iter([ReadOnlyCredentials("old", "b", "c"), ReadOnlyCredentials("new", "b", "c")])
    held = SimpleNamespace(get_frozen_credentials=lambda: next(frozen))
    monkeypatch.setattr(s3_ranges, "credentials", lambda: held)
    monkeypatch.setattr(s3_ranges, "getproxies", dict)
    with serving() as store:
        ranges = store.ranges()
        for user in ("old", "new"):
            assert filled(ranges, 0, 10) == DATA[:10]
            _, headers = store.asked[-1]
            assert f" Credential={user}/" in headers["authorization"]
            assert headers["x-amz-security-token"] == "c"


@pytest.mark.parametrize(
    "error",
    [
        CredentialRetrievalError(provider="assume-role", error_msg="expired"),
        ClientError({"Error": {"Code": "ExpiredToken"}}, "AssumeRole"),
    ],
)
def test_credentials_that_botocore_cannot_find_are_left_to_arrow(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Neither when they are renewed, nor at the beginning."""

    def expired() -> ReadOnlyCredentials:
        raise error

    held = SimpleNamespace(get_frozen_credentials=expired)
    settings = {"endpoint_override": store.endpoint}
    monkeypatch.setattr(s3_ranges, "credentials", lambda: held)
    assert filled(store.ranges(), 0, 10) is None
    monkeypatch.setattr(s3_ranges, "credentials", expired)
    assert ranges_of("bucket", settings, "us-east-1") is None
    monkeypatch.undo()
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    s3_ranges.credentials.cache_clear()
    assert ranges_of("bucket", settings, "us-east-1") is None


def test_authorities_are_those_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_ranges, "getproxies", dict)
    certificate = self_signed(tmp_path)
    with serving(certificate) as store:
        settings = {
            "endpoint_override": store.endpoint.replace("127.0.0.1", "localhost"),
            "anonymous": "true",
        }
        for bundle, found in ((certificate[0], DATA), ("", None)):
            monkeypatch.setenv(CA_BUNDLE, bundle)
            ranges = ranges_of("bucket", settings, "us-east-1")
            assert ranges is not None
            assert filled(ranges, 0, len(DATA)) == found


def test_without_botocore_arrow_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_ranges, "getproxies", dict)
    monkeypatch.setitem(sys.modules, "botocore.auth", None)
    assert ranges_of("logs", {}, "eu-central-1") is None
    assert ranges_of("logs", {"anonymous": "true"}, "eu-central-1") is not None
