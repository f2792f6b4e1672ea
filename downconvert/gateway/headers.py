"""Request headers, also of APIs whose fields are not known here: API, version, client id.

A cluster has APIs that this project does not know. Their requests are forwarded by the first fields
of the header, which are the same in all versions."""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from downconvert.broker.errors import BadRequestError
from downconvert.broker.wire.decoder import Cursor, reader
from downconvert.broker.wire.schemas import ApiKey, is_flexible

START: Final = Struct(">hhih")  # API, version, correlation id, length of the client id
FLEXIBLE: Final = 2  # the header's version with tags
KNOWN: Final[dict[int, ApiKey]] = {api.value: api for api in ApiKey}
NAMES: Final = {api.value: api.name for api in ApiKey}


@dataclass(frozen=True, slots=True)
class Header:
    """A request's header. `api` is None where the API is not known here."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None
    api: ApiKey | None
    size: int  # bytes: where the body begins, if the API is known

    @property
    def name(self) -> str:
        """For log lines: `Fetch v0`."""
        return f"{self.api_name} v{self.version}"

    @property
    def api_name(self) -> str:
        """`Fetch`; for an API that is not known here, `API 68`."""
        return NAMES.get(self.key) or f"API {self.key}"


def known(key: int) -> ApiKey | None:
    """The API of a key, if its fields are known here."""
    return KNOWN.get(key)


def parse(frame: memoryview) -> Header:
    """The header of a frame, of which the beginning is enough. BadRequestError: it has none."""
    cursor = Cursor(frame)
    key, version, correlation_id, length = START.unpack_from(frame, cursor.take(START.size))
    if length < -1:
        raise BadRequestError(f"client_id before {cursor.position} has a length of {length}")
    client_id = None if length < 0 else cursor.text(length, "client_id")
    api = known(key)
    has_tags = api is not None and is_flexible(api, version)
    if has_tags and frame[cursor.take(1)]:  # else there are none of them
        cursor = Cursor(frame)
        reader("RequestHeader", FLEXIBLE)(cursor)
    return Header(key, version, correlation_id, client_id, api, cursor.position)
