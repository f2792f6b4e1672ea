"""Ranges of objects in S3, read from the socket into memory that is there already.

Arrow's client takes twice as much CPU time for them: it reads 16 KiB at a time, and copies. What
this one does not do is left to Arrow's, which is asked wherever no range comes: to ask again with
pauses, to say what is wrong, other clouds' credentials, proxies. A store that refuses it once is
not asked by it any more.

Not here: signatures (s3_signature.py), Arrow's client (file_systems.py)."""

import os
import re
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import quote
from urllib.request import getproxies

from .s3_signature import Credentials, signed

# Of Amazon's own names those where all clients find the endpoint by the same rule.
REGION: Final = re.compile(r"(?!us-iso|cn-|eusc-)[a-z]{2}(-gov)?-[a-z]+-[0-9]")
BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")  # with a dot it is in no certificate
SECONDS: Final = 60.0  # without a byte
KEPT_MAX: Final = 8  # connections that nobody uses
FAILURES_MAX: Final = 3  # connections in a row that came to nothing
PROXIED: Final = {"http", "https", "all"}
PARTIAL: Final = HTTPStatus.PARTIAL_CONTENT
# What may be otherwise the next time: Arrow asks again. Any other refusal is for good.
PASSING: Final = {
    HTTPStatus.NOT_FOUND,
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}

Taken = TypeVar("Taken", int, bytes)
Taking: TypeAlias = Callable[[HTTPResponse, int], Taken]


class S3Ranges:
    """The ranges of one bucket's objects, for one process and any number of threads."""

    def __init__(
        self,
        endpoint: str,
        prefix: str,
        region: str,
        credentials: Callable[[], Credentials | None],
        *,
        secure: bool = True,
    ) -> None:
        """`endpoint`: host, or host:port. `prefix`: of paths, `/bucket` or nothing.

        `credentials` returns None where nobody is asked who he is."""
        self._endpoint = endpoint
        self._prefix = prefix
        self._region = region
        self._credentials = credentials
        self._context = ssl.create_default_context() if secure else None
        self._kept: list[HTTPConnection] = []
        self._failures = 0

    @property
    def is_usable(self) -> bool:
        return self._failures < FAILURES_MAX

    def read(self, key: str, position: int, size: int) -> bytes | None:
        """The bytes of an object from a position on; fewer only at its end. None: they were not to
        be had this way."""
        return self._of(key, position, size, lambda answer, _: answer.read())

    def read_into(self, key: str, target: memoryview, position: int) -> int | None:
        """Fills `target` from a position of an object on, as far as there are bytes; returns how
        many. None: it was not to be had this way."""
        return self._of(key, position, len(target), partial(_filled, target))

    def _of(self, key: str, position: int, size: int, take: Taking[Taken]) -> Taken | None:
        if not size or not self.is_usable:
            return None
        for connection in (self._kept_one(), None):
            used = connection or self._connected()
            try:
                return self._taken(used, key, position, size, take)
            except (OSError, HTTPException):  # one that was kept may have been closed meanwhile
                if connection is None:
                    self._failures += 1
                    return None
        return None

    def _taken(
        self, connection: HTTPConnection, key: str, position: int, size: int, take: Taking[Taken]
    ) -> Taken | None:
        try:
            answer = self._asked(connection, key, position, size)
            found = _size_of_range(answer, position, size)
            if found is None:
                if answer.status not in PASSING:
                    self._failures = FAILURES_MAX
                connection.close()
                return None
            taken = take(answer, found)
        except BaseException:
            connection.close()
            raise
        self._failures = 0
        if answer.will_close or len(self._kept) >= KEPT_MAX:
            connection.close()
        else:
            self._kept.append(connection)
        return taken

    def _asked(
        self, connection: HTTPConnection, key: str, position: int, size: int
    ) -> HTTPResponse:
        path = quote(f"{self._prefix}/{key}")
        headers = {
            "host": self._endpoint,
            "range": f"bytes={position}-{position + size - 1}",
        }
        credentials = self._credentials()
        if credentials is not None:
            headers = signed(path, headers, self._region, credentials, datetime.now(UTC))
        connection.request("GET", path, headers=headers)
        return connection.getresponse()

    def _kept_one(self) -> HTTPConnection | None:
        with suppress(IndexError):
            return self._kept.pop()
        return None

    def _connected(self) -> HTTPConnection:
        if self._context is not None:
            return HTTPSConnection(self._endpoint, timeout=SECONDS, context=self._context)
        return HTTPConnection(self._endpoint, timeout=SECONDS)


def _size_of_range(answer: HTTPResponse, position: int, size: int) -> int | None:
    """The bytes of what was asked for, fewer at the object's end; None: it is something else."""
    said = answer.getheader("Content-Range", "")
    if answer.status != PARTIAL or not said.startswith(f"bytes {position}-"):
        return None
    return None if answer.length is None or answer.length > size else answer.length


def _filled(target: memoryview, answer: HTTPResponse, size: int) -> int:
    read = 0
    while read < size:
        count = answer.readinto(target[read:size])
        if not count:
            raise ConnectionError("the answer ends too early")
        read += count
    return read


def ranges_of(bucket: str, settings: Mapping[str, str], region: str) -> S3Ranges | None:
    """A bucket's ranges; None: they are left to Arrow's client. `settings`: a URI's query."""
    endpoint, prefix = settings.get("endpoint_override", ""), f"/{bucket}"
    if not endpoint:
        if not REGION.fullmatch(region) or not BUCKET.fullmatch(bucket):
            return None
        endpoint, prefix = f"{bucket}.s3.{region}.amazonaws.com", ""
    if "/" in endpoint or PROXIED & getproxies().keys():
        return None
    if settings.get("anonymous") != "true" and _credentials() is None:
        return None
    credentials = _credentials if settings.get("anonymous") != "true" else lambda: None
    is_secure = settings.get("scheme", "https") == "https"
    return S3Ranges(endpoint, prefix, region, credentials, secure=is_secure)


def _credentials() -> Credentials | None:
    """Those in the environment, which are first in all clients' chains; else what botocore finds,
    where that is installed."""
    access, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if access and secret:
        return Credentials(access, secret, os.environ.get("AWS_SESSION_TOKEN") or None)
    found = _of_botocore()
    return None if found is None else Credentials(*found.get_frozen_credentials()[:3])


@cache
def _of_botocore() -> Any:
    """Credentials that are renewed before they expire; None: there are none, or no botocore."""
    try:
        from botocore.session import get_session
    except ImportError:
        return None
    return get_session().get_credentials()
