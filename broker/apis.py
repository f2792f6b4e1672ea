"""Which requests are served, in which versions, and by what.

A new API is a file with a handler, and a line here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from broker import (
    api_versions,
    fetch,
    find_coordinator,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)
from broker.exchange import Exchange
from broker.schemas import ApiKey

if TYPE_CHECKING:
    from broker.broker import Broker

Handler: TypeAlias = "Callable[[Broker, Exchange, float], None]"


@dataclass(frozen=True, slots=True)
class Api:
    """How an API is served."""

    handler: Handler
    versions: range


APIS: Final = {
    ApiKey.Produce: Api(produce.handle, range(14)),
    ApiKey.Fetch: Api(fetch.handle, range(19)),
    ApiKey.Metadata: Api(metadata.handle, range(14)),
    ApiKey.OffsetCommit: Api(offset_commit.handle, range(11)),
    ApiKey.OffsetFetch: Api(offset_fetch.handle, range(11)),
    ApiKey.FindCoordinator: Api(find_coordinator.handle, range(7)),
    ApiKey.ApiVersions: Api(api_versions.handle, range(5)),
}
