"""The names in a log directory: the kind and the offset of each file.

Names are those of Kafka's LogFileUtils and UnifiedLog: twenty digits and a suffix.

Not here: the files that make up the log after a crash (layout.py)."""

import re
from enum import StrEnum
from typing import Final, NamedTuple

OFFSET_MAX: Final = 2**63 - 1


class Kind(StrEnum):
    """The files that belong to an offset, by their suffix."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    SNAPSHOT = ".snapshot"  # of the producers' state


# The files of one segment. A snapshot may exist without a segment of its offset.
SEGMENT_KINDS: Final = (
    Kind.LOG,
    Kind.OFFSET_INDEX,
    Kind.TIME_INDEX,
    Kind.TRANSACTION_INDEX,
)


class State(StrEnum):
    """A further suffix: the state of a file between creation and deletion."""

    LIVE = ""
    DELETED = ".deleted"  # out of the log, to be removed
    CLEANED = ".cleaned"  # being written by a cleaner: not part of the log yet
    SWAP = ".swap"  # complete, and about to replace its source
    TEMPORARY = ".tmp"


KINDS: Final = {kind.value: kind for kind in Kind}
STATES: Final = {state.value: state for state in State}

# Files in a broker's directory.
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANER_POINTS: Final = "cleaner-offset-checkpoint"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"

# Files in a partition's directory.
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"

FILE: Final = re.compile(r"([0-9]{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(\.\w+)?")
PARTITION: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-([0-9]{1,10})")
DELETED_PARTITION: Final = re.compile(r".*\.[0-9a-f]{32}-delete")
NOT_A_PARTITION: Final = re.compile(r".*\.[0-9a-f]{32}-(delete|future|stray)")


class FileName(NamedTuple):
    """A file that belongs to an offset."""

    offset: int
    kind: Kind
    state: State

    def __str__(self) -> str:
        return file_name(self.offset, self.kind, self.state)


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def file_name(offset: int, kind: Kind, state: State = State.LIVE) -> str:
    """The name of the file of an offset: `00000000000000000042.log`."""
    return f"{offset:020d}{kind}{state}"


def parse_file_name(name: str) -> FileName | None:
    """The parts of a file's name. None if it belongs to no offset."""
    found = FILE.fullmatch(name)
    if found is None:
        return None
    digits, kind, state = found.groups("")
    offset = int(digits)
    if offset > OFFSET_MAX or state not in STATES:  # a suffix that no version of Kafka writes
        return None
    return FileName(offset, KINDS[kind], STATES[state])


def parse_partition(name: str) -> TopicPartition | None:
    """The partition with a directory of this name. None for every other directory, and for those
    that are being deleted, moved between disks, or stray (`-stray`)."""
    found = PARTITION.fullmatch(name)
    if found is None or NOT_A_PARTITION.fullmatch(name):
        return None
    return TopicPartition(found[1], int(found[2]))
