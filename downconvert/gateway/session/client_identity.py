"""Who the client of a connection is: what it has proved, and which rule matches that.

Not here: its login (login.py), the rules (access/identity.py), what a rule allows
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
    """Of one connection. `address`: the client's. `certificate`: the name in the client's.

    `identified`: None until it is known which rule the client has. `proved`: what that is known by,
    if the client has logged in. `login`: None where there are no users."""

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
        """The client's name, or its address, for the rates that are counted by client."""
        return (self.identified.name if self.identified is not None else "") or self.address

    @property
    def rule(self) -> int | None:
        """The number of its rule, from 1 on; None: none has matched."""
        return None if self.identified is None else self.identified.rule

    @property
    def principal(self) -> str:
        """Who the client is, for logs; empty: it has shown nothing, and no rule is for it."""
        user = None if self.proved is None else self.proved.name
        return principal_of(user, self.certificate, self.rule)

    @property
    def claimed(self) -> str:
        """The user of its last login, who it may not be."""
        return "" if self.login is None else self.login.claimed

    @property
    def refusal(self) -> str:
        """Why a login has failed that the client was told of; it may leave without a word."""
        return "" if self.login is None else self.login.refusal

    def has_expired(self, now: float) -> bool:
        """Whether its login is no longer valid. `now`: the time of day."""
        return self.login is not None and self.login.is_over(now)

    def find(self) -> bool:
        """Finds the rule of a client that does not log in. Whether there is one."""
        self.identified = self._matching(None)
        return self.identified is not None

    def logged_in(self, reply: Reply) -> Reply:
        """A login has been answered with `reply`. A user that no rule matches is logged in, and
        refused."""
        assert self.login is not None
        proved = self.login.proved
        if proved is None or proved is self.proved:
            return reply
        if self.identified is not None and self.proved is None:
            return reply  # it goes on as who it was before
        known, self.proved = self.identified, proved
        self.identified = self._matching(proved)
        if self.identified is None:
            return HangUp(f"user {proved.name!r:.100}, who matches no rule", is_login=True)
        if known is not None and known != self.identified:
            # Its connection to the cluster, and what it was offered, are those of the former.
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
