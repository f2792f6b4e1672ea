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
CLIENT_ID_MAX: Final = 16_000
BATCHES_VERSION: Final = 3  # of Produce, from which on it has batches
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
    MayDiffer(
        "A request with a client id of more than 16,000 bytes",
        "as any other",
        "the connection ends",
        "The gateway reads a header in the first 16 KiB of a request.",
        lambda asked, place: (
            len(asked.envelope.client_id or "") > CLIENT_ID_MAX and place.ours == ENDED
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "Produce 0 to 2 of records that are not valid",
        "32, INVALID_TIMESTAMP, 87, INVALID_RECORD, or the error of the partition",
        "-1, UNKNOWN_SERVER_ERROR",
        "Clients of these versions do not know the first two. Invalid records are not sent to the "
        "cluster.",
        lambda asked, place: (
            asked.api is ApiKey.Produce
            and asked.version < BATCHES_VERSION
            and place.is_in("error_code")
            and place.kafka in (3, 32, 87)
            and place.ours == -1
        ),
    ),
    MayDiffer(
        "Produce 0 to 2 without records, to a partition that is not there",
        "3, UNKNOWN_TOPIC_OR_PARTITION",
        "0",
        "There is nothing to send to the cluster.",
        lambda asked, place: (
            asked.api is ApiKey.Produce
            and asked.version < BATCHES_VERSION
            and "no records" in repr(asked.body)
            and (place.kafka, place.ours) == (3, 0)
        ),
    ),
    MayDiffer(
        "Produce with acks 0, of records that are refused",
        "the connection ends before the next response",
        "it ends once the cluster has refused them",
        "The next request may be answered before.",
        lambda asked, place: asked.is_unanswered and place.kafka == ENDED,
        keeps_step=False,
    ),
    MayDiffer(
        "Produce of records from the future, or that say that they have the time of the append",
        "written",
        "32, INVALID_TIMESTAMP (-1, UNKNOWN_SERVER_ERROR, before version 3; with acks 0, the "
        "connection ends)",
        "The cluster says so: since Kafka 4.0, an hour is the limit.",
        lambda asked, place: (
            asked.api is ApiKey.Produce
            and "odd: " in repr(asked.body)
            and (
                place.around[1].get("error_code") in (32, -1)
                or (asked.is_unanswered and place.ours == ENDED)
            )
        ),
        keeps_step=False,
    ),
)
