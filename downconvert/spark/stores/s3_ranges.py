"""Reads ranges of S3 objects from the socket directly into given memory.

Arrow's client takes twice as much CPU time (`python -m bench.spark_ranges`): it reads 16 KiB at a
time, and copies. botocore's takes as much as Arrow's. If a range cannot be read here, Arrow's
client reads it. Arrow's client also does retries with pauses, error messages, other clouds'
credentials and proxies. After a store has refused one request, this client no longer asks it.

botocore provides credentials and signatures. Without it, Arrow's client reads everything.

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
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar
from urllib.parse import quote
from urllib.request import getproxies

# Amazon's regions in which all clients derive the endpoint by the same rule.
REGION: Final = re.compile(r"(?!us-iso|cn-|eusc-)[a-z]{2}(-gov)?-[a-z]+-[0-9]")
# Names without a dot, because certificates do not cover names with one.
BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
RANGE: Final = re.compile(r"bytes ([0-9]{1,19})-[0-9]{1,19}/([0-9]{1,19}|\*)")  # start, whole size
CONNECT_SECONDS: Final = 5.0  # Arrow's client is tried soon if the host does not answer
SECONDS: Final = 30.0  # without receiving a byte
KEPT_MAX: Final = 8  # idle connections
FAILURES_MAX: Final = 3  # failed connections in a row
CA_BUNDLE: Final = "AWS_CA_BUNDLE"  # a file of trusted authorities, as for botocore
PROXIED: Final = {"http", "https", "all"}
PARTIAL: Final = HTTPStatus.PARTIAL_CONTENT
# Responses that may succeed on a retry, which Arrow's client does. Any other refusal is final.
PASSING: Final = {
    HTTPStatus.NOT_FOUND,
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}

# Makes the authentication headers for a GET of a URL, from its other headers.
Sign: TypeAlias = Callable[[str, dict[str, str]], Mapping[str, str]]


class Held(Protocol):
    """Credentials of botocore."""

    def get_frozen_credentials(self) -> object: ...


Taken = TypeVar("Taken", int, bytes)
Taking: TypeAlias = Callable[[HTTPResponse, int], Taken]
# Gets the size of the whole object, which each response has.
Sizing: TypeAlias = Callable[[int], object]


class S3Ranges:
    """Reads ranges of one bucket's objects, in one process and any number of threads."""

    def __init__(self, endpoint: str, prefix: str, sign: Sign, *, secure: bool = True) -> None:
        """`endpoint`: host, or host:port. `prefix`: of paths, `/bucket` or empty."""
        self.endpoint = endpoint
        self.prefix = prefix
        self._sign = sign
        trusted = os.environ.get(CA_BUNDLE) or None
        self._context = ssl.create_default_context(cafile=trusted) if secure else None
        self._kept: list[HTTPConnection] = []
        self._failures = 0

    @property
    def is_usable(self) -> bool:
        return self._failures < FAILURES_MAX

    def read(
        self, key: str, position: int, size: int, sizing: Sizing | None = None
    ) -> bytes | None:
        """The bytes of an object from a position on; fewer only at its end. None: this client
        cannot read them."""
        return self._of(key, position, size, lambda response, _: response.read(), sizing)

    def read_into(
        self, key: str, target: memoryview, position: int, sizing: Sizing | None = None
    ) -> int | None:
        """Fills `target` from a position of an object on, as far as there are bytes; returns how
        many. None: this client cannot read them."""
        return self._of(key, position, len(target), partial(_filled, target), sizing)

    def _of(
        self, key: str, position: int, size: int, take: Taking[Taken], sizing: Sizing | None
    ) -> Taken | None:
        if not size or not self.is_usable:
            return None
        for connection in (self._idle_connection(), None):
            try:
                used = connection or self._connected()
                return self._taken(used, key, position, size, take, sizing)
            except (OSError, HTTPException):  # the server may have closed an idle connection
                if connection is None:
                    self._failures += 1
                    return None
        return None

    def _taken(
        self,
        connection: HTTPConnection,
        key: str,
        position: int,
        size: int,
        take: Taking[Taken],
        sizing: Sizing | None,
    ) -> Taken | None:
        try:
            response = self._asked(connection, key, position, size)
            found = _range_of(response, position, size)
            if found is None:
                if response.status not in PASSING:
                    self._failures = FAILURES_MAX
                connection.close()
                return None
            taken = take(response, found.size)
            if sizing is not None and found.size_of_object is not None:
                sizing(found.size_of_object)
        except BaseException:
            connection.close()
            raise
        self._failures = 0
        if response.will_close or len(self._kept) >= KEPT_MAX:
            connection.close()
        else:
            self._kept.append(connection)
        return taken

    def _asked(
        self, connection: HTTPConnection, key: str, position: int, size: int
    ) -> HTTPResponse:
        path = quote(f"{self.prefix}/{key}")
        headers = {
            "host": self.endpoint,
            "range": f"bytes={position}-{position + size - 1}",
        }
        scheme = "http" if self._context is None else "https"
        signed = self._sign(f"{scheme}://{self.endpoint}{path}", headers)
        connection.request("GET", path, headers=signed)
        return connection.getresponse()

    def _idle_connection(self) -> HTTPConnection | None:
        with suppress(IndexError):
            return self._kept.pop()
        return None

    def _connected(self) -> HTTPConnection:
        if self._context is not None:
            return _SecureConnection(self.endpoint, timeout=CONNECT_SECONDS, context=self._context)
        return _Connection(self.endpoint, timeout=CONNECT_SECONDS)


