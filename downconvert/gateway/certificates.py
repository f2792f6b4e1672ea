"""The gateway's TLS contexts, for its clients and for the cluster, and their files.

A renewed certificate is written to the same file, renamed over it, or put behind a symbolic link,
as Kubernetes does. The event loop checks the files for changes, without a thread.

Not here: handshakes (reception.py), reading a certificate's end (expiry.py)."""

import ssl
import warnings
from pathlib import Path
from threading import Lock
from typing import Final

from downconvert.access.rights import ConfigError
from downconvert.serving.pem import TlsError, load_authorities, load_pair
from downconvert.serving.trust import trust_as_kafka
from records.logged import log_of

from .config import TLS_VERSIONS, GatewayConfig
from .expiry import valid_until
from .security import tls_context

LOG: Final = log_of(__name__)
# OpenSSL 3 requires this for TLS 1.0 and 1.1, because their signatures use SHA-1.
OLD_CIPHERS: Final = "DEFAULT:@SECLEVEL=0"
VERSIONS: Final = {
    "1.0": ssl.TLSVersion.TLSv1,
    "1.1": ssl.TLSVersion.TLSv1_1,
    "1.2": ssl.TLSVersion.TLSv1_2,
    "1.3": ssl.TLSVersion.TLSv1_3,
}
assert tuple(VERSIONS) == TLS_VERSIONS
FileState = tuple[int, ...] | None


class Certificates:
    """Contexts for later connections. Thread-safe. ConfigError: a file is invalid."""

    server: ssl.SSLContext | None  # for clients; None: they do not use TLS
    cluster: ssl.SSLContext | None  # for connections to the cluster, likewise
    valid_until: float | None  # seconds since the epoch; None: there is no listener with TLS

    def __init__(self, config: GatewayConfig) -> None:
        self._lock = Lock()  # so that files of old settings never replace those of new ones
        self._failure = ""
        self.read(config)

    def read(self, config: GatewayConfig) -> None:
        """Reads all files of these settings. ConfigError: a file is invalid. The contexts are
        unchanged."""
        with self._lock:
            self._read(config)

    def _read(self, config: GatewayConfig) -> None:
        states = _states(config)  # first, so that a change during the reads is noticed later
        server, cluster = server_context(config), tls_context(config.security)
        until = None if config.tls_cert is None else _until(config.tls_cert)
        # New contexts do not trust the CAs and TLS sessions of the old ones.
        self.server, self.cluster, self.valid_until = server, cluster, until
        self._config, self._states, self._failure = config, states, ""
        if config.takes_old_tls:
            LOG.warning("clients may speak TLS %s, which is not safe", config.tls_min_version)

    def read_if_changed(self) -> None:
        """Reads the files again if one of them has changed. The old contexts stay while the files
        do not match, for example between the writes of a new certificate and its key."""
        with self._lock:
            if _states(self._config) == self._states:
                return
            try:
                self._read(self._config)
            except ConfigError as error:
                if str(error) != self._failure:
                    self._failure = str(error)
                    text = "a certificate has changed, and the former is used on: %s"
                    LOG.warning(text, error)
            else:
                LOG.info("certificates have been read again: a file has changed")


def server_context(config: GatewayConfig) -> ssl.SSLContext | None:
    """The context for clients. None: they do not use TLS. ConfigError: a file is invalid."""
    if config.tls_cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trust_as_kafka(context)
    _limit(context, config)
    assert config.tls_key is not None
    certificate, key, ca_file = config.tls_cert, config.tls_key, config.identities.client_ca
    try:
        load_pair(context, Path(certificate), Path(key), ("tls_cert", "tls_key"))
        if ca_file is not None:
            load_authorities(context, Path(ca_file), "client_ca")
            # A client without a certificate may still log in, or be admitted by its network.
            context.verify_mode = ssl.CERT_OPTIONAL
    except TlsError as error:
        raise ConfigError(str(error)) from None
    return context


def _until(certificate: str) -> float:
    """When a certificate that OpenSSL has loaded expires. ConfigError: its file has changed since
    then, and is incomplete."""
    try:
        return valid_until(Path(certificate))
    except (OSError, ValueError, IndexError, StopIteration):
        raise ConfigError(f"tls_cert {certificate}: it changed while it was read") from None


def _limit(context: ssl.SSLContext, config: GatewayConfig) -> None:
    """Sets the lowest version and the ciphers. ConfigError: OpenSSL knows none of the ciphers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # an operator may allow old versions
        context.minimum_version = VERSIONS[config.tls_min_version]
    ciphers = config.tls_ciphers or (OLD_CIPHERS if config.takes_old_tls else None)
    if ciphers is not None:
        try:
            context.set_ciphers(ciphers)
        except ssl.SSLError as error:
            raise ConfigError(f"tls_ciphers {ciphers!r}: {error.args[0]}") from None


def _states(config: GatewayConfig) -> list[FileState]:
    security = config.security
    files = (config.tls_cert, config.tls_key, config.identities.client_ca)
    towards_cluster = (security.ca_file, security.cert_file, security.key_file)
    return list(map(_state, filter(None, (*files, *towards_cluster))))


def _state(path: str) -> FileState:
    """The state of a file, after following symbolic links. None: there is no file now."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
