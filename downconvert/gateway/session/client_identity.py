"""The identity of a connection's client: what it has proved, and which rule matches.

Not here: its login (login.py), the rules (access/identity.py), the rights that a rule grants
(access/permissions.py)."""

from typing import Final

from downconvert.access.credentials import Proved
from downconvert.access.identity import principal_of
from downconvert.access.rights import Access
from downconvert.gateway.identity import Identified
from downconvert.gateway.security import Credentials
from records.logged import log_of

from .exchanges import HangUp, Reply
from .login import Login
from .shared import Shared

AUDIT: Final = log_of("downconvert.audit")


class ClientIdentity:
    """The identity of one connection's client. `address`: of the client. `certificate`: the name in
    its certificate.

    `identified`: the client's rule; None: not yet known. `proved`: the result of its login; None:
    it has not logged in. `login`: None if no users are configured."""

    __slots__ = ("_shared", "address", "certificate", "identified", "login", "proved")

    def __init__(self, shared: Shared, address: str, certificate: str | None) -> None:
        config = shared.config
        self._shared = shared
        self.address = address
        self.certificate = certificate
        self.login = (
            Login(config.identities, address, shared.failed_logins)
            if config.identities.mechanisms
            else None
        )
        self.identified: Identified | None = None if config.identities.is_needed else config.default
        self.proved: Proved | None = None

    @property
    def access(self) -> Access:
        """What the client may do."""
        return (self.identified or self._shared.config.default).access

    @property
    def credentials(self) -> Credentials | None:
        """The credentials with which the cluster is asked for this client."""
        return (self.identified or self._shared.config.default).credentials

    @property
    def name(self) -> str:
        """The client's name or address, which its rates are counted by."""
        return (self.identified.name if self.identified is not None else "") or self.address

    @property
    def rule(self) -> int | None:
        """The number of its rule, from 1 on; None: none has matched."""
        return None if self.identified is None else self.identified.rule

    @property
    def principal(self) -> str:
        """The client's principal, for logs. Empty: it has proved nothing and matches no rule."""
        user = None if self.proved is None else self.proved.name
        return principal_of(user, self.certificate, self.rule)

    @property
    def claimed(self) -> str:
        """The user name of its last login, proved or not."""
        return "" if self.login is None else self.login.claimed

    @property
    def refusal(self) -> str:
        """Why a login failed, if the client was told so. It may then close without an answer."""
        return "" if self.login is None else self.login.refusal

    def has_expired(self, now: float) -> bool:
        """Whether its login is no longer valid. `now`: the time of day."""
        return self.login is not None and self.login.is_over(now)

    def find(self) -> bool:
        """Finds the rule of a client that does not log in. Returns whether one matches."""
        self.identified = self._matching(None)
        return self.identified is not None

    def logged_in(self, reply: Reply) -> Reply:
        """Takes the login that `reply` answers, and returns the reply to send. A user that matches
        no rule is logged in, and refused."""
        assert self.login is not None
        proved = self.login.proved
        if proved is None or proved is self.proved:
            return reply
        if self.identified is not None and self.proved is None:
            return reply  # it keeps its former identity
        known, self.proved = self.identified, proved
        self.identified = self._matching(proved)
        if self.identified is None:
            return HangUp(f"user {proved.name!r:.100}, who matches no rule", is_login=True)
        if known is not None and known != self.identified:
            # Its cluster connection and its offered versions belong to the former rights.
            return HangUp(f"user {proved.name!r:.100} has other rights now, and connects again")
        fields = {"client": self.address, "principal": self.principal, "rule": self.rule}
        text = "client %s: has logged in as %r"
        extra = {"fields": {"event": "logged_in", **fields}}
        AUDIT.info(text, self.address, self.principal, extra=extra)
        return reply

    def _matching(self, proved: Proved | None) -> Identified | None:
        config = self._shared.config
        user, groups = (None, ()) if proved is None else (proved.name, proved.groups)
        return config.identities.find(config.default, self.address, user, self.certificate, groups)
