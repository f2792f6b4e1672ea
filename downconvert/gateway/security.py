"""The gateway's security towards the cluster: TLS and credentials.

Not here: rights of clients (access/)."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from downconvert.access.rights import ConfigError
from downconvert.serving.pem import TlsError, load_authorities, load_pair
from downconvert.serving.trust import client_context

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The gateway's credentials at the cluster. Their `repr` never shows the secret."""

    mechanism: str
    username: str = ""
    secret: str = field(default="", repr=False)  # the password, or the token of OAUTHBEARER

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            known = ", ".join(MECHANISMS)
            raise ConfigError(f"SASL mechanism {self.mechanism!r} is not known: use one of {known}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSecurity:
    """The gateway's security settings towards the cluster."""

    tls: bool = False
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify_hostname: bool = True
    credentials: Credentials | None = None


def tls_context(security: ClusterSecurity) -> ssl.SSLContext | None:
    """The context for connections to the cluster. None: they are plain. ConfigError: a file is
    invalid."""
    if not security.tls:
        return None
    try:
        if security.ca_file is not None:  # into another context, only for clear error messages
            trial = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            load_authorities(trial, Path(security.ca_file), "ca_file")
        context = client_context(security.ca_file)
        context.check_hostname = security.verify_hostname
        if security.cert_file is not None:
            key = None if security.key_file is None else Path(security.key_file)
            load_pair(context, Path(security.cert_file), key, ("cert_file", "key_file"))
    except TlsError as error:
        raise ConfigError(f"{error} (TLS to the cluster)") from None
    except OSError:  # the file changed between the two reads
        text = f"ca_file {security.ca_file}: it changed while it was read (TLS to the cluster)"
        raise ConfigError(text) from None
    return context
