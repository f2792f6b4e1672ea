"""Where the gateway in front of Kafka 4.4.0 may answer otherwise than Kafka, and why.

docs/gateway.md says so under "What it does not do".

Not here: where `serve` may (may_differ.py)."""

from typing import Final

from downconvert.protocol.schemas import ApiKey

from .difference import MayDiffer
from .may_differ import MAY_DIFFER

REMOVED_SETTINGS: Final = {  # in Kafka 4.0
    "message.downconversion.enable",
    "message.format.version",
    "message.timestamp.difference.max.ms",
}

GATEWAY_MAY_DIFFER: Final = (
    *MAY_DIFFER,
    MayDiffer(
        "ListOffsets 0, of a time",
        "the first offsets of segments, by when their files were changed",
        "the first offset that is not older",
        "No later version has it.",
        lambda asked, place: (
            asked.api is ApiKey.ListOffsets
            and asked.version == 0
            and place.is_in("old_style_offsets")
            and any(each.timestamp >= 0 for one in asked.body.topics for each in one.partitions)
        ),
    ),
    MayDiffer(
        "CreateTopics with a setting that Kafka 4 does not have",
        "0",
        "40, INVALID_CONFIG",
        "The cluster says so.",
        lambda asked, _: (
            asked.api is ApiKey.CreateTopics
            and any(
                config.name in REMOVED_SETTINGS
                for one in asked.body.topics
                for config in one.configs
            )
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "Fetch 7 to 9 that begins a session",
        "the session's id",
        "no session",
        "The gateway begins no sessions for these clients.",
        lambda asked, place: (
            asked.api is ApiKey.Fetch
            and 7 <= asked.version <= 9
            and place.path == "session_id"
            and place.ours == 0
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "Fetch 7 to 9 that continues a session",
        "70, FETCH_SESSION_ID_NOT_FOUND",
        "the records",
        "The gateway begins no sessions for these clients, so none of them continues one.",
        lambda asked, _: (
            asked.api is ApiKey.Fetch
            and 7 <= asked.version <= 9
            and asked.body.session_epoch not in (0, -1)
        ),
        keeps_step=False,
    ),
)
