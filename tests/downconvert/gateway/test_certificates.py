"""Versions of TLS, and certificates that are renewed, as clients see them."""

import logging
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.access.rights import ConfigError
from downconvert.gateway import certificates as certificates_module
from downconvert.gateway.certificates import Certificates
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.identity import Identities
from downconvert.gateway.security import ClusterSecurity
from downconvert.gateway.server import Gateway
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from tests.certificates import self_signed
from tests.ports import LOOPBACK
from tests.waiting import wait_for

from .serving import TIMEOUT, Wire, cluster, gateway


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Path]]:
    found = [self_signed(tmp_path_factory.mktemp("pair")) for _ in range(2)]
    return [(Path(certificate), Path(key)) for certificate, key in found]


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    directory = tmp_path / "log"
    directory.mkdir()
    with cluster(directory, "t") as (_, port):
        yield port


def shown(running: Gateway) -> str:
    """The certificate that a client sees."""
    return ssl.get_server_certificate(tuple(running.address), timeout=TIMEOUT)


def is_shown(running: Gateway, certificate: Path) -> bool:
    return shown(running).split() == certificate.read_text().split()


def test_a_certificate_that_is_renamed_over_the_former_is_shown_soon(
    port: int, tmp_path: Path, pairs: list[tuple[Path, Path]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "downconvert.gateway")
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    for file, source in zip(files, pairs[0], strict=True):
        file.write_bytes(source.read_bytes())
    names = {"tls_cert": str(files[0]), "tls_key": str(files[1])}
    with gateway(port, **names) as running:
        assert is_shown(running, pairs[0][0])
        threads = set(threading.enumerate())
        for file, source in zip(files, pairs[1], strict=True):
            new = tmp_path / "new"
            new.write_bytes(source.read_bytes())
            new.replace(file)
            if file == files[0]:  # its key is not there yet
                wait_for(lambda: "the former is used on" in caplog.text)
                assert is_shown(running, pairs[0][0])
        wait_for(lambda: is_shown(running, pairs[1][0]))
        assert set(threading.enumerate()) <= threads  # those of earlier tests may have ended
    assert caplog.text.count("the former is used on") == 1


def test_each_time_that_files_do_not_fit_is_a_line_until_they_do(
    tmp_path: Path, pairs: list[tuple[Path, Path]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "downconvert.gateway")
    files = tmp_path / "tls.crt", tmp_path / "tls.key"

    def write(number: int, of_certificate: bytes | None = None) -> None:
        for file, source in zip(files, pairs[number], strict=True):
            file.write_bytes(source.read_bytes())
        if of_certificate is not None:
            files[0].write_bytes(of_certificate)

    write(0)
    bootstrap = (Address("cluster", 9092),)
    config = GatewayConfig(bootstrap=bootstrap, tls_cert=str(files[0]), tls_key=str(files[1]))
    certificates = Certificates(config)
    first = certificates.server
    for text in (b"half", b"more of it"):
        write(0, text)
        certificates.read_if_changed()
        assert certificates.server is first
    assert caplog.text.count("the former is used on") == 1
    write(1)
    certificates.read_if_changed()
    assert certificates.server is not first
    assert caplog.text.count("have been read again") == 1
    write(1, b"half again")
    certificates.read_if_changed()
    assert caplog.text.count("the former is used on") == 2


def test_a_symbolic_link_that_leads_elsewhere_is_followed(
    port: int, tmp_path: Path, pairs: list[tuple[Path, Path]]
) -> None:
    """As Kubernetes updates what it mounts of a Secret."""
    for number, pair in enumerate(pairs):
        version = tmp_path / f"..{number}"
        version.mkdir()
        (version / "tls.crt").write_bytes(pair[0].read_bytes())
        (version / "tls.key").write_bytes(pair[1].read_bytes())
    (tmp_path / "..data").symlink_to("..0")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    names = {"tls_cert": str(tmp_path / "tls.crt"), "tls_key": str(tmp_path / "tls.key")}
    with gateway(port, **names) as running:
        assert is_shown(running, pairs[0][0])
        (tmp_path / "..new").symlink_to("..1")
        (tmp_path / "..new").replace(tmp_path / "..data")
        wait_for(lambda: is_shown(running, pairs[1][0]))


def spoken(running: Gateway, version: str) -> bool:
    """Whether openssl gets through a handshake in this version."""
    command = ["openssl", "s_client", "-connect", str(running.address), f"-{version}"]
    command += ["-cipher", "ALL:@SECLEVEL=0"]
    ran = subprocess.run(command, input=b"", capture_output=True, timeout=TIMEOUT, check=False)
    return b"Cipher is (NONE)" not in ran.stdout and b"Cipher is" in ran.stdout


@pytest.mark.parametrize(
    ("options", "versions"),
    [
        ({}, ["tls1_2", "tls1_3"]),
        ({"tls_min_version": "1.0"}, ["tls1", "tls1_1", "tls1_2", "tls1_3"]),
        ({"tls_min_version": "1.3"}, ["tls1_3"]),
        ({"tls_ciphers": "ECDHE-ECDSA-AES128-GCM-SHA256"}, ["tls1_2", "tls1_3"]),
    ],
)
def test_clients_speak_the_versions_that_are_allowed(
    port: int,
    pairs: list[tuple[Path, Path]],
    caplog: pytest.LogCaptureFixture,
    options: dict[str, str],
    versions: list[str],
) -> None:
    names = {"tls_cert": str(pairs[0][0]), "tls_key": str(pairs[0][1])}
    with gateway(port, **names, **options) as running:
        every = ("tls1", "tls1_1", "tls1_2", "tls1_3")
        assert [one for one in every if spoken(running, one)] == versions
    assert ("clients may speak TLS 1.0, which is not safe" in caplog.text) == ("tls1" in versions)


def test_the_report_has_the_version_that_a_client_speaks(
    port: int, pairs: list[tuple[Path, Path]]
) -> None:
    names = {"tls_cert": str(pairs[0][0]), "tls_key": str(pairs[0][1])}
    context = ssl.create_default_context(cafile=pairs[0][0])
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with gateway(port, **names, tls_min_version="1.1") as running, Wire(running.address) as client:
        client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
        client.ask(ApiKey.Metadata, 1, Message(topics=[]))
        assert {row["tls"] for row in running.census.rows()} == {"TLSv1.1"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tls_min_version": "1.4"}, "is not one of 1.0, 1.1, 1.2, 1.3"),
        ({"tls_ciphers": "NONE-SUCH"}, "tls_ciphers 'NONE-SUCH'"),
    ],
)
def test_settings_that_openssl_does_not_know_are_errors(
    pairs: list[tuple[Path, Path]], options: dict[str, str], words: str
) -> None:
    names = {"tls_cert": str(pairs[0][0]), "tls_key": str(pairs[0][1])}
    with pytest.raises(ConfigError, match=words):
        Certificates(GatewayConfig(bootstrap=(Address(LOOPBACK, 1),), **names, **options))


def test_versions_need_a_certificate() -> None:
    with pytest.raises(ConfigError, match="need TLS on the listener"):
        GatewayConfig(bootstrap=(Address(LOOPBACK, 1),), tls_min_version="1.3")


FILES = ("tls_cert", "tls_key", "client_ca", "ca_file", "cert_file", "key_file")


def with_files(directory: Path, pair: tuple[Path, Path]) -> GatewayConfig:
    """Each of its files is a copy of its own."""
    names = {}
    for name in FILES:
        is_key = name in ("tls_key", "key_file")
        (directory / name).write_bytes(pair[is_key].read_bytes())
        names[name] = str(directory / name)
    security = ClusterSecurity(
        tls=True,
        ca_file=names["ca_file"],
        cert_file=names["cert_file"],
        key_file=names["key_file"],
    )
    return GatewayConfig(
        bootstrap=(Address(LOOPBACK, 1),),
        tls_cert=names["tls_cert"],
        tls_key=names["tls_key"],
        identities=Identities(client_ca=names["client_ca"]),
        security=security,
    )


def touch(file: Path) -> None:
    """Writes the same bytes to another file of this name."""
    new = file.with_suffix(".new")
    new.write_bytes(file.read_bytes())
    new.replace(file)


@pytest.mark.parametrize("name", FILES)
def test_a_change_of_any_file_is_noticed_once(
    tmp_path: Path, pairs: list[tuple[Path, Path]], name: str
) -> None:
    config = with_files(tmp_path, pairs[0])
    certificates = Certificates(config)
    first = certificates.server, certificates.cluster
    certificates.read_if_changed()
    assert (certificates.server, certificates.cluster) == first
    touch(tmp_path / name)
    certificates.read_if_changed()
    second = certificates.server, certificates.cluster
    assert second[0] is not first[0]
    assert second[1] is not first[1]
    certificates.read_if_changed()
    assert (certificates.server, certificates.cluster) == second


def test_a_file_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, pairs: list[tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = with_files(tmp_path, pairs[0])
    contexts = certificates_module.server_context
    changes = [tmp_path / "tls_key"]

    def read(config: GatewayConfig) -> ssl.SSLContext | None:
        found = contexts(config)
        if changes:
            touch(changes.pop())
        return found

    monkeypatch.setattr(certificates_module, "server_context", read)
    certificates = Certificates(config)
    first = certificates.server
    certificates.read_if_changed()
    second = certificates.server
    assert second is not first
    certificates.read_if_changed()
    assert certificates.server is second
