"""Reads the keys of token issuers from a file or an https URL.

A thread reads the document again periodically, and also when a token names an unknown key, at most
once a minute. If the document cannot be read or used, the last good one stays, and the thread
retries after 1, 2, 4, … seconds.

Not here: the document's contents (jwks.py)."""

import ssl
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, build_opener

from records.logged import log_of, with_log_fields
from records.units import KiB

from .jwks import DOCUMENT_MAX, Jwks, JwksError
from .rights import ConfigError

LOG: Final = log_of(__name__)
HTTPS: Final = "https"
SILENCE_MAX: Final = 5.0  # seconds without a byte
TRANSFER_MAX: Final = 15.0  # seconds for a document
PIECE_SIZE: Final = 64 * KiB
RETRY_MAX: Final = 60.0  # seconds until the next attempt
UNKNOWN_SECONDS: Final = 60.0  # between two renewals because of unknown keys

Read = Callable[[], bytes]


class JwksSource:
    """The last keys that were read. Thread-safe.

    read: returns the document's keys; it may raise OSError or JwksError. clock: monotonic, in
    seconds."""

    def __init__(
        self,
        name: str,
        read: Read,
        renew_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._read = read
        self._renew_seconds = renew_seconds
        self._clock = clock
        self._lock = Lock()
        self._jwks: Jwks | None = None
        self._failures = 0  # successive ones
        self._failure: str | None = "they have not been read yet"
        self._is_renewing = False
        self._asked: float | None = None  # time of the last renewal for an unknown key
        self._wake = Event()
        self._is_stopped = False
        # A daemon thread, because it may be waiting for a silent server when the process ends.
        self._thread = Thread(target=with_log_fields(self._run), name="jwks", daemon=True)

    def start(self) -> None:
        self._is_renewing = True
        self._thread.start()

    def stop(self) -> None:
        """Stops renewing the keys. The last ones stay."""
        self._is_stopped = True
        self._wake.set()

    @property
    def jwks(self) -> Jwks | None:
        """The last keys. None: none have been read yet."""
        return self._jwks

    @property
    def failure(self) -> str | None:
        """Why there are no keys. None: there are keys."""
        return None if self._jwks is not None else self._failure

    @property
    def is_renewing(self) -> bool:
        """Whether the document is being read, or is about to be. Afterwards `jwks` has its keys."""
        return self._is_renewing and not self._is_stopped

    def miss(self) -> None:
        """A token names an unknown key. Reads the document again, at most once in
        UNKNOWN_SECONDS."""
        with self._lock:
            now = self._clock()
            if self._asked is not None and now - self._asked < UNKNOWN_SECONDS:
                return
            self._asked = now
        self.renew_soon()

    def renew_soon(self) -> None:
        """Makes the thread read the document again."""
        with self._lock:
            self._is_renewing = True
            self._wake.set()

    def renew(self) -> float:
        """Reads the document. Returns the seconds until the next renewal."""
        with self._lock:
            self._is_renewing = True
            self._wake.clear()
        try:
            self._jwks = Jwks.parse(self._read())
        except (OSError, HTTPException, ValueError, ConfigError) as error:
            reason = _reason(error)
            if reason != self._failure:
                kept = "" if self._jwks is None else "; those that were read last stay"
                LOG.error("keys of tokens, %s: %s%s", self._name, reason, kept)
            self._failure = reason
            self._failures += 1
            return min(2.0 ** min(self._failures - 1, 20), RETRY_MAX, self._renew_seconds)
        finally:
            with self._lock:
                self._is_renewing = self._wake.is_set()  # requested again in the meantime
        if self._failures:
            LOG.info("keys of tokens, %s: read again", self._name)
        self._failures, self._failure = 0, None
        return self._renew_seconds

    def _run(self) -> None:
        while not self._is_stopped:
            try:
                seconds = self.renew()
            except Exception:
                LOG.exception("a defect in reading the keys of tokens")
                seconds = RETRY_MAX
            if not self._is_stopped:
                self._wake.wait(seconds)


def reader(location: str, ca_file: str | None) -> Read:
    """Reads the document at a path or an https URL. ConfigError: it is neither."""
    scheme, colon, _ = location.partition("://")
    if not colon:
        return lambda: _read_file(Path(location))
    if scheme.lower() != HTTPS:
        raise ConfigError(f"jwks is {location!r}: keys come from a file or an https URL")
    try:
        parts = urlsplit(location)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole:
        raise ConfigError(
            f"jwks is {location!r}, which is not a URL with a host: write https://HOST/PATH"
        )
    return lambda: _fetch(location, tls_context(ca_file))


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """The TLS context for fetching. ConfigError: the CA file cannot be used."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(f"ca_file of [oauth], {ca_file}: {error.strerror or error}") from None
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as everywhere (serving/trust.py)
    return context


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(DOCUMENT_MAX + 1)


def _fetch(url: str, context: ssl.SSLContext) -> bytes:
    """Fetches a document. HTTPException, OSError; JwksError: it is too large, or takes too long."""
    until = time.monotonic() + TRANSFER_MAX
    opener = build_opener(HTTPSHandler(context=context), _NoRedirect)
    document = bytearray()
    with opener.open(url, timeout=SILENCE_MAX) as response:
        while piece := response.read1(PIECE_SIZE):
            document += piece
            if len(document) > DOCUMENT_MAX:
                break  # `parse` reports it
            if time.monotonic() > until:
                raise JwksError(f"did not arrive whole within {TRANSFER_MAX:.0f} s")
    return bytes(document)


class _NoRedirect(HTTPRedirectHandler):
    """Refuses redirects: the operator decides which host is trusted."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, JwksError):
        return f"it {error}"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
