"""Where responses about a connection may differ: ApiVersions and logins."""

import re
from typing import Final

from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey

from .difference import MayDiffer
from .operations import Operation
from .responses import ENDED, Place

TAG: Final = re.compile(r"\btag [0-9]+")
LOGIN: Final = "login"  # the path of what differs in a login
RESET: Final = "responses before the end"  # of pipelined requests
FAILED: Final = (ErrorCode.SASL_AUTHENTICATION_FAILED, [], 0)
LOGINS: Final = (ApiKey.ApiVersions, ApiKey.SaslHandshake, ApiKey.SaslAuthenticate)


def _begins_scram(asked: Operation, place: Place, *starts: str) -> bool:
    """Whether it is a first message of SCRAM that begins with one of these."""
    said = getattr(asked.body, "said", "")
    return place.path == LOGIN and any(f"first '{start}" in said for start in starts)


CONNECTIONS: Final = (
    MayDiffer(
        "ApiVersions: the APIs and their versions, and the features",
        "those of Kafka",
        "those that are served",
        "A client uses what both have.",
        lambda asked, place: (
            asked.api is ApiKey.ApiVersions
            and place.path != LOGIN
            and not place.around[1].get("error_code")
        ),
    ),
    MayDiffer(
        "Several requests at once, one of which ends the connection",
        "the last responses before it may be lost",
        "all responses before it",
        "The connection ends by a reset.",
        lambda _, place: place.path == RESET,
        keeps_step=False,
    ),
    MayDiffer(
        "A text that is not UTF-8, except the client id",
        "is read with U+FFFD in place of what is wrong",
        "the connection ends",
        "A name that two programs read differently could pass by a rule.",
        lambda asked, place: "is not UTF-8" in asked.envelope.error and place.ours == ENDED,
    ),
    MayDiffer(
        "Tagged fields that are not in order, or whose size is not theirs",
        "are read",
        "the connection ends",
        "KIP-482 wants them in order.",
        lambda asked, place: TAG.search(asked.envelope.error) is not None and place.ours == ENDED,
    ),
    MayDiffer(
        "SaslAuthenticate before SaslHandshake",
        "the connection ends",
        "34, ILLEGAL_SASL_STATE, and it ends",
        "The client learns why.",
        lambda asked, place: (
            asked.api is ApiKey.SaslAuthenticate
            and (place.path, place.kafka) == (LOGIN, ENDED)
            and place.ours == (ErrorCode.ILLEGAL_SASL_STATE, [], 0)
        ),
    ),
    MayDiffer(
        "ApiVersions, twice before SaslHandshake",
        "the connection ends",
        "as the first time",
        "It does not matter how often a client asks.",
        lambda asked, place: (
            asked.api is ApiKey.ApiVersions
            and (place.path, place.kafka, place.ours) == (LOGIN, ENDED, 0)
        ),
    ),
    MayDiffer(
        "A request other than SaslAuthenticate, ApiVersions and SaslHandshake, after SaslHandshake",
        "an error in its response, and the connection ends",
        "the connection ends",
        "It is not read before the client has logged in.",
        lambda asked, place: asked.api not in LOGINS and (place.path, place.ours) == (LOGIN, ENDED),
    ),
    MayDiffer(
        "A first message of SCRAM with an authorization id, `m=` or `tokenauth=false`",
        "taken, if the id is the user's name",
        "58, SASL_AUTHENTICATION_FAILED",
        "Clients do without. RFC 5802 reserves `m=`.",
        lambda asked, place: (
            place.ours in (ENDED, FAILED)
            and (
                _begins_scram(asked, place, "n,a=USER,", "n,,m=")
                or (_begins_scram(asked, place, "") and ",tokenauth=false" in asked.body.said)
            )
        ),
    ),
    MayDiffer(
        "A first message of SCRAM that begins with `y`",
        "58, SASL_AUTHENTICATION_FAILED",
        "taken",
        "RFC 5802 allows it: this client could bind the channel.",
        lambda asked, place: _begins_scram(asked, place, "y,") and place.kafka in (ENDED, FAILED),
    ),
    MayDiffer(
        "A final message of SCRAM with a proof of another length",
        "the connection ends",
        "58, SASL_AUTHENTICATION_FAILED, and it ends",
        "The client learns why.",
        lambda asked, place: (
            (place.path, place.kafka, place.ours) == (LOGIN, ENDED, FAILED)
            and " final " in getattr(asked.body, "said", "")
        ),
    ),
)
