"""Certificates are trusted as Kafka trusts them, whichever Python runs."""

import ssl
import subprocess
from pathlib import Path
from typing import Final

import pytest

from downconvert.serving.trust import client_context, trust_as_kafka
from tests.certificates import self_signed, signed

LOCAL: Final = "localhost"


def shaken(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """A handshake in memory. SSLError: a side does not trust the other."""
    ends = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2)]
    (to_client, from_client), (to_server, from_server) = ends
    sides = [
        (client.wrap_bio(to_client, from_client, server_hostname=LOCAL), from_client, to_server),
        (server.wrap_bio(to_server, from_server, server_side=True), from_server, to_client),
    ]
    waiting = [True, True]
    for _ in range(10):
        for number, (side, out, other) in enumerate(sides):
            try:
                side.do_handshake()
                waiting[number] = False
            except ssl.SSLWantReadError:
                pass
            other.write(out.read())
    assert waiting == [False, False]


def server_with(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def strict(context: ssl.SSLContext) -> ssl.SSLContext:
    """As Python 3.13 makes a default context."""
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def test_a_certificate_without_key_identifiers_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "ca").mkdir()
    ca, ca_key = self_signed(tmp_path / "ca")
    server = server_with(*signed(tmp_path, "broker", ca, ca_key))
    client = strict(ssl.create_default_context(cafile=ca))
    client.check_hostname = False
    with pytest.raises(ssl.SSLCertVerificationError, match=r"key usage|Key Identifier"):
        shaken(client, server)
    trust_as_kafka(client)
    shaken(client, server)
    ours = client_context(ca)
    ours.check_hostname = False
    shaken(ours, server)


def test_an_authority_that_another_one_has_signed_is_trusted_alone(tmp_path: Path) -> None:
    for name in ("root", "between"):
        (tmp_path / name).mkdir()
    root, root_key = self_signed(tmp_path / "root")
    extension = tmp_path / "extension"
    extension.write_text("basicConstraints=critical,CA:true\n")
    between, between_key = signed(tmp_path / "between", "between", root, root_key)
    request = between.replace(".pem", ".csr")
    sign = ["openssl", "x509", "-req", "-days", "1", "-CA", root, "-CAkey", root_key]
    command = [*sign, "-in", request, "-CAcreateserial", "-extfile", str(extension)]
    subprocess.run([*command, "-out", between], check=True, capture_output=True)
    server = server_with(*signed(tmp_path, "broker", between, between_key))
    context = client_context(between)
    context.check_hostname = False
    shaken(context, server)


def test_a_certificate_that_no_authority_has_signed_is_refused(tmp_path: Path) -> None:
    for name in ("ca", "other"):
        (tmp_path / name).mkdir()
    ca, ca_key = self_signed(tmp_path / "ca")
    other, _ = self_signed(tmp_path / "other")
    server = server_with(*signed(tmp_path, "broker", ca, ca_key))
    context = client_context(other)
    context.check_hostname = False
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(context, server)


def test_hosts_are_checked_and_a_certificate_is_demanded() -> None:
    context = client_context()
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
