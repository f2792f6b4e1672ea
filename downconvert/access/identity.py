"""The identity of a client: its proofs, and the rule that matches them.

A client proves its identity by a certificate, by a user and a password, or by a token. Or it has
only its address. The first matching rule decides. Old clients that support none of these match a
rule for their network.

`credentials`: what a gateway uses at its cluster for the client. A broker has none.

Not here: the meaning of rights (permissions.py), the form of rules (settings.py)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, Generic, TypeVar

from .claim import Claim
from .credentials import MECHANISMS, Authentication
from .credentials import Credentials as Passwords
from .delayed_login import DelayedLogin
from .failed_logins import FailedLogins
from .oauthbearer import OAUTHBEARER, conversation
from .rights import Access, Network, is_in
from .tokens import Tokens

COMMON_NAME: Final = "commonName"
C = TypeVar("C")


class Users(Passwords):
    """Users and their passwords. It may be sent to another process."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        super().__init__(passwords)
        self._all = dict(passwords)

    @property
    def passwords(self) -> dict[str, str]:
        """Passwords by user."""
        return self._all

    def __reduce__(self) -> tuple[type["Users"], tuple[dict[str, str]]]:
        return Users, (self._all,)


@dataclass(frozen=True, kw_only=True)
class Identified(Generic[C]):
    """An identified client."""

    name: str  # for the log
    access: Access
    credentials: C  # for a cluster
    rule: int | None = field(default=None, compare=False)  # number of the matching rule, from 1 on


@dataclass(frozen=True, kw_only=True)
class ClientRule(Generic[C]):
    """A rule: the clients that match, and their rights. An unset field matches any client.

    `user`, `group` and `certificate` are shell patterns for the SASL user, for any of the groups
    in its token, and for the common name of the certificate. A client without one does not match.
    """

    access: Access
    credentials: C
    user: str | None = None
    group: str | None = None
    certificate: str | None = None
    networks: tuple[Network, ...] = ()

    def fits(
        self, address: str, user: str | None, certificate: str | None, groups: Iterable[str] = ()
    ) -> bool:
        return (
            _matches(user, self.user)
            and (self.group is None or any(_matches(one, self.group) for one in groups))
            and _matches(certificate, self.certificate)
            and is_in(address, self.networks)
        )


@dataclass(frozen=True, kw_only=True)
class Identities(Generic[C]):
    """How the clients of a listener are identified.

    Without users, certificates and rules, every client has the rights of the listener."""

    users: Users | None = field(default=None, compare=False)  # users with passwords
    tokens: Tokens | None = field(default=None, compare=False)  # tokens of OAUTHBEARER
    client_ca: str | None = None  # the file with the CAs of clients' certificates
    rules: tuple[ClientRule[C], ...] = ()

    @property
    def is_needed(self) -> bool:
        """Whether clients must be identified."""
        return bool(self.mechanisms) or self.client_ca is not None or bool(self.rules)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms that clients may use."""
        of_users = () if self.users is None else MECHANISMS
        return of_users if self.tokens is None else (*of_users, OAUTHBEARER)

    def login(
        self, mechanism: str, failed: FailedLogins, address: str, *, is_raw: bool
    ) -> DelayedLogin:
        """A login of a client at this address, by one of the mechanisms."""
        if mechanism == OAUTHBEARER:
            assert self.tokens is not None
            talk, claim = conversation(self.tokens), self.tokens.settings.principal_claim
        else:
            assert self.users is not None
            talk, claim = self.users.conversation(mechanism), ""
        authentication = Authentication(talk, is_raw=is_raw)
        return DelayedLogin(authentication, Claim(mechanism, claim), failed, address)

    def find(
        self,
        default: Identified[C],
        address: str,
        user: str | None = None,
        certificate: str | None = None,
        groups: Iterable[str] = (),
    ) -> Identified[C] | None:
        """The client's rights. None: the client is not admitted.

        `default`: the rights of authenticated clients, if there are no rules."""
        name = user or certificate or address
        for number, rule in enumerate(self.rules, start=1):
            if rule.fits(address, user, certificate, groups):
                return Identified(
                    name=name, access=rule.access, credentials=rule.credentials, rule=number
                )
        is_known = user is not None or certificate is not None or not self.is_needed
        if self.rules or not is_known:
            return None
        return Identified(name=name, access=default.access, credentials=default.credentials)


def principal_of(user: str | None, certificate: str | None, rule: int | None) -> str:
    """The name of a client in logs: its proved name, or its rule."""
    return user or certificate or ("" if rule is None else f"rule {rule}")


def in_line(principal: str, claimed: str) -> str:
    """The end of a log line: the proved or claimed name of a client."""
    if principal:
        return f", principal {principal!r:.100}"
    return f", claims to be {claimed!r:.100}" if claimed else ""


def common_name(certificate: Any) -> str | None:
    """The common name of a certificate as `ssl` returns it; None: there is none."""
    names: Iterable[tuple[tuple[str, str], ...]] = (certificate or {}).get("subject", ())
    return next((value for one in names for key, value in one if key == COMMON_NAME), None)


def _matches(name: str | None, pattern: str | None) -> bool:
    return pattern is None or (name is not None and fnmatchcase(name, pattern))
