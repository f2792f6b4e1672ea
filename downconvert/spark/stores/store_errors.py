"""The errors of stores, as one class for each reason.

Arrow and fsspec report most of them as OSError or RuntimeError, with the text of the cloud's
library. This file alone derives the reason from that text.

Not here: retries (Arrow does them, stores.py)."""

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
    """A store that is unreachable, or fails."""


class ForbiddenError(StoreError):
    """A store that denies this user reading or writing."""


class ThrottledError(StoreError):
    """A store that refuses further requests, even after retries."""


@contextmanager
def named_errors(name: str) -> Iterator[None]:
    """Adds the object's name to errors of the block, and converts them to the classes here.

    FileNotFoundError, ForbiddenError, ThrottledError, StoreError."""
    try:
        yield
    except StoreError:
        raise
    except FileNotFoundError as error:
        raise _missing(name) from error
    except PermissionError as error:
        raise _forbidden(name) from error
    except (OSError, RuntimeError) as error:  # fsspec raises RuntimeError for errors of WebHDFS
        words = " ".join(str(error).split())  # some texts have several lines
        if THROTTLED.search(words):
            raise ThrottledError(
                f"{name}: the store is throttling, after retries too: run fewer tasks at once "
                "(for S3, or set AWS_MAX_ATTEMPTS higher)"
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
