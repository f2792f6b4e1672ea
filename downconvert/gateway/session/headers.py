"""Parses request headers: API, version, client id.

A cluster has APIs that this project does not know. The first fields of the header are the same in
all versions and suffice to forward their requests."""

from dataclasses import dataclass
from typing import Final

from downconvert.protocol.requests import KNOWN, parse_start
from downconvert.protocol.schemas import ApiKey

OTHER: Final = "other"  # an API that is not known
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
    def described(self) -> str:
        """For log lines, with its client."""
        return f"{self.name} of client id {self.client_id!r:.100}"

    @property
    def api_name(self) -> str:
        """`Fetch`; for an API that is not known here, `API 68`."""
        return NAMES.get(self.key) or f"API {self.key}"


def known(key: int) -> ApiKey | None:
    """The API of a key, if its fields are known here."""
    return KNOWN.get(key)


def parse(frame: memoryview) -> Header:
    """Parses the header. The beginning of the frame is enough. BadRequestError: it has none."""
    return Header(*parse_start(frame))
