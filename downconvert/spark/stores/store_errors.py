"""What a store answers where it does not do what it was asked, as one error for each reason.

Arrow reports most of them as OSError with the words of the cloud's library; which one it was is
found out here, in one place.

Not here: asking again (Arrow does, stores.py)."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

NOT_FOUND: Final = re.compile(
    r"NO_SUCH_(BUCKET|KEY)|RESOURCE_NOT_FOUND|NoSuch(Bucket|Key)|ContainerNotFound|BlobNotFound"
    r"|HTTP (status|response code):? 404|\b404\b|does not exist",
    re.IGNORECASE,
)
FORBIDDEN: Final = re.compile(
    r"ACCESS_DENIED|AccessDenied|InvalidAccessKeyId|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH"
    r"|SignatureDoesNotMatch|AuthorizationFail|AuthenticationFailed|PERMISSION_DENIED|Forbidden"
    r"|ExpiredToken|INVALID_CLIENT_TOKEN_ID|UNRECOGNIZED_CLIENT|\b40[13]\b",
    re.IGNORECASE,
)
THROTTLED: Final = re.compile(
    r"SLOW_DOWN|SlowDown|THROTTL|RequestLimitExceeded|TooManyRequests|ServerBusy|\b429\b|\b503\b",
    re.IGNORECASE,
)
WORDS_MAX: Final = 300


class StoreError(OSError):
    """A store that cannot be reached, or fails."""


class ForbiddenError(StoreError):
    """A store that does not let this user read or write."""


class ThrottledError(StoreError):
    """A store that refuses further requests, also when asked again and again."""


@contextmanager
def told(name: str) -> Iterator[None]:
    """Says of errors in the block which object they are about, and which kind they are.

    FileNotFoundError, ForbiddenError, ThrottledError, StoreError."""
    try:
        yield
    except StoreError:
        raise
    except FileNotFoundError as error:
        raise _missing(name) from error
    except PermissionError as error:
        raise _forbidden(name) from error
    except OSError as error:
        words = " ".join(str(error).split())  # some say it in several lines
        if THROTTLED.search(words):
            raise ThrottledError(
                f"{name}: the store is throttling (it was asked again, with pauses): run fewer "
                "tasks at once (of S3, or set AWS_MAX_ATTEMPTS higher)"
            ) from error
        if FORBIDDEN.search(words):
            raise _forbidden(name) from error
        if NOT_FOUND.search(words):
            raise _missing(name) from error
        raise StoreError(f"{name}: {words[:WORDS_MAX]}") from error


def _missing(name: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no such object, folder or bucket", name)


def _forbidden(name: str) -> ForbiddenError:
    return ForbiddenError(
        f"{name}: forbidden; the credentials that this machine finds (environment, profile or "
        "role) may not do that"
    )
