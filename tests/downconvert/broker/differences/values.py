"""Values for the fields of requests: most of them make sense in the current state, some do not.

Not here: which requests there are (operations.py), records (batches.py)."""

import time
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from downconvert.broker.topic_settings import SETTINGS, ConfigType
from downconvert.protocol.consumer_protocol import Subscription, write_subscription
from downconvert.protocol.schemas import Message

from .batches import OLDEST, Batch, Sender, records_of
from .identities import Rendered, Token

TOPICS_MAX: Final = 4  # names in a block
NO_ID: Final = bytes(16)
UNKNOWN_ID: Final = b"\1" * 16
LONG_MAX: Final = 2**63 - 1
BAD_NAMES: Final = ("a b", "", "..", "x" * 250)
OWN_TOPICS: Final = ("__consumer_offsets", "__transaction_state")
LATER: Final = 10**10  # milliseconds
VALUES: Final[dict[ConfigType, tuple[str, ...]]] = {
    ConfigType.BOOLEAN: ("true", "FALSE", " true", "yes", ""),
    ConfigType.STRING: ("producer", "gzip", "zstd", "none", "CreateTime", "2.8", "x"),
    ConfigType.INT: ("1", "19", "1048588", "-1", "0", "+12", "2147483648", "x", ""),
    ConfigType.LONG: ("1", "100000", f"{LONG_MAX}", "-1", "-2", "-3", " 7 ", "1.5", ""),
    ConfigType.DOUBLE: ("0.5", "1", "0", ".25", "1.5", "-0.1", "0.0001", "x"),
    ConfigType.LIST: ("compact", "delete", "", "compact,delete", "0:1", "*", "0:1,", "a"),
}
# Values with which answers are a matter of luck, and what is taken in their place. No transaction's
# marker fits into so small a limit: Kafka never ends a transaction there, and answers 51,
# CONCURRENT_TRANSACTIONS, for ever. Records may be a few milliseconds old when they come.
IN_PLACE_OF: Final = {
    "max.message.bytes": ("+112", ("1", "19", "0", "+12")),
    "message.timestamp.after.max.ms": ("500", ("1", " 7 ")),
    "message.timestamp.before.max.ms": ("500", ("1", " 7 ")),
    "message.timestamp.difference.max.ms": ("500", ("1", " 7 ")),
}
FIXED: Final[dict[str, tuple[Any, ...]]] = {
    "operation": (2, 3, 1, 0, 99),
    "permission_type": (3, 2, 1, 0),
    "pattern_type": (3, 4, 2, 1, 0),
    "resource_pattern_type": (3, 4, 2, 1, 0),
    "resource_type_filter": (2, 3, 1, 0),
    "principal": ("User:u", "", "u", "User:*"),
    "acks": (-1, -1, 1, 1, 0, 2),
    "allow_auto_topic_creation": (True, False),
    "committed_leader_epoch": (-1, 0),
    "committed_metadata": ("m", "", None, "x" * 5000),
    "committed_offset": (0, 1, 5, 100, -1),
    "client_software_name": ("kafka-python", "x", "", "a b", "-x", "x.", "x" * 300),
    "client_software_version": ("1.2.3", "", "1 2", "é"),
    "cluster_id": (None, "x"),
    "commit_timestamp": (-1, -1, int(time.time() * 1000) + LATER),
    "config_operation": (0, 0, 1, 2, 3),
    "count": (1, 2, 3, 4, 0, -1),
    "current_leader_epoch": (-1, -1, -1, 0, 0, 1, -2, 99),
    "duration_filter": (-1, -5, 10**9),
    "endpoint_type": (1, 1, 2, 0, 3),
    "fetch_offset": (0, 0, 1, 2, 4, 10, 100, -1),
    "isolation_level": (0, 1),
    "key_type": (0, 1, 1, 2),
    "last_fetched_epoch": (-1, -1, 0, 1),
    "leader_epoch": (0, 0, 1, -1, -2, 99),
    "log_start_offset": (-1, 0, 5),
    "max_bytes": (1 << 20, 1 << 20, 1 << 20, 0, 1, 150, 2**31 - 1, -1),
    "max_num_offsets": (1, 5, 0, -1),
    "max_wait_ms": (0, 0, 0, 0, -1, 600),
    "mechanism": ("PLAIN", "", "plain", "SCRAM-SHA-256"),
    "member_epoch": (-1, -1, 0, 1),
    "min_bytes": (0, 1, 1, 200, -1, 2**31 - 1),
    "num_partitions": (1, 1, 2, 3, -1, 0),
    "offset": (0, 1, 2, 10, -1, -2),
    "partition_max_bytes": (1 << 20, 1 << 20, 100, 0, 1, 70, 2**31 - 1),
    "pattern_type_filter": (1, 3, 0, 2),
    "rack_id": ("", "r"),
    "rebalance_timeout_ms": (600_000,),
    "reason": (None, "why", ""),
    "replica_id": (-1, -1, -1, -2),
    "replication_factor": (1, 1, 1, -1, 0, 2),
    "resource_type": (2, 2, 2, 2, 2, 4, 16, 99, 0, 1, 3, 8, 32),
    "retention_time_ms": (-1, -1, 10**9),
    "session_timeout_ms": (600_000, 600_000, 600_000, 100, 10**9, -1),
    "state_filters": ("Empty", "Ongoing", "CompleteCommit", "x"),
    "states_filter": ("Stable", "Empty", "x"),
    "timeout_ms": (10_000,),
    "types_filter": ("classic", "x"),
    "timestamp": (-1, -2, -3, -4, 0, LATER, int(time.time() * 1000) + LATER, -5, -6, -9, 1),
    "transaction_timeout_ms": (600_000, 600_000, 10**9, 0),
}
LIMITS: Final = {  # the lowest and the highest value
    f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)
}
NO_LIMITS: Final = {  # Kafka would wait for so long, or adds them up to a negative number
    *("count", "num_partitions"),
    *("max_wait_ms", "timeout_ms", "transaction_timeout_ms", "session_timeout_ms"),
    *("rebalance_timeout_ms", "retention_time_ms", "commit_timestamp", "session_id"),
}
# In blocks with large states: long names, many partitions and transactions, extreme numbers.
NAME_MAX: Final = 249  # characters of a topic's name
PARTITIONS: Final = 120  # of the topic with the most of them, at first
TRANSACTIONS: Final = 150
LARGE: Final[dict[str, tuple[Any, ...]]] = {
    "committed_offset": (LONG_MAX, LONG_MAX - 1, 1 << 53, 0, -1),
    "fetch_offset": (0, 0, 1, 4, LONG_MAX, LONG_MAX - 1, 1 << 32),
    "offset": (0, 1, -1, LONG_MAX, LONG_MAX - 1, 1 << 32),
    "timestamp": (-1, -2, -3, -4, 0, LONG_MAX, LONG_MAX - 1, 1 << 53, -5),
    "count": (PARTITIONS + 1, PARTITIONS + 40, 60, 0, -1),
    "num_partitions": (1, 60, PARTITIONS),
}
LARGE_PARTITIONS: Final = (0, 0, 0, 1, 2, 59, PARTITIONS - 1, PARTITIONS)
METADATA: Final = write_subscription(Subscription(("none",)))


