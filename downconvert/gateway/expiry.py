"""Until when certificates are valid: the end that a file in PEM says, read from its DER [RFC 5280].

Python's ssl module tells what others have shown, and not what it has loaded itself."""

import re
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

# OpenSSL takes certificates by all three names.
PEM: Final = re.compile(
    r"-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----(.*?)-----END \1-----", re.DOTALL
)
VERSION: Final = 0xA0  # the tag of a certificate's version, which one of version 1 has not
VALIDITY: Final = 3  # behind the version: serial number, algorithm, issuer
GENERALIZED: Final = 0x18  # the tag of a time with four digits of its year
LONG: Final = 0x80  # the bit of a length that says how many bytes of it follow
CENTURY_BEGINS: Final = 50  # of two digits: 1950 to 2049


def valid_until(path: Path) -> float:
    """When the first of a file's certificates, which OpenSSL has taken, ceases to be valid; seconds
    since the epoch."""
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
    """Tags and contents, one after the other."""
    at = 0
    while at < len(data):
        tag, size, at = data[at], data[at + 1], at + 2
        if size & LONG:
            digits = size & ~LONG
            size, at = int.from_bytes(data[at : at + digits]), at + digits
        yield tag, data[at : at + size]
        at += size
