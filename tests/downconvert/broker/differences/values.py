"""Values for the fields of requests: most of them make sense in the current state, some do not.

Not here: which requests there are (operations.py)."""

import time
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from downconvert.broker.topic_settings import SETTINGS, ConfigType
from downconvert.protocol.consumer_protocol import Subscription, write_subscription
from downconvert.protocol.schemas import Message
from records import Codec, Record, TimestampType, build
from records.formats import V0, V1, V2
from tests.damage import mutated

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
    "operation": (2, 3),
    "permission_type": (3,),
    "pattern_type": (3,),
    "resource_pattern_type": (3,),
    "resource_type_filter": (2, 3),
    "principal": ("User:u",),
    "acks": (-1, -1, 1, 2),
    "allow_auto_topic_creation": (True, False),
    "committed_leader_epoch": (-1, 0),
    "committed_metadata": ("m", "", None, "x" * 5000),
    "committed_offset": (0, 1, 5, 100, -1),
    "commit_timestamp": (-1,),
    "config_operation": (0, 0, 1, 2, 3),
    "count": (1, 2, 3, 4, 0, -1),
    "current_leader_epoch": (-1, -1, -1, 0, 0, 1),
    "duration_filter": (-1,),
    "endpoint_type": (1,),
    "fetch_offset": (0, 0, 1, 2, 4, 10, 100, -1),
    "isolation_level": (0, 1),
    "key_type": (0, 1, 1, 2),
    "last_fetched_epoch": (-1, -1, 0, 1),
    "leader_epoch": (0, 0, 1, -1),
    "log_start_offset": (-1,),
    "max_bytes": (1 << 20, 1 << 20, 1 << 20, 0, 150, -1),
    "max_num_offsets": (1, 5, 0),
    "max_wait_ms": (0, 0, 0, 0, 600),
    "min_bytes": (0, 1, 1, 200),
    "num_partitions": (1, 1, 2, 3, -1, 0),
    "offset": (0, 1, 2, 10, -1, -2),
    "partition_max_bytes": (1 << 20, 1 << 20, 100, 0),
    "pattern_type_filter": (1, 3),
    "rack_id": ("",),
    "rebalance_timeout_ms": (600_000,),
    "replica_id": (-1, -1, -1, -2),
    "replication_factor": (1, 1, 1, -1, 0, 2),
    "resource_type": (2, 2, 2, 2, 4, 16, 99),
    "retention_time_ms": (-1,),
    "session_timeout_ms": (600_000, 600_000, 100, 10**9),
    "state_filters": ("Empty", "Ongoing", "CompleteCommit", "x"),
    "states_filter": ("Stable", "Empty", "x"),
    "timeout_ms": (10_000,),
    "types_filter": ("classic", "x"),
    "timestamp": (-1, -2, -3, -4, 0, LATER, int(time.time() * 1000) + LATER),
    "transaction_timeout_ms": (600_000, 600_000, 10**9, 0),
}
LIMITS: Final = {  # the lowest and the highest value
    f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)
}
DAMAGED: Final = "damaged by"  # in the words for some batches
DAMAGED_SHARE: Final = 0.1
NO_LIMITS: Final = {  # Kafka would wait for so long, or adds them up to a negative number
    *("count", "num_partitions"),
    *("max_wait_ms", "timeout_ms", "transaction_timeout_ms", "session_timeout_ms"),
    *("rebalance_timeout_ms", "retention_time_ms", "commit_timestamp", "session_id"),
}
METADATA: Final = write_subscription(Subscription(("none",)))


@dataclass(slots=True)
class Member:
    """A member of a group, as its last join was answered."""

    group: str
    token: Token | str
    generation: int


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Batch(Rendered):
    """A batch of an idempotent producer."""

    token: Token
    epoch: int
    topic: str
    end: int  # the sequence number after it