@dataclass(slots=True)
class Member:
    """A member of a group, as its last join was answered."""

    group: str
    token: Token | str
    generation: int


@dataclass(slots=True)
class Known:
    """Facts from the responses so far. is_large: names and numbers are at their limits."""

    block: int
    is_large: bool = False
    topic_ids: dict[str, Token] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)
    producers: dict[str | None, tuple[Token, int]] = field(default_factory=dict)
    sequences: dict[tuple[Any, ...], int] = field(default_factory=dict)
    session: tuple[Token | int, int] = (0, -1)

    @property
    def nobody(self) -> str:
        """A name that hardly anything has."""
        return f"b{self.block}-none"

    def topics(self) -> list[str]:
        size = NAME_MAX if self.is_large else 0
        return [f"b{self.block}-t{number}".ljust(size, "n") for number in range(TOPICS_MAX)]

    def note_sequences(self, body: Message) -> None:
        """The records are in the logs, so the next sequence numbers follow them."""
        for topic in body.topic_data:
            for one in topic.partition_data:
                batch = one.records
                if isinstance(batch, Batch) and batch.token is not None:
                    at = batch.token, batch.epoch, batch.topic
                    self.sequences[at] = max(self.sequences.get(at, 0), batch.end)

    def groups(self) -> list[str]:
        names = [f"b{self.block}-g{number}" for number in range(3)]
        return [*names[:2], names[2].ljust(5_000, "n")] if self.is_large else names

    def transactional_ids(self) -> list[str]:
        count = TRANSACTIONS if self.is_large else 2
        return [f"b{self.block}-x{number}" for number in range(count)]


