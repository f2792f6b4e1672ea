"""Request headers, also of APIs whose fields are not known here: API, version, client id.

A cluster has APIs that this project does not know. Their requests are forwarded by the first fields
of the header, which are the same in all versions."""

from dataclasses import dataclass

from downconvert.broker.wire.decoder import Cursor, reader
from downconvert.broker.wire.schemas import ApiKey, is_flexible

CLASSIC, FLEXIBLE = 1, 2


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
        return f"{self.api.name if self.api is not None else f'API {self.key}'} v{self.version}"


def known(key: int) -> ApiKey | None:
    """The API of a key, if its fields are known here."""
    try:
        return ApiKey(key)
    except ValueError:
        return None


def parse(frame: memoryview) -> Header:
    """The header of a frame, of which the beginning is enough. BadRequestError: it has none."""
    cursor = Cursor(frame)
    start = reader("RequestHeader", CLASSIC)(cursor)
    api = known(start.request_api_key)
    if api is not None and is_flexible(api, start.request_api_version):
        cursor = Cursor(frame)
        reader("RequestHeader", FLEXIBLE)(cursor)
    return Header(
        start.request_api_key,
        start.request_api_version,
        start.correlation_id,
        start.client_id,
        api,
        cursor.position,
    )
