"""Which certificates a listener shows, and which it asks for."""

import ssl
from pathlib import Path

import pytest

from downconvert.serving.pem import TlsError
from downconvert.serving.tls import server_context
from tests.certificates import self_signed


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    certificate, key = self_signed(tmp_path)
    return Path(certificate), Path(key)


def test_clients_may_show_a_certificate_where_an_authority_is_named(
    files: tuple[Path, Path],
) -> None:
    context = server_context(*files)
    assert context.verify_mode is ssl.CERT_NONE
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    context = server_context(*files, client_ca=files[0])
    assert context.verify_mode is ssl.CERT_OPTIONAL
    assert len(context.get_ca_certs()) == 1


def test_files_that_fit_no_certificate_are_named(files: tuple[Path, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    with pytest.raises(TlsError, match=r"--tls-cert .*other\.pem: No such file"):
        server_context(other)
    other.write_text("nothing")
    with pytest.raises(TlsError, match=r"--tls-key .*other\.pem: it has no private key"):
        server_context(files[0], other)
    with pytest.raises(TlsError, match=r"client_ca .*other\.pem: it has no certificate"):
        server_context(*files, client_ca=other)
