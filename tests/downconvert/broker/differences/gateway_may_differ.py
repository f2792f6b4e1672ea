"""Where the gateway in front of Kafka 4.4.0 may answer otherwise than Kafka, and why.

docs/gateway.md says so under "What it does not do".

Not here: where `serve` may (may_differ.py)."""

from typing import Any, Final

from downconvert.access.guard import is_for_readers
from downconvert.protocol.schemas import ApiKey, Message

from .difference import MayDiffer
from .may_differ import MAY_DIFFER
from .operations import Operation
from .records_may_differ import is_damaged
from .responses import ENDED
from .users import READER

LISTS: Final = ("partitions", "partition_indexes", "partition_data")
INDICES: Final = ("partition", "partition_index", "index")
REMOVED_SETTINGS: Final = {  # in Kafka 4.0
    "message.downconversion.enable",
    "message.format.version",
    "message.timestamp.difference.max.ms",
}


def _is_odd_list(body: Message) -> bool:
    topics = getattr(body, "topics", None) or getattr(body, "topic_data", None) or []
    if not all(isinstance(topic, Message) for topic in topics):
        return False
    named = []
    for topic in topics:
        fields = vars(topic)
        name = fields.get("name") or fields.get("topic") or fields.get("topic_id")
        parts = [fields.get(field) for field in LISTS if fields.get(field) is not None]
        if parts == [[]]:
            return True
        named += [(name, repr(_index(one))) for part in parts for one in part]
    return len(set(named)) < len(named)


def _index(part: Any) -> Any:
    fields = vars(part) if isinstance(part, Message) else {}
    return next((fields[name] for name in INDICES if name in fields), part)


def _has_no_session(asked: Operation) -> bool:
    newest = 12 if asked.user else 9  # users have lists of names, in a rule of the gateway
    return asked.api is ApiKey.Fetch and 7 <= asked.version <= newest


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
        "CreateTopics with a setting, or a value of one, that Kafka 4 does not have",
        "0",
        "40, INVALID_CONFIG",
        "The cluster says so.",
        lambda asked, place: (
            asked.api is ApiKey.CreateTopics
            and (
                place.ours == 40
                or any(
                    config.name in REMOVED_SETTINGS
                    for one in asked.body.topics
                    for config in one.configs
                )
            )
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "A request that changes something, of a client with `read_only` that did not ask for "
        "versions",
        "29, TOPIC_AUTHORIZATION_FAILED, or 53, TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "the connection ends",
        "The gateway does not offer such requests to clients that only read.",
        lambda asked, place: (
            asked.user == READER and place.ours == ENDED and not is_for_readers(asked.api)
        ),
    ),
    MayDiffer(
        "A request that names a partition twice, or a topic without partitions",
        "as this version does",
        "as the version does in which the cluster is asked",
        "No client asks so, and each version makes something else of it.",
        lambda asked, _: _is_odd_list(asked.body),
        keeps_step=False,
    ),
    MayDiffer(
        "Produce 0 to 2 of damaged messages",
        "an error for all partitions",
        "an error for that partition; whole messages before the damage are written",
        "The gateway rewrites messages, and cannot send what it cannot read.",
        lambda asked, _: is_damaged(asked),
        keeps_step=False,
    ),
    MayDiffer(
        "Fetch 7 to 9, and 10 to 12 of a client with lists of names, that begins a session",
        "the session's id",
        "no session",
        "The gateway begins no sessions for these clients.",
        lambda asked, place: (
            _has_no_session(asked) and place.path == "session_id" and place.ours == 0
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "Fetch 7 to 9, and 10 to 12 of a client with lists of names, that continues a session",
        "70, FETCH_SESSION_ID_NOT_FOUND",
        "the records",
        "The gateway begins no sessions for these clients, so none of them continues one.",
        lambda asked, _: _has_no_session(asked) and asked.body.session_epoch not in (0, -1),
        keeps_step=False,
    ),
)
