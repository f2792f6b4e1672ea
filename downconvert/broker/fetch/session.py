"""One fetch session: its partitions, and what its client knows of them [KIP-227].

Not here: all sessions of a broker, and requests in them (fetch_session.py)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from downconvert.access.rights import Access
from downconvert.broker.partition import Partition
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message

UNKNOWN: Final = -1  # an offset

# Any new session may evict one that had no request for this long. A larger one may also evict one
# that has been used for longer than this [FetchSession.scala].
IDLE_MAX: Final = 120.0  # seconds

# Characters of a topic's name. A longer one, which no topic has, counts as more partitions.
NAME_SIZE: Final = 256

# The topic's name or id, as in the request, and the partition's index.
PartitionKey: TypeAlias = tuple[str | bytes, int]


@dataclass(frozen=True, slots=True)
class Idle:
    """A partition where nothing was found: the kind of request, and the partition's state."""

    partition: Partition
    request: tuple[int, bool]  # version, and whether it reads only committed records
    state: tuple[object, ...]
    leader_epoch: int


@dataclass(slots=True, eq=False)
class Asked:
    """A partition in a fetch request."""

    topic: str | bytes  # its name, or its id
    index: int
    offset: int
    max_bytes: int  # not negative
    leader_epoch: int
    last_epoch: int  # of the client's last record
    start_offset: int  # of a follower's log
    idle: Idle | None = None  # set if nothing was found for it

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.index


@dataclass(slots=True, eq=False)
class Cached:
    """A partition of a session, and the last result sent to its client."""

    asked: Asked
    high_watermark: int = UNKNOWN
    start_offset: int = UNKNOWN

    def is_news(self, result: Message) -> bool:
        """Whether the response must contain this partition. Remembers the result."""
        fields = result.__dict__
        start, code = fields.get("log_start_offset", UNKNOWN), fields.get("error_code", 0)
        news = (
            has_records(result)
            or self.high_watermark != result.high_watermark
            or self.start_offset != start
            or code != ErrorCode.NONE
            or "diverging_epoch" in fields
        )
        # Errors are sent each time. So is the first result after an error.
        self.high_watermark = UNKNOWN if code else result.high_watermark
        self.start_offset = start
        return news


def has_records(result: Message) -> bool:
    records = result.records
    return bool(records.size if hasattr(records, "size") else len(records))


class Session:
    """The partitions of a client, in the order in which they are read."""

    __slots__ = (
        "access",
        "by_id",
        "created",
        "epoch",
        "id",
        "is_privileged",
        "last_used",
        "partitions",
        "size",
    )

    def __init__(
        self,
        id_: int,
        cached: Iterable[Cached],
        *,
        by_id: bool,
        is_privileged: bool,
        now: float,
        access: Access | None = None,
    ) -> None:
        """`access`: the rights of its client. Clients with other rights may not use the session,
        because they may not know its topics. size: what its partitions count as."""
        self.id = id_
        self.access = access
        self.epoch = 1
        self.partitions = {one.asked.key: one for one in cached}
        self.size = sum(map(size_of, self.partitions))
        self.by_id = by_id
        self.is_privileged = is_privileged
        self.created = self.last_used = now

    def may_make_room(self, *, for_follower: bool) -> bool:
        """Whether a more valuable session may take its place, although it is in use."""
        is_old = self.last_used - self.created > IDLE_MAX
        return is_old or (for_follower and not self.is_privileged)

    @property
    def value(self) -> tuple[bool, int]:
        """Followers' sessions are worth more than consumers', and large ones more than small."""
        return self.is_privileged, len(self.partitions)


def size_of(key: PartitionKey) -> int:
    """How many partitions it counts as."""
    return 1 + len(key[0]) // NAME_SIZE
