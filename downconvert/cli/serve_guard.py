"""Access to a served directory: options and files of `downconvert serve`, read at the start and
again on SIGHUP.

Not here: the meaning of the settings (access/)."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from ssl import SSLContext
from typing import Final

from downconvert.access.guard import Guard
from downconvert.access.identity import Users
from downconvert.access.rights import ConfigError
from downconvert.access.tokens import keep
from downconvert.broker.server import Server
from downconvert.serving.pem import TlsError
from downconvert.serving.tls import server_context
from records.logged import log_of

from .config_file import ConfigFile
from .failure import CommandError

LOG: Final = log_of("downconvert.access")


@dataclass(frozen=True, slots=True)
class GuardFiles:
    """The files that options name. `config`: reads the command's own file, which may have the
    settings of `access`, too."""

    access: Path | None
    users: Path | None
    certificate: Path | None
    key: Path | None
    config: Callable[[], ConfigFile] = ConfigFile
    _at_start: ConfigFile = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_at_start", self.config())

    def read(self) -> tuple[Guard, SSLContext | None]:
        """Reads the files. CommandError: a file cannot be used. OSError: it cannot be read."""
        try:
            guard = self._guard()
            if self.users is not None:
                users = Users.load(self.users)
                assert isinstance(users, Users)
                guard = replace(guard, identities=replace(guard.identities, users=users))
            return guard, self._tls(guard.identities.client_ca)
        except (ConfigError, TlsError, ValueError) as error:
            raise CommandError(str(error)) from None

    def read_again(self, server: Server) -> None:
        """Applies the current files to later connections. Open connections do not change. If a file
        cannot be used, nothing changes, and the reason is logged."""
        try:
            waiting = self._at_start.differing(self.config())
            guard, tls = self.read()
        except (CommandError, OSError) as error:
            LOG.error("users, rules and certificates stay as they were: %s", error)
            return
        tokens = keep(server.broker.guard.identities.tokens, guard.identities.tokens)
        guard = replace(guard, identities=replace(guard.identities, tokens=tokens))
        server.broker.guard, server.tls = guard, tls
        LOG.info("users, rules and certificates have been read again")
        if waiting:
            LOG.warning("settings that need a restart have changed: %s", ", ".join(waiting))

    def _guard(self) -> Guard:
        file = self.config()
        if self.access is not None:
            if file.settings:
                name = min(file.settings)
                raise CommandError(f"{file.path} has {name}: leave out --access, or that")
            return Guard.load(self.access)
        try:
            return Guard.of(file.settings) if file.settings else Guard()
        except ConfigError as error:
            raise CommandError(f"{error}{file.where(str(error))}") from None

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
