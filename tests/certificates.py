"""Certificates for tests, by openssl. Their keys are on a curve, as RSA's take 20 times as long."""

import subprocess
from pathlib import Path
from typing import Final

NEW_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def self_signed(directory: Path) -> tuple[str, str]:
    """A certificate and its key."""
    certificate, key = str(directory / "cert.pem"), str(directory / "key.pem")
    command = ["openssl", "req", "-x509", *NEW_KEY, "-days", "1"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-out", certificate, "-keyout", key]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def signed(directory: Path, name: str, ca: str, ca_key: str) -> tuple[str, str]:
    """A client's certificate and its key."""
    request, certificate, key = (str(directory / f"{name}.{end}") for end in ("csr", "pem", "key"))
    make = ["openssl", "req", *NEW_KEY, "-subj", f"/CN={name}"]
    sign = ["openssl", "x509", "-req", "-days", "1", "-CA", ca, "-CAkey", ca_key]
    for command in (
        [*make, "-out", request, "-keyout", key],
        [*sign, "-CAcreateserial", "-in", request, "-out", certificate],
    ):
        subprocess.run(command, check=True, capture_output=True)
    return certificate, key