class Focus:
    """The one topic, group, member and producer that a request is mostly about."""

    def __init__(self, random: Random, known: Known, *, spares_internal: bool = False) -> None:
        """spares_internal: the brokers' own topics are not asked for: they stay as they are."""
        self._nobody = known.nobody
        odd = (self._nobody, *BAD_NAMES)
        self._odd_topics = odd if spares_internal else (*odd, *OWN_TOPICS)
        self.known, self.random = known, random
        self.turn()
        self.transactional_id: str | None = random.choice([*known.transactional_ids(), None])
        self.producer: tuple[Token | int, int] = known.producers.get(
            self.transactional_id, (-1, -1)
        )
        self.is_odd = random.random() < 0.25  # some of its fields make no sense

    def turn(self) -> None:
        """The next element of a list may be about another topic, group and member."""
        self.topic = self.random.choice(self.known.topics())
        self.group = self.random.choice(self.known.groups())
        members = [one for one in self.known.members if one.group == self.group]
        self.member = self.random.choice([*members, Member(self.group, "", -1)])

    def value(self, name: str, kind: str) -> Any:
        """A value for a field, by its name and its type."""
        random = self.random
        if self.is_odd and random.random() < 0.3:
            if name not in NO_LIMITS and kind in LIMITS and random.random() < 0.3:
                return random.choice(LIMITS[kind])
            odd = self._odd(name, kind)
            if odd is not None:
                return odd
        if self.known.is_large and name in LARGE:
            return random.choice(LARGE[name])
        if name in FIXED:
            return random.choice(FIXED[name])
        match name.removeprefix("v3_and_below_"):
            case "group_id" | "groups" | "groups_names":
                return self.group
            case "topic" | "name" | "topic_names" | "topics":
                return self.topic
            case "topic_id":
                return self.known.topic_ids.get(self.topic, UNKNOWN_ID)
            case "member_id":
                return self.member.token
            case "generation_id" | "generation_id_or_member_epoch":
                return self.member.generation
            case "member_epoch":
                return -1
            case "group_instance_id":
                return random.choice((None, None, None, None, None, None, "i", "j"))
            case "transactional_id" | "transactional_ids":
                is_one = name == "transactional_id"
                return self.transactional_id if is_one else self.transactional_id or self._nobody
            case "producer_id":
                return self.producer[0]
            case "producer_epoch":
                return self.producer[1]
            case "partition" | "partition_index" | "index" | "partitions" | "partition_indexes":
                return random.choice(LARGE_PARTITIONS if self.known.is_large else (0, 0, 0, 1, 2))
            case "session_id":
                return self.known.session[0]
            case "session_epoch":
                return self.known.session[1]
            case "protocol_type":
                return random.choice(("consumer",) * 6 + ("connect", "connect", ""))
            case "protocol_name":
                return random.choice(("range",) * 6 + ("roundrobin", ""))
            case "configuration_keys":
                return random.choice((*SETTINGS, "no.such"))
            case "metadata" | "assignment":
                return random.choice((METADATA, METADATA, self._subscription(), b"", b"\0\1x"))
            case "auth_bytes":
                return b"\0ann\0secret"
            case "key" | "coordinator_keys":
                return random.choice((self.group, self.transactional_id or ""))
        return None

    def _odd(self, name: str, kind: str) -> Any:
        random = self.random
        match name.removeprefix("v3_and_below_"):
            case "topic" | "name" | "topic_names" | "topics":
                return random.choice(self._odd_topics)
            case "topic_id":
                return UNKNOWN_ID
            case "group_id" | "groups_names":
                return random.choice(("", self._nobody))
            case "member_id":
                return random.choice(("", "nobody"))
            case "group_instance_id":
                return random.choice(("i", "j", "", "no name", "..", "x" * 300))
            case "generation_id" | "generation_id_or_member_epoch":
                return random.choice((-1, 0, 1, 2, 99))
            case "transactional_id":
                return random.choice(("", None, self._nobody))
            case "producer_id":
                return random.choice((-1, 77_777))
            case "producer_epoch":
                return random.choice((-1, 0, 1, 5))
            case "partition" | "partition_index" | "index" | "partitions" | "partition_indexes":
                return random.choice((-1, 7))
            case "session_epoch":
                return random.choice((-2, -1, 0, 1, 9, 2**31 - 1))
            case "session_id":
                return random.choice((0, 1, -1, 77_777))
            case "fetch_offset" | "offset" if kind == "int64":
                return random.choice((-1, 10**6))
        return None

    def _subscription(self) -> bytes:
        topics = (self.topic, self._nobody)[: self.random.randrange(3)]
        return write_subscription(Subscription(topics))

    def config(self) -> tuple[str, str | None]:
        """A setting's name and value."""
        name, setting = self.random.choice(list(SETTINGS.items()))
        if self.random.random() < 0.05:
            return self.random.choice(("no.such", "")), "1"
        if self.random.random() < 0.03:
            return name, None
        values = (setting.default, *VALUES[setting.type])
        value = self.random.choice(values)
        enough, too_small = IN_PLACE_OF.get(name, ("", ()))
        return name, enough if value in too_small else value

    def records(self, version: int) -> Rendered:
        """A batch for this version of Produce, some of them odd or damaged."""
        token, epoch = self.producer
        sequence = self.known.sequences.get((token, epoch, self.topic), 0)
        in_transaction = self.transactional_id is not None
        ages = OLDEST if self.known.is_large else ()
        sender = Sender(self.producer, in_transaction, self.topic, sequence, ages)
        return records_of(self.random, sender, version)
