"""Loads certificates and keys from PEM files.

An error names the setting, the file, and the problem. OpenSSL's own message is only "PEM lib".

Not here: the contexts (tls.py, and the gateway's certificates.py)."""

import re
import ssl
from pathlib import Path
from typing import Final

CERTIFICATE: Final = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----")
KEY: Final = re.compile(rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----")
ENCRYPTED: Final = re.compile(rb"-----BEGIN ENCRYPTED PRIVATE KEY-----|Proc-Type: 4,ENCRYPTED")
DER: Final = b"\x30\x82"  # the first bytes of a certificate, and of most keys, in DER
MISMATCH: Final = "KEY_VALUES_MISMATCH"


class TlsError(Exception):
    """A certificate or a key that cannot be used."""


def load_pair(
    context: ssl.SSLContext,
    certificate: Path,
    key: Path | None,
    names: tuple[str, str],
) -> None:
    """Loads a certificate chain and its key. `key` None: the key is in the same file. `names`: of
    the two settings. TlsError: a file cannot be used."""
    chain_name, key_name = names
    chain = _read(certificate, chain_name)
    key_file, key_data = certificate, chain
    if key is None:
        key_name = chain_name
    else:
        key_file, key_data = key, _read(key, key_name)
    if not CERTIFICATE.search(chain):
        raise TlsError(f"{chain_name} {certificate}: {_instead(chain, 'certificate')}")
    if ENCRYPTED.search(key_data):
        raise TlsError(
            f"{key_name} {key_file}: the key has a passphrase; write it without one, "
            "in a file that only this user can read: openssl pkey -in KEY -out NEW"
        )
    if not KEY.search(key_data):
        more = "" if key is not None else "; give the key's file, too"
        raise TlsError(f"{key_name} {key_file}: {_instead(key_data, 'private key')}{more}")
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        if getattr(error, "reason", None) == MISMATCH:
            raise TlsError(
                f"{key_name} {key_file}: the key does not belong to the certificate {certificate}"
            ) from None
        if _has_damaged_certificate(chain):
            raise TlsError(f"{chain_name} {certificate}: the certificate is damaged") from None
        why = _words(error)
        raise TlsError(f"{key_name} {key_file}: the key cannot be used: {why}") from None


def load_authorities(context: ssl.SSLContext, file: Path, name: str) -> None:
    """Loads the certificates of trusted authorities. TlsError: as above."""
    data = _read(file, name)
    if not CERTIFICATE.search(data):
        raise TlsError(f"{name} {file}: {_instead(data, 'certificate')}")
    try:
        context.load_verify_locations(file)
    except OSError as error:  # ssl.SSLError is one
        raise TlsError(f"{name} {file}: a certificate is damaged: {_words(error)}") from None


def _read(file: Path, name: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise TlsError(f"{name} {file}: {error.strerror or error}") from None


def _instead(data: bytes, wanted: str) -> str:
    """Describes the content of a file that has no PEM of that kind."""
    if not data.strip():
        return "the file is empty"
    if data.startswith(DER):
        tool = "x509" if wanted == "certificate" else "pkey"
        return f"it is DER, not PEM; convert it: openssl {tool} -inform der -in FILE -out NEW"
    if CERTIFICATE.search(data) or KEY.search(data):
        other = "private key" if wanted == "certificate" else "certificate"
        return f"it has a {other}, and no {wanted}"
    return f"it has no {wanted} in PEM (-----BEGIN …-----)"


def _has_damaged_certificate(chain: bytes) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(
            cadata=chain.decode("ascii", "replace").replace("\N{REPLACEMENT CHARACTER}", "?")
        )
    except (ssl.SSLError, ValueError):
        return True
    return False


def _words(error: Exception) -> str:
    """OpenSSL's reason in words."""
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        return reason.replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)
