"""Files of certificates, and settings, that change while others are read.

Not here: what clients see (test_certificates.py)."""

import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from downconvert.access.rights import ConfigError
from downconvert.gateway import certificates as certificates_module
from downconvert.gateway import security as security_module
from downconvert.gateway.certificates import Certificates
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.security import ClusterSecurity
from downconvert.gateway.topology import Address
from tests.certificates import self_signed
from tests.ports import LOOPBACK

A_MOMENT = 0.1  # seconds: for another thread to come as far as it can


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    certificate, key = self_signed(tmp_path_factory.mktemp("pair"))
    return Path(certificate).read_bytes(), Path(key).read_bytes()


@pytest.fixture
def config(tmp_path: Path, pair: tuple[bytes, bytes]) -> GatewayConfig:
    for name, data in zip(("cert", "key", "ca"), (*pair, pair[0]), strict=True):
        (tmp_path / name).write_bytes(data)
    return GatewayConfig(
        bootstrap=(Address(LOOPBACK, 1),),
        tls_cert=str(tmp_path / "cert"),
        tls_key=str(tmp_path / "key"),
        security=ClusterSecurity(tls=True, ca_file=str(tmp_path / "ca")),
    )


def after(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, does: Callable[[], object]
) -> None:
    """Does something after a function has been called next."""
    former, left = getattr(module, name), [does]

    def call(*arguments: Any) -> Any:
        found = former(*arguments)
        if left:
            left.pop()()
        return found

    monkeypatch.setattr(module, name, call)


@pytest.mark.parametrize("part", [0, 100, 500])
def test_a_certificate_that_is_being_written_again_leaves_the_former_until_it_is_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    config: GatewayConfig,
    pair: tuple[bytes, bytes],
    part: int,
) -> None:
    certificates, file = Certificates(config), tmp_path / "cert"
    first = certificates.server
    file.write_bytes(pair[0] + b"\n")
    after(monkeypatch, certificates_module, "server_context", lambda: cut(file, pair[0][:part]))
    certificates.read_if_changed()
    assert certificates.server is first
    assert f"the former is used on: tls_cert {file}: it changed" in caplog.text
    file.write_bytes(pair[0])
    certificates.read_if_changed()
    assert certificates.server is not first


def cut(file: Path, data: bytes) -> None:
    """The file when a program that writes it has begun. The end of a certificate is not there, or
    its data are not."""
    end = b"-----END CERTIFICATE-----\n"
    file.write_bytes(data and data + b"\n" + end)


def test_a_certificate_that_is_away_for_a_moment_leaves_the_former(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: GatewayConfig
) -> None:
    certificates, file = Certificates(config), tmp_path / "cert"
    first = certificates.server
    file.write_bytes(file.read_bytes() + b"\n")
    after(monkeypatch, certificates_module, "server_context", file.unlink)
    certificates.read_if_changed()
    assert certificates.server is first


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"")])
def test_authorities_of_the_cluster_that_are_being_written_again_leave_the_former(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: GatewayConfig,
    damage: Callable[[Path], object],
) -> None:
    certificates, file = Certificates(config), tmp_path / "ca"
    first = certificates.cluster
    file.write_bytes(file.read_bytes() + b"\n")
    after(monkeypatch, security_module, "load_authorities", lambda: damage(file))
    certificates.read_if_changed()
    assert certificates.cluster is first
    with pytest.raises(ConfigError, match=f"ca_file {file}"):
        certificates.read(config)


def test_settings_that_are_read_while_files_are_looked_at_are_the_last_to_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: GatewayConfig
) -> None:
    """The event loop looks, and another thread reads settings again."""
    certificates, file = Certificates(config), tmp_path / "cert"
    later = replace(config, tls_min_version="1.3")
    reading = Thread(target=certificates.read, args=(later,))

    def read() -> None:
        reading.start()
        reading.join(A_MOMENT)

    file.write_bytes(file.read_bytes() + b"\n")
    after(monkeypatch, certificates_module, "server_context", read)
    certificates.read_if_changed()
    reading.join()
    certificates.read_if_changed()
    assert certificates.server is not None
    assert certificates.server.minimum_version is ssl.TLSVersion.TLSv1_3
