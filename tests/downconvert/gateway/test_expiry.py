"""Until when a certificate is valid, beside what openssl says."""

import ssl
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from downconvert.gateway.expiry import valid_until
from tests.certificates import self_signed


@pytest.mark.parametrize("days", [1, 400, 30_000])  # beyond 2049 the year has four digits
def test_the_end_of_a_certificate_is_what_openssl_says(tmp_path: Path, days: int) -> None:
    file = tmp_path / "cert.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    make += ["-nodes", "-days", str(days), "-subj", "/CN=a", "-keyout", "/dev/null"]
    subprocess.run([*make, "-out", str(file)], check=True, capture_output=True)
    show = ["openssl", "x509", "-enddate", "-noout", "-dateopt", "iso_8601", "-in", str(file)]
    output = subprocess.run(show, check=True, capture_output=True, text=True).stdout.strip()
    until = datetime.fromtimestamp(valid_until(file), UTC)
    assert output == f"notAfter={until:%Y-%m-%d %H:%M:%SZ}"


def test_a_chain_ends_when_its_first_certificate_does(tmp_path: Path) -> None:
    ends = []
    for days in (400, 2):
        file = tmp_path / f"{days}.pem"
        make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        make += ["-nodes", "-days", str(days), "-subj", "/CN=a", "-keyout", "/dev/null"]
        subprocess.run([*make, "-out", str(file)], check=True, capture_output=True)
        ends.append(file.read_text())
    chain = tmp_path / "chain.pem"
    chain.write_text("".join(ends))
    assert valid_until(chain) == valid_until(tmp_path / "2.pem")


@pytest.mark.parametrize("name", ["X509 CERTIFICATE", "TRUSTED CERTIFICATE"])
def test_a_certificate_by_an_older_name_is_read_as_openssl_reads_it(
    tmp_path: Path, name: str
) -> None:
    usual, key = map(Path, self_signed(tmp_path))
    other = tmp_path / "other.pem"
    other.write_text(usual.read_text().replace(" CERTIFICATE", f" {name}"))
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(other, key)
    assert valid_until(other) == valid_until(usual)
