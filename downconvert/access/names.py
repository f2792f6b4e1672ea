"""Where requests and answers name topics, groups and transactional ids, API by API.

This is what a listener with a list of names needs of Kafka's message definitions. An API that is
not in RULES is not served by such a listener.

Not here: what is removed from requests and responses (permissions.py)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from downconvert.protocol.schemas import ApiKey, Message

from .operations import (
    ALTER,
    ALTER_CONFIGS,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    NOTHING,
    READ,
    WRITE,
    Kind,
)

# The numbers of kinds in requests about configurations and for coordinators.
RESOURCES: Final = {2: Kind.TOPIC, 32: Kind.GROUP}
COORDINATED: Final = {0: Kind.GROUP, 1: Kind.TRANSACTIONAL_ID}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The partitions of a topic in a request, and their errors in an answer."""

    asked: str = "partitions"
    index: str = "partition_index"  # in the request; empty where partitions are plain numbers
    told: str = "partitions"
    told_index: str = "partition_index"
    code: str = "error_code"
    nothing: Mapping[str, Any] = field(default_factory=dict)  # what else stands for no value

    def of(self, element: Message, code: int) -> list[Message]:
        """Each partition that is asked for, with an error."""
        return [
            Message(
                **{self.told_index: getattr(one, self.index) if self.index else one},
                **{self.code: code},
                **self.nothing,
            )
            for one in getattr(element, self.asked) or ()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """A list of a request whose elements have names, and the list of the answer."""

    told: str  # empty: what is refused has no place in the answer
    asked: str = "topics"  # empty: the request names none, and the answer all
    name: str = "name"  # empty: the elements are the names
    told_name: str = "name"
    kind: Kind = Kind.TOPIC
    operation: int = DESCRIBE  # of Kafka's, on each that is named
    type: str = ""  # the field of an element that says what its name is of
    parts: Parts | None = None

    def kind_of(self, element: Any) -> Kind:
        if not self.type:
            return self.kind
        return RESOURCES.get(getattr(element, self.type), Kind.CLUSTER)

    def name_of(self, element: Any) -> str | None:
        name: str | None = getattr(element, self.name) if self.name else element
        return name

    def refusal(self, element: Any, code: int) -> Message:
        """The answer for an element of the request that is refused."""
        answer = Message(error_code=code)
        setattr(answer, self.told_name, self.name_of(element))
        if self.type:
            setattr(answer, self.type, getattr(element, self.type))
        if self.parts is not None:
            setattr(answer, self.parts.told, self.parts.of(element, code))
        return answer


class About(NamedTuple):
    """A field that names what a whole request is about."""

    name: str
    kind: Kind
    operation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Where requests and answers of an API have names, and which operations they are."""

    names: Names | None = None
    about: tuple[About, ...] = ()  # what the whole request is about
    cluster: int = NOTHING  # operations on the cluster that it needs
    is_all_or_nothing: bool = False
    is_always_asked: bool = False  # also when nothing is left to be asked for

    @property
    def needs(self) -> Iterator[tuple[Kind, int]]:
        """The operations that it may take, and on what."""
        names = self.names
        if names is not None:
            kinds = (*RESOURCES.values(), Kind.CLUSTER) if names.type else (names.kind,)
            yield from ((kind, names.operation) for kind in kinds)
        yield from ((one.kind, one.operation) for one in self.about)
        yield Kind.CLUSTER, self.cluster


GROUP: Final = About("group_id", Kind.GROUP, READ)
TRANSACTION: Final = About("transactional_id", Kind.TRANSACTIONAL_ID, WRITE)
OLD_TRANSACTION: Final = TRANSACTION._replace(name="v3_and_below_transactional_id")
NO_OFFSET: Final = {"committed_offset": -1, "metadata": ""}
OFFSETS: Final = Names(
    told="topics", parts=Parts(asked="partition_indexes", index="", nothing=NO_OFFSET)
)

RULES: Final[dict[int, Rule]] = {
    ApiKey.Produce: Rule(
        names=Names(
            asked="topic_data",
            told="responses",
            operation=WRITE,
            parts=Parts(
                asked="partition_data",
                index="index",
                told="partition_responses",
                told_index="index",
                nothing={"base_offset": -1},
            ),
        ),
        about=(TRANSACTION,),
    ),
    ApiKey.Fetch: Rule(
        names=Names(
            operation=READ,
            name="topic",
            told="responses",
            told_name="topic",
            parts=Parts(index="partition", nothing={"high_watermark": -1}),
        )
    ),
    ApiKey.ListOffsets: Rule(names=Names(told="topics", parts=Parts())),
    # A client that gets no brokers asks again for ever, and reports no error.
    ApiKey.Metadata: Rule(names=Names(told="topics"), is_always_asked=True),
    ApiKey.OffsetCommit: Rule(
        names=Names(told="topics", operation=READ, parts=Parts()), about=(GROUP,)
    ),
    ApiKey.OffsetFetch: Rule(names=OFFSETS, about=(GROUP._replace(operation=DESCRIBE),)),
    ApiKey.FindCoordinator: Rule(),  # its keys are of a kind that it says
    ApiKey.JoinGroup: Rule(about=(GROUP,)),
    ApiKey.Heartbeat: Rule(about=(GROUP,)),
    ApiKey.LeaveGroup: Rule(about=(GROUP,)),
    ApiKey.SyncGroup: Rule(about=(GROUP,)),
    ApiKey.DescribeGroups: Rule(
        names=Names(asked="groups", name="", told="groups", told_name="group_id", kind=Kind.GROUP)
    ),
    ApiKey.ListGroups: Rule(
        names=Names(asked="", told="groups", told_name="group_id", kind=Kind.GROUP)
    ),
    ApiKey.SaslHandshake: Rule(),
    ApiKey.ApiVersions: Rule(),
    ApiKey.CreateTopics: Rule(names=Names(told="topics", operation=CREATE)),
    ApiKey.DeleteTopics: Rule(
        names=Names(asked="topic_names", name="", told="responses", operation=DELETE)
    ),
    ApiKey.DeleteRecords: Rule(
        names=Names(told="topics", operation=DELETE, parts=Parts(nothing={"low_watermark": -1}))
    ),
    ApiKey.InitProducerId: Rule(about=(TRANSACTION,)),  # without one, it is to write somewhere
    ApiKey.OffsetForLeaderEpoch: Rule(
        names=Names(
            name="topic",
            told="topics",
            told_name="topic",
            parts=Parts(index="partition", told_index="partition"),
        )
    ),
    ApiKey.AddPartitionsToTxn: Rule(
        names=Names(
            asked="v3_and_below_topics",
            told="results_by_topic_v3_and_below",
            operation=WRITE,
            parts=Parts(index="", told="results_by_partition", code="partition_error_code"),
        ),
        about=(OLD_TRANSACTION,),
        is_all_or_nothing=True,
    ),
    ApiKey.AddOffsetsToTxn: Rule(about=(TRANSACTION, GROUP)),
    ApiKey.EndTxn: Rule(about=(TRANSACTION,)),
    ApiKey.TxnOffsetCommit: Rule(
        names=Names(told="topics", operation=READ, parts=Parts()), about=(TRANSACTION, GROUP)
    ),
    ApiKey.DescribeConfigs: Rule(
        names=Names(
            asked="resources",
            name="resource_name",
            told="results",
            told_name="resource_name",
            operation=DESCRIBE_CONFIGS,
            type="resource_type",
        )
    ),
    **dict.fromkeys(
        (ApiKey.AlterConfigs, ApiKey.IncrementalAlterConfigs),
        Rule(
            names=Names(
                asked="resources",
                name="resource_name",
                told="responses",
                told_name="resource_name",
                operation=ALTER_CONFIGS,
                type="resource_type",
            )
        ),
    ),
    ApiKey.DescribeLogDirs: Rule(cluster=DESCRIBE),
    ApiKey.SaslAuthenticate: Rule(),
    ApiKey.CreatePartitions: Rule(names=Names(told="results", operation=ALTER)),
    ApiKey.DeleteGroups: Rule(
        names=Names(
            asked="groups_names",
            name="",
            told="results",
            told_name="group_id",
            kind=Kind.GROUP,
            operation=DELETE,
        )
    ),
    ApiKey.OffsetDelete: Rule(
        names=Names(told="topics", operation=READ, parts=Parts()),
        about=(GROUP._replace(operation=DELETE),),
    ),
    ApiKey.DescribeCluster: Rule(),
    ApiKey.DescribeProducers: Rule(
        names=Names(told="topics", operation=READ, parts=Parts(asked="partition_indexes", index=""))
    ),
    ApiKey.DescribeTransactions: Rule(
        names=Names(
            asked="transactional_ids",
            name="",
            told="transaction_states",
            told_name="transactional_id",
            kind=Kind.TRANSACTIONAL_ID,
        )
    ),
    ApiKey.ListTransactions: Rule(
        names=Names(
            asked="",
            told="transaction_states",
            told_name="transactional_id",
            kind=Kind.TRANSACTIONAL_ID,
        )
    ),
    ApiKey.DescribeTopicPartitions: Rule(names=Names(told="topics")),
}

# Those whose answers tell which operations a client may do, if it wants to know.
TELLING_RIGHTS: Final = frozenset(
    {
        ApiKey.Metadata,
        ApiKey.DescribeGroups,
        ApiKey.DescribeCluster,
        ApiKey.DescribeTopicPartitions,
    }
)

# The newest versions whose requests say by name what they are about, where later ones do not, or
# are for brokers among themselves.
NEWEST: Final[dict[int, int]] = {
    ApiKey.Produce: 12,
    ApiKey.Fetch: 12,
    ApiKey.OffsetCommit: 9,
    ApiKey.OffsetFetch: 9,
    ApiKey.AddPartitionsToTxn: 3,
    ApiKey.ListTransactions: 1,  # later ones name ids by a pattern
}

# APIs whose fields are not known here, and which change nothing. Who may read everything may ask
# them. Not among them: ConsumerGroupHeartbeat, by which a client joins any group.
READING: Final = frozenset(
    {
        46,  # ListPartitionReassignments
        55,  # DescribeQuorum
        69,  # ConsumerGroupDescribe
        71,  # GetTelemetrySubscriptions
        72,  # PushTelemetry
        74,  # ListConfigResources
    }
)
