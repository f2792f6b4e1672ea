"""How the gateway speaks to the cluster: TLS, and credentials.

Not here: what clients may do (broker/access)."""

from dataclasses import dataclass, field
from typing import Final

from downconvert.broker.access.rights import ConfigError

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What the gateway shows the cluster. Its text never shows the secret."""

    mechanism: str
    username: str = ""
    secret: str = field(default="", repr=False)  # the password, or the token of OAUTHBEARER

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            known = ", ".join(MECHANISMS)
            raise ConfigError(f"SASL mechanism {self.mechanism!r} is not known: use one of {known}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSecurity:
    """How the gateway speaks to the cluster."""

    tls: bool = False
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify_hostname: bool = True
    credentials: Credentials | None = None
