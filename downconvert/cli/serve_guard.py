"""Who may use a served directory: options and files of `downconvert serve`, read at the start and
again on SIGHUP.

Not here: what the settings mean (broker/access)."""

from dataclasses import dataclass, replace
from pathlib import Path
from ssl import SSLContext
from typing import Final

from downconvert.broker.access.guard import Guard
from downconvert.broker.access.identity import Users
from downconvert.broker.access.rights import ConfigError
from downconvert.broker.access.tokens import keep
from downconvert.broker.server import Server
from downconvert.broker.tls import TlsError, server_context
from records.logged import log_of

from .failure import CommandError

LOG: Final = log_of("downconvert.broker.access")


@dataclass(frozen=True, slots=True)
class GuardFiles:
    """The files, as far as they were named."""

    access: Path | None
    users: Path | None
    certificate: Path | None
    key: Path | None

    def read(self) -> tuple[Guard, SSLContext | None]:
        """CommandError: a file is of no use; OSError: it cannot be read."""
        try:
            guard = Guard() if self.access is None else Guard.load(self.access)
            if self.users is not None:
                users = Users.load(self.users)
                assert isinstance(users, Users)
                guard = replace(guard, identities=replace(guard.identities, users=users))
            return guard, self._tls(guard.identities.client_ca)
        except (ConfigError, TlsError, ValueError) as error:
            raise CommandError(str(error)) from None

    def read_again(self, server: Server) -> None:
        """Later connections go by what the files say now; those that are open stay as they are.
        Where a file is of no use, all stays as it was, and the log says why."""
        try:
            guard, tls = self.read()
        except (CommandError, OSError) as error:
            LOG.error("users, rules and certificates stay as they were: %s", error)
            return
        tokens = keep(server.broker.guard.identities.tokens, guard.identities.tokens)
        guard = replace(guard, identities=replace(guard.identities, tokens=tokens))
        server.broker.guard, server.tls = guard, tls
        LOG.info("users, rules and certificates have been read again")

    def _tls(self, client_ca: str | None) -> SSLContext | None:
        if self.certificate is None:
            if self.key is not None:
                raise CommandError("--tls-key needs --tls-cert, the certificate that it belongs to")
            if client_ca is not None:
                raise CommandError("client_ca needs TLS: give --tls-cert, too")
            return None
        return server_context(
            self.certificate, self.key, None if client_ca is None else Path(client_ca)
        )
