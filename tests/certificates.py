"""Certificates for tests, by openssl."""

import subprocess
from pathlib import Path


def self_signed(directory: Path) -> tuple[str, str]:
    """A certificate and its key."""
    certificate, key = str(directory / "cert.pem"), str(directory / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-out", certificate, "-keyout", key]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def signed(directory: Path, name: str, ca: str, ca_key: str) -> tuple[str, str]:
    """A client's certificate and its key."""
    request, certificate, key = (str(directory / f"{name}.{end}") for end in ("csr", "pem", "key"))
    make = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"]
    sign = ["openssl", "x509", "-req", "-days", "1", "-CA", ca, "-CAkey", ca_key]
    for command in (
        [*make, "-out", request, "-keyout", key],
        [*sign, "-CAcreateserial", "-in", request, "-out", certificate],
    ):
        subprocess.run(command, check=True, capture_output=True)
    return certificate, key
