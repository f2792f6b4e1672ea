"""Where responses about a connection may differ: ApiVersions and logins."""

from typing import Final

from downconvert.protocol.schemas import ApiKey

from .difference import MayDiffer

CONNECTIONS: Final = (
    MayDiffer(
        "ApiVersions: the APIs and their versions, and the features",
        "those of Kafka",
        "those that are served",
        "A client uses what both have.",
        lambda asked, place: (
            asked.api is ApiKey.ApiVersions and not place.around[1].get("error_code")
        ),
    ),
)
