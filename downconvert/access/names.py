"""Where requests and responses name topics, groups and transactional ids, for each API.

This is the part of Kafka's message definitions that a listener with lists of names needs. Such a
listener does not serve APIs that are not in RULES.

Not here: removing names from requests and responses (permissions.py)."""

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
    NO_OPERATION,
    READ,
    WRITE,
    Kind,
)

# Kinds by their numbers in requests: for configurations, and for coordinators.
RESOURCES: Final = {2: Kind.TOPIC, 32: Kind.GROUP}
COORDINATED: Final = {0: Kind.GROUP, 1: Kind.TRANSACTIONAL_ID}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The partitions of a topic in a request, and their errors in the response."""

    request: str = "partitions"
    index: str = "partition_index"  # in the request; empty if partitions are plain numbers
    response: str = "partitions"
    response_index: str = "partition_index"
    code: str = "error_code"
    nothing: Mapping[str, Any] = field(default_factory=dict)  # other fields, with empty values

    def of(self, element: Message, code: int) -> list[Message]:
        """Each partition of the request, with an error."""
        return [
            Message(
                **{self.response_index: getattr(one, self.index) if self.index else one},
                **{self.code: code},
                **self.nothing,
            )
            for one in getattr(element, self.request) or ()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """A list of a request whose elements have names, and the list in the response."""

    response: str  # empty: the response has no place for refused elements
    request: str = "topics"  # empty: the request has no names, and the response has all
    name: str = "name"  # empty: the elements are the names
    response_name: str = "name"
    kind: Kind = Kind.TOPIC
    operation: int = DESCRIBE  # Kafka's operation on each named resource
    type: str = ""  # the field of an element with the type of its resource
    parts: Parts | None = None

    def kind_of(self, element: Any) -> Kind:
        if not self.type:
            return self.kind
        return RESOURCES.get(getattr(element, self.type), Kind.CLUSTER)

    def name_of(self, element: Any) -> str | None:
        name: str | None = getattr(element, self.name) if self.name else element
        return name

    def refusal(self, element: Any, code: int) -> Message:
        """The response for a refused element of the request."""
        response = Message(error_code=code)
        setattr(response, self.response_name, self.name_of(element))
        if self.type:
            setattr(response, self.type, getattr(element, self.type))
        if self.parts is not None:
            setattr(response, self.parts.response, self.parts.of(element, code))
        return response


class About(NamedTuple):
    """A field that names the resource of a whole request."""

    name: str
    kind: Kind
    operation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Where an API's requests and responses have names, and the required operations."""

    names: Names | None = None
    about: tuple[About, ...] = ()  # the resources of the whole request
    cluster: int = NO_OPERATION  # required operations on the cluster
    is_all_or_nothing: bool = False
    is_always_sent: bool = False  # sent to the cluster even if no element is left

    @property
    def needs(self) -> Iterator[tuple[Kind, int]]:
        """The operations that a request may need, each with the kind of its resource."""
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
    response="topics", parts=Parts(request="partition_indexes", index="", nothing=NO_OFFSET)
)

