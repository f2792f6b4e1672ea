"""A login that waits after failed logins of the same user and address, and records its own result.

Not here: the length of the wait (failed_logins.py), the requests with the tokens
(handlers/sasl.py, and the gateway's login.py)."""

from collections.abc import Callable

from .claim import Claim
from .credentials import Authentication, AuthenticationError, Proved
from .failed_logins import UNCOUNTED, FailedLogins


class DelayedLogin:
    """The login of one client, from its handshake on."""

    def __init__(
        self, authentication: Authentication, claim: Claim, failed: FailedLogins, address: str
    ) -> None:
        self.authentication = authentication
        self._claim = claim
        self._failed = failed
        self._address = address
        self._attempt = UNCOUNTED

    @property
    def is_raw(self) -> bool:
        """Whether its tokens are frames without a header."""
        return self.authentication.is_raw

    @property
    def claimed(self) -> str:
        """The user that the client claims to be, not yet proved; empty: unknown."""
        return self._claim.user

    @property
    def refusal(self) -> str:
        """Why a token was refused, until the client confirms the refusal. Empty: none was
        refused."""
        refused = self.authentication.refused
        return "" if refused is None else f"failed login: {refused.why}"

    def begin(self, token: bytes, now: float) -> float:
        """Returns the seconds until this token may be checked."""
        if self._claim.take(token):
            self._attempt = self._failed.begin(self._claim.user, self._address, now)
            return self._attempt.wait
        return 0.0

    def take(
        self, token: bytes, now: float, time_of_day: float, admit: Callable[[Proved], None]
    ) -> bytes | Proved | None:
        """As `Authentication.take`. `now`: by the clock of `begin`. `admit` is called with the
        authenticated user, and may raise AuthenticationError, too."""
        was_refused = self.authentication.refused is not None
        user, address = self._claim.user, self._address
        try:
            taken = self.authentication.take(token, time_of_day)
            if isinstance(taken, Proved):
                admit(taken)
        except AuthenticationError:
            if not was_refused:
                self._failed.fail(user, address, now, self._attempt)
            raise
        if self.authentication.refused is not None:
            self._failed.fail(user, address, now, self._attempt)
        elif isinstance(taken, Proved):
            self._failed.succeed(user, address, self._attempt)
        return taken