@dataclass(slots=True)
class Known:
    """Facts from the responses so far."""

    block: int
    topic_ids: dict[str, Token] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)
    producers: dict[str | None, tuple[Token, int]] = field(default_factory=dict)
    sequences: dict[tuple[Any, ...], int] = field(default_factory=dict)
    session: tuple[Token | int, int] = (0, -1)

    def topics(self) -> list[str]:
        return [f"b{self.block}-t{number}" for number in range(TOPICS_MAX)]

    def note_sequences(self, body: Message) -> None:
        """The records are in the logs, so the next sequence numbers follow them."""
        for topic in body.topic_data:
            for one in topic.partition_data:
                batch = one.records
                if isinstance(batch, Batch) and batch.token is not None:
                    at = batch.token, batch.epoch, batch.topic
                    self.sequences[at] = max(self.sequences.get(at, 0), batch.end)

    def groups(self) -> list[str]:
        return [f"b{self.block}-g{number}" for number in range(3)]

    def transactional_ids(self) -> list[str]:
        return [f"b{self.block}-x{number}" for number in range(2)]


class Focus:
    """The one topic, group, member and producer that a request is mostly about."""

    def __init__(self, random: Random, known: Known, *, spares_internal: bool = False) -> None:
        """spares_internal: the brokers' own topics are not asked for: they stay as they are."""
        self._nobody = f"b{known.block}-none"  # a name that nothing has
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
                return None
            case "transactional_id" | "transactional_ids":
                is_one = name == "transactional_id"
                return self.transactional_id if is_one else self.transactional_id or self._nobody
            case "producer_id":
                return self.producer[0]
            case "producer_epoch":
                return self.producer[1]
            case "partition" | "partition_index" | "index" | "partitions" | "partition_indexes":
                return random.choice((0, 0, 0, 1, 2))
            case "session_id":
                return self.known.session[0]
            case "session_epoch":
                return self.known.session[1]
            case "protocol_type":
                return random.choice(("consumer", "consumer", "connect"))
            case "protocol_name":
                return "range"
            case "configuration_keys":
                return random.choice((*SETTINGS, "no.such"))
            case "metadata" | "assignment":
                return METADATA
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
                return random.choice(("i", "j"))
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
                return random.choice((-1, 0, 1, 9))
            case "fetch_offset" | "offset" if kind == "int64":
                return random.choice((-1, 10**6))
        return None

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
        """A batch for this version of Produce, some of them damaged."""
        made, seed = self._batch(version), self.random.random()
        if self.random.random() >= DAMAGED_SHARE:
            return made
        return Rendered(
            f"{made.said}, {DAMAGED} {seed}",
            lambda id_of: mutated(made.make(id_of), Random(seed)),
        )

    def _batch(self, version: int) -> Rendered:
        """A batch of the producer in focus, or of none."""
        random = self.random
        count = random.choice((1, 2, 3))
        codec = random.choice(tuple(Codec))
        key = random.choice((b"k", b"k", None))
        age = random.choice((0, 0, 1000, -1))
        now = int(time.time() * 1000)
        times = [-1 if age < 0 else now - age] * count
        records = [Record(i, times[i], TimestampType.CREATE, key, b"v%d" % i) for i in range(count)]
        magic = (V0, V0, V1, V2)[min(version, 3)] if random.random() < 0.9 else V2
        if magic < V2:
            codecs = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
            codec = codec if codec in codecs[: 4 if magic == V1 else 3] else Codec.NONE
            return Rendered(
                f"{count} messages of v{magic}, {codec.name}, key {key!r}, age {age}",
                lambda _: build(_of_format(records, magic), magic=magic, codec=codec),
            )
        token, epoch = self.producer
        if not isinstance(token, Token) or random.random() < 0.3:
            return Rendered(
                f"{count} records, {codec.name}, key {key!r}, age {age}",
                lambda _: build(records, magic=V2, codec=codec),
            )
        at = (token, epoch, self.topic)
        sequence = self.known.sequences.get(at, 0)
        sequence = max(0, sequence + random.choice((0, 0, 0, 0, -count, 1)))
        transactional = self.transactional_id is not None and random.random() < 0.9
        said = f"{count} records of {token} epoch {epoch} from {sequence}, txn {transactional}"
        return Batch(
            said,
            lambda id_of: build(
                records,
                magic=V2,
                producer_id=id_of(token),
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=transactional,
            ),
            token=token,
            epoch=epoch,
            topic=self.topic,
            end=sequence + count,
        )


def _of_format(records: list[Record], magic: int) -> list[Record]:
    """As old messages have them: those of v0 have no time."""
    if magic == V1:
        return records
    return [replace(one, timestamp=-1, timestamp_type=TimestampType.NONE) for one in records]
