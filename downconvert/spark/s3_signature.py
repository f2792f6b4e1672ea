"""How a request to S3 is signed: version 4 of Amazon's signatures, of a request without a body.

Facts: "Authenticating Requests (AWS Signature Version 4)" of the Amazon S3 API Reference.

Not here: where credentials are from (s3_ranges.py)."""

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from hmac import digest
from typing import Final, NamedTuple

ALGORITHM: Final = "AWS4-HMAC-SHA256"
NO_BODY: Final = sha256(b"").hexdigest()
SERVICE: Final = "s3"
ENDING: Final = "aws4_request"


class Credentials(NamedTuple):
    """Of a user, or with a token of a session."""

    access_key: str
    secret_key: str
    token: str | None = None

    def __repr__(self) -> str:
        return "Credentials(...)"


def signed(
    path: str, headers: Mapping[str, str], region: str, credentials: Credentials, now: datetime
) -> dict[str, str]:
    """The headers of a GET of a path, and those that sign them.

    `path`: as it is sent, percent-encoded. `headers` have their names in lower case, `host` among
    them. `now`: in UTC."""
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    found = {**headers, "x-amz-content-sha256": NO_BODY, "x-amz-date": stamp}
    if credentials.token is not None:
        found["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(found))
    lines = "".join(f"{name}:{found[name]}\n" for name in sorted(found))
    request = f"GET\n{path}\n\n{lines}\n{names}\n{NO_BODY}"
    scope = "/".join((stamp[:8], region, SERVICE, ENDING))
    text = f"{ALGORITHM}\n{stamp}\n{scope}\n{sha256(request.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret_key}".encode()
    for part in (stamp[:8], region, SERVICE, ENDING):
        key = digest(key, part.encode(), "sha256")
    found["authorization"] = (
        f"{ALGORITHM} Credential={credentials.access_key}/{scope},SignedHeaders={names},"
        f"Signature={digest(key, text.encode(), 'sha256').hex()}"
    )
    return found
