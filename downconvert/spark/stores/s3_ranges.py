"""Ranges of objects in S3, read from the socket into memory that is there already.

Arrow's client takes twice as much CPU time for them: it reads 16 KiB at a time, and copies. What
this one does not do is left to Arrow's, which is asked wherever no range comes: to ask again with
pauses, to say what is wrong, other clouds' credentials, proxies. A store that refuses it once is
not asked by it any more.

Credentials and signatures are botocore's; without it Arrow's client reads everything.

Not here: Arrow's client (file_systems.py)."""

import os
import re
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import DEFAULT_BUFFER_SIZE
from typing import Any, Final, Protocol, TypeAlias, TypeVar
from urllib.parse import quote
from urllib.request import getproxies

# Of Amazon's own names those where all clients find the endpoint by the same rule.
REGION: Final = re.compile(r"(?!us-iso|cn-|eusc-)[a-z]{2}(-gov)?-[a-z]+-[0-9]")
BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")  # with a dot it is in no certificate
RANGE: Final = re.compile(r"bytes ([0-9]{1,19})-[0-9]{1,19}/([0-9]{1,19}|\*)")  # start, whole size
CONNECT_SECONDS: Final = 5.0  # Arrow's turn comes soon where nobody answers
SECONDS: Final = 30.0  # without a byte
KEPT_MAX: Final = 8  # connections that nobody uses
FAILURES_MAX: Final = 3  # connections in a row that came to nothing
CA_BUNDLE: Final = "AWS_CA_BUNDLE"  # a file of the authorities that are trusted, as for botocore
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

# The headers of a GET of a URL that say who asks, from those that it has.
Sign: TypeAlias = Callable[[str, dict[str, str]], Mapping[str, str]]


class Held(Protocol):
    """Credentials, as botocore has them."""

    def get_frozen_credentials(self) -> object: ...


Taken = TypeVar("Taken", int, bytes)
Taking: TypeAlias = Callable[[HTTPResponse, int], Taken]


class S3Ranges:
    """The ranges of one bucket's objects, for one process and any number of threads."""

    def __init__(self, endpoint: str, prefix: str, sign: Sign, *, secure: bool = True) -> None:
        """`endpoint`: host, or host:port. `prefix`: of paths, `/bucket` or nothing."""
        self._endpoint = endpoint
        self._prefix = prefix
        self._sign = sign
        trusted = os.environ.get(CA_BUNDLE) or None
        self._context = ssl.create_default_context(cafile=trusted) if secure else None
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
            try:
                used = connection or self._connected()
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
        scheme = "http" if self._context is None else "https"
        signed = self._sign(f"{scheme}://{self._endpoint}{path}", headers)
        connection.request("GET", path, headers=signed)
        return connection.getresponse()

    def _kept_one(self) -> HTTPConnection | None:
        with suppress(IndexError):
            return self._kept.pop()
        return None

    def _connected(self) -> HTTPConnection:
        if self._context is not None:
            return _SecureConnection(self._endpoint, timeout=CONNECT_SECONDS, context=self._context)
        return _Connection(self._endpoint, timeout=CONNECT_SECONDS)


class _SecureConnection(HTTPSConnection):
    """One that is waited for longer once it is there."""

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(SECONDS)


class _Connection(HTTPConnection):
    """One that is read by one call of the system for each range, and not by two for each piece of
    it that arrives.

    The system counts the seconds, since where Python does, no call waits for more than a piece."""

    def connect(self) -> None:
        super().connect()
        self.sock = _Socket(fileno=self.sock.detach())
        self.sock.settimeout(None)
        seconds = struct.pack("@ll", int(SECONDS), 0)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.sock.setsockopt(socket.SOL_SOCKET, option, seconds)


class _Socket(socket.socket):
    """Fills what is larger than the buffer in which an answer's first lines are looked for."""

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        if memoryview(buffer).nbytes > DEFAULT_BUFFER_SIZE:
            flags |= socket.MSG_WAITALL
        try:
            return super().recv_into(buffer, nbytes, flags)
        except BlockingIOError:  # what the system says when it has counted them
            raise TimeoutError("nothing has arrived for a while") from None


def _size_of_range(answer: HTTPResponse, position: int, size: int) -> int | None:
    """The bytes of what was asked for, fewer at the object's end; None: it is something else, or
    not all of it."""
    said = RANGE.fullmatch(answer.getheader("Content-Range", ""))
    if answer.status != PARTIAL or said is None or int(said[1]) != position:
        return None
    there = size if said[2] == "*" else min(size, int(said[2]) - position)
    return there if answer.length == there else None


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
    is_anonymous = settings.get("anonymous") == "true"
    sign = _not_signed if is_anonymous else _signing(region)
    if sign is None:
        return None
    is_secure = settings.get("scheme", "https") == "https"
    try:
        return S3Ranges(endpoint, prefix, sign, secure=is_secure)
    except OSError:  # the file of authorities cannot be read: Arrow says so
        return None


def _not_signed(_: str, headers: dict[str, str]) -> dict[str, str]:
    return headers


def _signing(region: str) -> Sign | None:
    """By who this process is for S3, renewed before it expires; OSError: it can no longer be found
    out. None: it is nobody, or there is no botocore."""
    try:
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        return None
    try:
        found = _credentials()
    except (BotoCoreError, ClientError):  # a profile that is not there, say
        return None
    if found is None:
        return None

    def sign(url: str, headers: dict[str, str]) -> Mapping[str, str]:
        request = AWSRequest("GET", url, headers)
        try:
            S3SigV4Auth(found.get_frozen_credentials(), "s3", region).add_auth(request)
        except (BotoCoreError, ClientError) as error:
            raise OSError(str(error)) from error
        return dict(request.headers.items())

    return sign


@cache
def _credentials() -> Held | None:
    """What botocore finds: environment, profile, role. It asks a machine who it is once only."""
    from botocore.session import get_session

    found: Held | None = get_session().get_credentials()
    return found