RULES: Final[dict[int, Rule]] = {
    ApiKey.Produce: Rule(
        names=Names(
            request="topic_data",
            response="responses",
            operation=WRITE,
            parts=Parts(
                request="partition_data",
                index="index",
                response="partition_responses",
                response_index="index",
                nothing={"base_offset": -1},
            ),
        ),
        about=(TRANSACTION,),
    ),
    ApiKey.Fetch: Rule(
        names=Names(
            operation=READ,
            name="topic",
            response="responses",
            response_name="topic",
            parts=Parts(index="partition", nothing={"high_watermark": -1}),
        )
    ),
    ApiKey.ListOffsets: Rule(names=Names(response="topics", parts=Parts())),
    # Always sent, because a client that gets no brokers retries for ever without an error.
    ApiKey.Metadata: Rule(names=Names(response="topics"), is_always_sent=True),
    ApiKey.OffsetCommit: Rule(
        names=Names(response="topics", operation=READ, parts=Parts()), about=(GROUP,)
    ),
    ApiKey.OffsetFetch: Rule(names=OFFSETS, about=(GROUP._replace(operation=DESCRIBE),)),
    ApiKey.FindCoordinator: Rule(),  # the request has the kind of its keys
    ApiKey.JoinGroup: Rule(about=(GROUP,)),
    ApiKey.Heartbeat: Rule(about=(GROUP,)),
    ApiKey.LeaveGroup: Rule(about=(GROUP,)),
    ApiKey.SyncGroup: Rule(about=(GROUP,)),
    ApiKey.DescribeGroups: Rule(
        names=Names(
            request="groups", name="", response="groups", response_name="group_id", kind=Kind.GROUP
        )
    ),
    ApiKey.ListGroups: Rule(
        names=Names(request="", response="groups", response_name="group_id", kind=Kind.GROUP)
    ),
    ApiKey.SaslHandshake: Rule(),
    ApiKey.ApiVersions: Rule(),
    ApiKey.CreateTopics: Rule(names=Names(response="topics", operation=CREATE)),
    ApiKey.DeleteTopics: Rule(
        names=Names(request="topic_names", name="", response="responses", operation=DELETE)
    ),
    ApiKey.DeleteRecords: Rule(
        names=Names(response="topics", operation=DELETE, parts=Parts(nothing={"low_watermark": -1}))
    ),
    ApiKey.InitProducerId: Rule(about=(TRANSACTION,)),  # no id: some topic must be writable
    ApiKey.OffsetForLeaderEpoch: Rule(
        names=Names(
            name="topic",
            response="topics",
            response_name="topic",
            parts=Parts(index="partition", response_index="partition"),
        )
    ),
    ApiKey.AddPartitionsToTxn: Rule(
        names=Names(
            request="v3_and_below_topics",
            response="results_by_topic_v3_and_below",
            operation=WRITE,
            parts=Parts(index="", response="results_by_partition", code="partition_error_code"),
        ),
        about=(OLD_TRANSACTION,),
        is_all_or_nothing=True,
    ),
    ApiKey.AddOffsetsToTxn: Rule(about=(TRANSACTION, GROUP)),
    ApiKey.EndTxn: Rule(about=(TRANSACTION,)),
    ApiKey.TxnOffsetCommit: Rule(
        names=Names(response="topics", operation=READ, parts=Parts()), about=(TRANSACTION, GROUP)
    ),
    ApiKey.DescribeConfigs: Rule(
        names=Names(
            request="resources",
            name="resource_name",
            response="results",
            response_name="resource_name",
            operation=DESCRIBE_CONFIGS,
            type="resource_type",
        )
    ),
    **dict.fromkeys(
        (ApiKey.AlterConfigs, ApiKey.IncrementalAlterConfigs),
        Rule(
            names=Names(
                request="resources",
                name="resource_name",
                response="responses",
                response_name="resource_name",
                operation=ALTER_CONFIGS,
                type="resource_type",
            )
        ),
    ),
    ApiKey.DescribeLogDirs: Rule(cluster=DESCRIBE),
    ApiKey.SaslAuthenticate: Rule(),
    ApiKey.CreatePartitions: Rule(names=Names(response="results", operation=ALTER)),
    ApiKey.DeleteGroups: Rule(
        names=Names(
            request="groups_names",
            name="",
            response="results",
            response_name="group_id",
            kind=Kind.GROUP,
            operation=DELETE,
        )
    ),
    ApiKey.OffsetDelete: Rule(
        names=Names(response="topics", operation=READ, parts=Parts()),
        about=(GROUP._replace(operation=DELETE),),
    ),
    ApiKey.DescribeCluster: Rule(),
    ApiKey.DescribeProducers: Rule(
        names=Names(
            response="topics", operation=READ, parts=Parts(request="partition_indexes", index="")
        )
    ),
    ApiKey.DescribeTransactions: Rule(
        names=Names(
            request="transactional_ids",
            name="",
            response="transaction_states",
            response_name="transactional_id",
            kind=Kind.TRANSACTIONAL_ID,
        )
    ),
    ApiKey.ListTransactions: Rule(
        names=Names(
            request="",
            response="transaction_states",
            response_name="transactional_id",
            kind=Kind.TRANSACTIONAL_ID,
        )
    ),
    ApiKey.DescribeTopicPartitions: Rule(names=Names(response="topics")),
}

# APIs whose responses can show the operations that a client may do.
SHOWING_RIGHTS: Final = frozenset(
    {
        ApiKey.Metadata,
        ApiKey.DescribeGroups,
        ApiKey.DescribeCluster,
        ApiKey.DescribeTopicPartitions,
    }
)

# The newest versions that name their resources. Later versions do not, or are only for brokers.
NEWEST: Final[dict[int, int]] = {
    ApiKey.Produce: 12,
    ApiKey.Fetch: 12,
    ApiKey.OffsetCommit: 9,
    ApiKey.OffsetFetch: 9,
    ApiKey.AddPartitionsToTxn: 3,
    ApiKey.ListTransactions: 1,  # later ones name ids by a pattern
}

# APIs that change nothing, and whose fields are unknown here. A client that may read everything may
# use them. ConsumerGroupHeartbeat is not one, because it lets a client join any group.
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
