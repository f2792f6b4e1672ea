"""Reads a certificate's expiry time from a PEM file, by parsing its DER [RFC 5280].

Python's ssl module gives this time for peers' certificates, but not for loaded ones."""

import re
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

# OpenSSL accepts certificates under all three names.
PEM: Final = re.compile(
    r"-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----(.*?)-----END \1-----", re.DOTALL
)
VERSION: Final = 0xA0  # the tag of a certificate's version; version 1 has none
VALIDITY: Final = 3  # fields between version and validity: serial number, algorithm, issuer
GENERALIZED: Final = 0x18  # the tag of a time with a four-digit year
LONG: Final = 0x80  # the bit of a length's first byte that announces further length bytes
CENTURY_BEGINS: Final = 50  # two-digit years mean 1950 to 2049


def valid_until(path: Path) -> float:
    """When the first certificate of a file expires, in seconds since the epoch. OpenSSL must have
    loaded the file before."""
    text = path.read_text(encoding="ascii", errors="replace")
    return min(_end(b64decode(found[2])) for found in PEM.finditer(text))


def _end(der: bytes) -> float:
    certificate = next(_parts(der))[1]
    signed = next(_parts(certificate))[1]
    fields = [content for tag, content in _parts(signed) if tag != VERSION]
    _, (tag, time) = _parts(fields[VALIDITY])
    text = time.decode("ascii")
    if tag != GENERALIZED:
        text = ("19" if int(text[:2]) >= CENTURY_BEGINS else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The tags and contents, in order."""
    at = 0
    while at < len(data):
        tag, size, at = data[at], data[at + 1], at + 2
        if size & LONG:
            digits = size & ~LONG
            size, at = int.from_bytes(data[at : at + digits]), at + digits
        yield tag, data[at : at + size]
        at += size
