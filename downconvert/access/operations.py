"""Kafka's ACL operations, and the kinds of resources to which they apply.

A set of operations is a bit field, as in responses that show the operations of a client
(`authorized_operations`).

Not here: the clients' rights (rights.py), the operations that a request needs (names.py)."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from downconvert.protocol.errors import ErrorCode

# 1 << AclOperation.code()
READ: Final = 1 << 3
WRITE: Final = 1 << 4
CREATE: Final = 1 << 5
DELETE: Final = 1 << 6
ALTER: Final = 1 << 7
DESCRIBE: Final = 1 << 8
CLUSTER_ACTION: Final = 1 << 9
DESCRIBE_CONFIGS: Final = 1 << 10
ALTER_CONFIGS: Final = 1 << 11
IDEMPOTENT_WRITE: Final = 1 << 12
TWO_PHASE_COMMIT: Final = 1 << 15
NO_OPERATION: Final = 0
NOT_ASKED: Final = -(1 << 31)  # in a response: the client did not ask for them


class Kind(Enum):
    """The kind of a resource, and the error for a client that may not use it. Brokers, their
    settings, and resources of unknown types count as the cluster."""

    TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
    TRANSACTIONAL_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


# Combinations for rules. As in Kafka, a right to read, write, delete or alter includes describe.
LOOKING: Final = DESCRIBE | DESCRIBE_CONFIGS
READING: Final = READ | LOOKING
CHANGING: Final = WRITE | CREATE | DELETE | ALTER | ALTER_CONFIGS | LOOKING

# All operations on each kind of resource; groups have settings since Kafka 4.0.
ALL: Final[Mapping[Kind, int]] = {
    Kind.TOPIC: READING | CHANGING,
    Kind.GROUP: READING | DELETE | ALTER_CONFIGS,
    Kind.TRANSACTIONAL_ID: DESCRIBE | WRITE | TWO_PHASE_COMMIT,
    Kind.CLUSTER: CREATE | ALTER | ALTER_CONFIGS | LOOKING | CLUSTER_ACTION | IDEMPOTENT_WRITE,
}

# The operations that a broker of 3.9 shows.
SHOWN: Final = {**ALL, Kind.GROUP: READ | DESCRIBE | DELETE}

# The most operations that a read-only client may have.
OF_READERS: Final[Mapping[Kind, int]] = {
    Kind.TOPIC: READING,
    Kind.GROUP: READING,  # it commits offsets of its own groups
    Kind.TRANSACTIONAL_ID: DESCRIBE,
    Kind.CLUSTER: LOOKING,
}
