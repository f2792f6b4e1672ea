"""The gateway's security towards the cluster: TLS and credentials.

Not here: rights of clients (access/)."""

import ssl
from dataclasses import dataclass, field
from typing import Final

from downconvert.access.rights import ConfigError

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
        context = ssl.create_default_context(cafile=security.ca_file)
        context.check_hostname = security.verify_hostname
        if security.cert_file is not None:
            context.load_cert_chain(security.cert_file, security.key_file)
    except OSError as error:  # ssl.SSLError is one
        files = [security.ca_file, security.cert_file, security.key_file]
        named = ", ".join(file for file in files if file is not None)
        reason = error.strerror or error
        raise ConfigError(f"TLS to the cluster, of {named}: {reason}") from None
    return context
