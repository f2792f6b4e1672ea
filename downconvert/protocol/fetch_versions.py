"""The features of each version of Fetch: formats, fields, error codes.

A client of an older version cannot read them.

Not here: the fields themselves (schemas.py)."""

from typing import Final

from records.formats import V0, V1

from .errors import ErrorCode

MESSAGE_V1_SINCE: Final = 2
FIRST_BATCH_WHOLE_SINCE: Final = 3
AS_ON_DISK_SINCE: Final = 4
SESSIONS_SINCE: Final = 7
ZSTD_SINCE: Final = 10
FOLLOWERS_SERVE_SINCE: Final = 11
FLEXIBLE_SINCE: Final = 12
TOPIC_IDS_SINCE: Final = 13
REPLICA_STATE_SINCE: Final = 15
LEADERS_TOLD_SINCE: Final = 16  # a response may contain brokers' addresses [KIP-951]

# Error codes that older clients do not know. Each has the first version of Fetch with it, and the
# code for older versions, which makes the client look for the leader again.
NEWER_CODES: Final[dict[int, tuple[int, int]]] = {
    ErrorCode.KAFKA_STORAGE_ERROR: (6, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ErrorCode.FENCED_LEADER_EPOCH: (9, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ErrorCode.UNKNOWN_LEADER_EPOCH: (9, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ErrorCode.OFFSET_NOT_AVAILABLE: (9, ErrorCode.LEADER_NOT_AVAILABLE),
    ErrorCode.UNKNOWN_TOPIC_ID: (TOPIC_IDS_SINCE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ErrorCode.INCONSISTENT_TOPIC_ID: (TOPIC_IDS_SINCE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}

# From version 12 on, librdkafka reads the lengths inside v0 and v1 messages as varints, like those
# of the request. It stops, or loses records and reports "Unsupported MagicByte" (seen with 2.5.0
# and 2.12.1). Its bindings name it in their versions: `2.12.1-rdkafka-2.12.1`.
MISREADS_OLD_MESSAGES: Final = "rdkafka"


def served_to(software: str, versions: range) -> range:
    """The versions of Fetch that are offered to a client, by its software name."""
    if MISREADS_OLD_MESSAGES not in software:
        return versions
    return range(versions.start, min(versions.stop, FLEXIBLE_SINCE))


def magic_of(version: int) -> int | None:
    """The newest message format that a client of this version reads. None: any format."""
    if version >= AS_ON_DISK_SINCE:
        return None
    return V1 if version >= MESSAGE_V1_SINCE else V0


def known_code(code: int, version: int) -> int:
    """The error code for a client of this version."""
    since, older = NEWER_CODES.get(code, (0, code))
    return code if version >= since else older