class _SecureConnection(HTTPSConnection):
    """A connection with a longer timeout after the connect."""

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(SECONDS)


class _Connection(HTTPConnection):
    """A connection that reads each range with one system call, not with two for each piece that
    arrives.

    The kernel enforces the timeout: with Python's own timeout a call returns after the first
    piece."""

    def connect(self) -> None:
        super().connect()
        self.sock = _Socket(fileno=self.sock.detach())
        self.sock.settimeout(None)
        seconds = struct.pack("@ll", int(SECONDS), 0)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.sock.setsockopt(socket.SOL_SOCKET, option, seconds)


class _Socket(socket.socket):
    """Reads directly into memory that is larger than the buffer for a response's headers."""

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        if memoryview(buffer).nbytes > DEFAULT_BUFFER_SIZE:
            flags |= socket.MSG_WAITALL
        try:
            return super().recv_into(buffer, nbytes, flags)
        except BlockingIOError:  # the kernel's timeout
            raise TimeoutError("nothing has arrived for a while") from None


class _Range(NamedTuple):
    """size: bytes of the requested range, fewer at the object's end. size_of_object: None if the
    response does not state it."""

    size: int
    size_of_object: int | None


def _range_of(response: HTTPResponse, position: int, size: int) -> _Range | None:
    """The range in a response. None: the response has no range, or is incomplete."""
    content_range = RANGE.fullmatch(response.getheader("Content-Range", ""))
    if response.status != PARTIAL or content_range is None or int(content_range[1]) != position:
        return None
    whole = None if content_range[2] == "*" else int(content_range[2])
    there = size if whole is None else min(size, whole - position)
    return _Range(there, whole) if response.length == there else None


def _filled(target: memoryview, response: HTTPResponse, size: int) -> int:
    read = 0
    while read < size:
        count = response.readinto(target[read:size])
        if not count:
            raise ConnectionError("the response ends too early")
        read += count
    return read


def ranges_of(bucket: str, settings: Mapping[str, str], region: str) -> S3Ranges | None:
    """A bucket's client; None: Arrow's client reads it. `settings`: a URI's query."""
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
    except OSError:  # unreadable file of authorities: Arrow's client reports it
        return None


def _not_signed(_: str, headers: dict[str, str]) -> dict[str, str]:
    return headers


def _signing(region: str) -> Sign | None:
    """Signs requests with this process's credentials, which are renewed before they expire.
    OSError: they can no longer be renewed. None: there are no credentials, or no botocore."""
    try:
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        return None
    try:
        found = credentials()
    except (BotoCoreError, ClientError):  # for example, a missing profile
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
def credentials() -> Held | None:
    """The credentials that botocore finds: environment, profile, role. A machine's role is
    requested once."""
    from botocore.session import get_session

    found: Held | None = get_session().get_credentials()
    return found
