"""Each broken file is named with its setting, and with what is wrong in it."""

import ssl
import subprocess
from pathlib import Path

import pytest

from downconvert.serving.pem import TlsError, load_authorities, load_pair
from tests.certificates import self_signed

NAMES = ("--tls-cert", "--tls-key")


def context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    certificate, key = self_signed(tmp_path)
    return Path(certificate), Path(key)


def damaged(file: Path) -> bytes:
    """A PEM whose third line has other bytes."""
    lines = file.read_bytes().split(b"\n")
    return b"\n".join([*lines[:2], b"A" * len(lines[2]), *lines[3:]])


def openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def refusal(certificate: Path, key: Path | None) -> str:
    with pytest.raises(TlsError) as raised:
        load_pair(context(), certificate, key, NAMES)
    return str(raised.value)


def test_a_pair_is_loaded_from_two_files_and_from_one(pair: tuple[Path, Path]) -> None:
    """A TlsError would say that a key and a certificate do not fit."""
    certificate, key = pair
    load_pair(context(), certificate, key, NAMES)
    both = certificate.with_name("both.pem")
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    load_pair(context(), both, None, NAMES)
    trusting = context()
    assert not trusting.get_ca_certs()
    load_authorities(trusting, certificate, "client_ca")
    assert len(trusting.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"\x00\xffgarbage", "it has no certificate in PEM"),
        (None, "it has a private key, and no certificate"),
    ],
)
def test_a_file_that_is_not_a_certificate_is_named(
    pair: tuple[Path, Path], tmp_path: Path, data: bytes | None, message: str
) -> None:
    _, key = pair
    file = tmp_path / "broken.pem"
    file.write_bytes(key.read_bytes() if data is None else data)
    assert refusal(file, key).startswith(f"--tls-cert {file}: {message}")
    with pytest.raises(TlsError, match=f"client_ca {file}: {message}"):
        load_authorities(context(), file, "client_ca")


def test_a_damaged_certificate_is_distinguished_from_a_damaged_key(pair: tuple[Path, Path]) -> None:
    certificate, key = pair
    whole = certificate.read_bytes(), key.read_bytes()
    certificate.write_bytes(damaged(certificate))
    assert refusal(certificate, key) == f"--tls-cert {certificate}: the certificate is damaged"
    with pytest.raises(TlsError, match=f"client_ca {certificate}: a certificate is damaged"):
        load_authorities(context(), certificate, "client_ca")
    certificate.write_bytes(whole[0])
    key.write_bytes(whole[1][:200])
    assert refusal(certificate, key).startswith(f"--tls-key {key}: the key cannot be used: ")


def test_a_key_of_another_certificate_is_named(pair: tuple[Path, Path], tmp_path: Path) -> None:
    certificate, _ = pair
    (tmp_path / "other").mkdir()
    _, name = self_signed(tmp_path / "other")
    other = Path(name)
    message = f"--tls-key {other}: the key does not belong to the certificate {certificate}"
    assert refusal(certificate, other) == message


def test_the_error_of_a_missing_key_says_where_it_was_looked_for(pair: tuple[Path, Path]) -> None:
    certificate, _ = pair
    alone = f"--tls-cert {certificate}: it has a certificate, and no private key"
    assert refusal(certificate, None) == f"{alone}; give the key's file, too"
    swapped = f"--tls-key {certificate}: it has a certificate, and no private key"
    assert refusal(certificate, certificate) == swapped


def test_files_that_cannot_be_read_are_named(pair: tuple[Path, Path], tmp_path: Path) -> None:
    certificate, key = pair
    missing = tmp_path / "missing.pem"
    assert refusal(missing, key) == f"--tls-cert {missing}: No such file or directory"
    assert refusal(certificate, missing) == f"--tls-key {missing}: No such file or directory"
    assert refusal(tmp_path, key) == f"--tls-cert {tmp_path}: Is a directory"


def test_a_key_with_a_passphrase_is_refused_and_asks_nobody(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    certificate, key = pair
    closed = tmp_path / "closed.pem"
    openssl("pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", closed)
    assert refusal(certificate, closed).startswith(f"--tls-key {closed}: the key has a passphrase")


def test_the_error_for_der_names_the_command_that_converts_it(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    certificate, key = pair
    der = tmp_path / "certificate.der"
    openssl("x509", "-in", certificate, "-outform", "der", "-out", der)
    assert "convert it: openssl x509 -inform der" in refusal(der, key)
