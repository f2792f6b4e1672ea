import http.server
import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from downconvert.access.jwks import JwksError
from downconvert.access.jwks_source import JwksSource, reader, tls_context
from downconvert.access.rights import ConfigError
from tests.certificates import self_signed
from tests.tokens import document, jwk
from tests.waiting import wait_for


class Published:
    """A document that can be had, or not."""

    def __init__(self, data: bytes | Exception) -> None:
        self.data = data
        self.reads = 0

    def __call__(self) -> bytes:
        self.reads += 1
        if isinstance(self.data, Exception):
            raise self.data
        return self.data


def kids(source: JwksSource) -> list[str | None]:
    return [] if source.jwks is None else [key.kid for key in source.jwks.keys]


def test_the_last_good_keys_stay_and_the_next_tries_are_later_and_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    published = Published(OSError("away"))
    source = JwksSource("keys", published, 3600)
    assert source.failure is not None
    with caplog.at_level(logging.INFO):
        assert [source.renew() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
        assert source.failure == "away"
        published.data = document(jwk("rsa"))
        assert source.renew() == 3600
        assert source.failure is None
        for published.data in (OSError("gone"), b"{}", JwksError("is late")):
            source.renew()
            assert kids(source) == ["rsa"]
        published.data = document(jwk("p256"))
        source.renew()
    assert kids(source) == ["p256"]
    lines = [record.getMessage() for record in caplog.records]
    assert sum("away" in line for line in lines) == 1
    assert sum("those that were read last stay" in line for line in lines) == 3


def test_a_failure_is_logged_once_and_again_after_the_keys_could_be_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    good, bad = document(jwk("rsa")), OSError("away")
    published = Published(bad)
    source = JwksSource("keys", published, 3600)
    for published.data in (bad, bad, good, good, bad, bad):
        source.renew()
    lines = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert lines == [
        "keys of tokens, keys: away",
        "keys of tokens, keys: away; those that were read last stay",
    ]


def test_keys_that_are_not_known_cause_one_renewal_a_minute() -> None:
    now = [0.0]
    ready, published = Event(), Published(document(jwk("rsa")))

    def read() -> bytes:
        ready.wait(30)
        ready.clear()
        return published()

    source = JwksSource("keys", read, 1e6, clock=lambda: now[0])
    source.start()
    assert source.is_renewing
    ready.set()
    wait_for(lambda: published.reads == 1 and not source.is_renewing)
    for second in range(0, 180, 5):
        now[0] = float(second)
        source.miss()
        if second % 60 == 0:
            assert source.is_renewing
            ready.set()
            wait_for(lambda: not source.is_renewing)
        assert not source.is_renewing
    assert published.reads == 4
    source.stop()


def test_a_document_is_being_read_for_whatever_reason() -> None:
    """Clients whose key may be in it wait for it."""
    seen: list[bool] = []

    def read() -> bytes:
        seen.append(source.is_renewing)
        if len(seen) == 1:
            raise OSError("away")
        return document(jwk("rsa"))

    source = JwksSource("keys", read, 3600)
    source.renew()
    assert not source.is_renewing
    source.renew()  # the next try
    assert not source.is_renewing
    assert seen == [True, True]


@pytest.mark.parametrize("failure", [None, OSError("away")])
def test_a_document_that_is_asked_for_while_it_is_read_is_read_again(
    failure: Exception | None,
) -> None:
    """It may have changed after it was read. Clients whose key is missing continue to wait."""
    source = JwksSource("keys", lambda: read(), 3600)
    asks = [True, False]

    def read() -> bytes:
        if asks.pop(0):
            source.renew_soon()
        if failure is not None:
            raise failure
        return document(jwk("rsa"))

    source.renew()
    assert source.is_renewing
    source.renew()
    assert not source.is_renewing


def test_nobody_waits_for_keys_that_are_read_no_more() -> None:
    source = JwksSource("keys", Published(document(jwk("rsa"))), 3600)
    source.start()
    source.stop()
    source.renew_soon()
    assert not source.is_renewing


# --- where documents are


@contextmanager
def https(directory: Path) -> Iterator[tuple[str, str]]:
    """A server, and the file of who signed its certificate."""
    certificate, key = self_signed(directory)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", "/keys")
            else:
                self.send_response(404 if self.path == "/none" else 200)
            self.end_headers()
            if self.path == "/keys":
                self.wfile.write(document())
            if self.path == "/large":
                self.wfile.write(b" " * (1 << 21))

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("localhost", 0), Handler)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"https://localhost:{server.server_port}", certificate
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_keys_are_fetched_by_https_from_a_trusted_host(tmp_path: Path) -> None:
    with https(tmp_path) as (url, certificate):
        assert reader(f"{url}/keys", certificate)() == document()
        for path, file, words in (
            ("/keys", None, "certificate"),
            ("/none", certificate, "404"),
            ("/moved", certificate, "302"),
            ("/large", certificate, "more than 524288 bytes"),
        ):
            source = JwksSource("keys", reader(url + path, file), 60)
            source.renew()
            assert source.failure is not None
            assert words in source.failure


def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    source = JwksSource("keys", reader(str(path), None), 60)
    source.renew()
    assert source.failure == "No such file or directory"
    path.write_bytes(document())
    source.renew()
    assert source.failure is None


@pytest.mark.parametrize(
    "location",
    ["http://idp.test/keys", "file:///etc/passwd", "https://", "https://[", "https://a:x"],
)
def test_keys_come_by_no_other_way(location: str) -> None:
    with pytest.raises(ConfigError, match="jwks is"):
        reader(location, None)


def test_missing_authorities_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ca_file"):
        tls_context(str(tmp_path / "none.pem"))
