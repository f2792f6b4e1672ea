"""Where the offset lies in the frame of a fetch of one partition.

A consumer's fetches differ in it and in the correlation id. The rest is parsed once
(known_requests.py)."""

import struct
from struct import Struct
from typing import Final

from .fetch_versions import FLEXIBLE_SINCE, SESSIONS_SINCE
from .schemas import ApiKey

START: Final = Struct(">hh4xh")  # API, version, correlation id, length of the client id
REPLICA, LIMITS_SINCE, ISOLATION_SINCE = 12, 3, 4  # replica id, longest wait, fewest bytes
LIMIT, ISOLATION, SESSION = 4, 1, 8  # bytes of the fields that these versions added
TOPIC: Final = Struct(">ih")  # the number of topics, and the length of the first one's name
PARTITION: Final = Struct(">i4x")  # the number of partitions, and the first one's index
LEADER_EPOCH_SINCE, LEADER_EPOCH = 9, 4
OFFSET: Final = Struct(">q")
NOWHERE: Final = 0


def offset_position(frame: memoryview) -> int:
    """The position of the offset in a frame without its length, from version 0 to 11. NOWHERE: it
    is not the frame of such a request, or has other than one partition."""
    try:
        api, version, client_size = START.unpack_from(frame)
        if api != ApiKey.Fetch or not 0 <= version < FLEXIBLE_SINCE:
            return NOWHERE
        at = START.size + max(client_size, 0) + REPLICA
        if version >= LIMITS_SINCE:
            at += LIMIT
        if version >= ISOLATION_SINCE:
            at += ISOLATION
        if version >= SESSIONS_SINCE:
            at += SESSION
        topics, name_size = TOPIC.unpack_from(frame, at)
        at += TOPIC.size + name_size
        (partitions,) = PARTITION.unpack_from(frame, at)
    except struct.error:
        return NOWHERE
    at += PARTITION.size
    if version >= LEADER_EPOCH_SINCE:
        at += LEADER_EPOCH
    is_one = topics == partitions == 1 and name_size >= 0
    return at if is_one and at + OFFSET.size <= len(frame) else NOWHERE
