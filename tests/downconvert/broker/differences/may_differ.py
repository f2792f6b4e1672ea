"""Where answers of `serve` may differ from those of Kafka 3.9.1, and why.

docs/broker.md shows this list; a test keeps the two equal. Nothing else may differ.

Not here: what is no difference, such as the ids that each server gives (answers.py)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from downconvert.protocol.schemas import ApiKey

from .answers import Place
from .operations import Operation
from .values import UNKNOWN_ID

TOPIC, BROKER, NO_TYPE = 2, 4, 99  # types of resources
GROUPS: Final = (
    *(ApiKey.DescribeGroups, ApiKey.ListGroups, ApiKey.OffsetDelete, ApiKey.DeleteGroups),
    *(ApiKey.LeaveGroup, ApiKey.OffsetCommit, ApiKey.TxnOffsetCommit, ApiKey.JoinGroup),
)
ALTERING: Final = (ApiKey.AlterConfigs, ApiKey.IncrementalAlterConfigs)
LOOKING: Final = (
    *(ApiKey.Fetch, ApiKey.ListOffsets, ApiKey.DescribeLogDirs, ApiKey.DescribeProducers),
    *(ApiKey.OffsetForLeaderEpoch, ApiKey.Produce, ApiKey.DescribeConfigs),
)
COMMITS: Final = (ApiKey.OffsetCommit, ApiKey.OffsetFetch)
Applies: TypeAlias = Callable[[Operation, Place], bool]


@dataclass(frozen=True, slots=True)
class MayDiffer:
    """A difference: what is asked, what each says, and why."""

    asked: str
    kafka: str
    here: str
    reason: str
    applies: Applies
    keeps_step: bool = True  # whether the servers are in the same state afterwards


def _continues(asked: Operation, place: Place) -> bool:
    """Whether one has the records that the other has, and more. The first may be cut here."""
    theirs, own = place.kafka, place.ours
    if not isinstance(theirs, list) or not isinstance(own, list):
        return False
    return all(
        one == other or _is_cut(asked, one, other) for one, other in zip(theirs, own, strict=False)
    )


def _only_kafkas(place: Place) -> bool:
    """A group that Kafka lists without members, or of which it deletes nothing."""
    if (place.kafka, place.ours) in (("Empty", "Dead"), (0, 69), (25, 22), (23, 25)):
        return True
    theirs: Any = place.kafka if place.ours is None else None
    return isinstance(theirs, dict) and ("partitions" in theirs or not theirs.get("protocol_type"))


def _only_ours(place: Place) -> bool:
    """A group here that has never had a member."""
    if (place.kafka, place.ours) == ("Dead", "Empty"):
        return not place.around[1]["protocol_type"]
    if (place.kafka, place.ours) in ((69, 0), (25, 0)):
        return True
    own = place.ours
    if not isinstance(own, dict) or place.kafka is not None:
        return False
    return "partitions" in own or not own.get("protocol_type", True)


def _is_only_here(place: Place) -> bool:
    """Whether a commit meets a group here, and none in Kafka."""
    return (place.kafka, place.ours) == (22, 25)


def _is_refused_id(place: Place) -> bool:
    """A transactional id that Kafka knows without an epoch, or an answer that it is not known."""
    theirs, own = place.kafka, place.ours
    if isinstance(theirs, dict) and own is None:
        if "producer_epoch" in theirs:  # described
            return bool(theirs["producer_epoch"] == -1)
        return theirs.get("transaction_state") == "Empty"  # listed
    return theirs is None and isinstance(own, dict) and own.get("error_code") == 105


def _is_recoded(place: Place) -> bool:
    """Whether two batches differ in their codec only."""
    theirs, own = place.kafka, place.ours
    if not isinstance(theirs, tuple) or not isinstance(own, tuple):
        return False
    kinds = [(kind[0], *kind[2:]) for kind in (theirs[0], own[0])]
    return kinds[0] == kinds[1] and theirs[1:] == own[1:]


def _is_internal(asked: Operation, place: Place) -> bool:
    return asked.api in LOOKING and "__" in place.path


def _is_cut(asked: Operation, theirs: Any, own: Any) -> bool:
    """Whether a compressed message has only the records from an offset asked for on."""
    if not isinstance(theirs, tuple) or not isinstance(own, tuple) or theirs[1] != own[1]:
        return False
    left_out = [one for one in theirs[2] if one not in own[2]]
    offsets = [each.fetch_offset for one in asked.body.topics for each in one.partitions]
    is_rest = [one for one in theirs[2] if one in own[2]] == own[2]
    return is_rest and all(one[0] < max(offsets) for one in left_out)


def _is_forgotten(place: Place) -> bool:
    """Whether Kafka does not know any more who joins."""
    is_known = place.around[1].get("error_code") in (0, 23) or place.path.startswith("members.")
    return is_known and place.around[0].get("error_code", 25) == 25


def _is_by_time(asked: Operation, place: Place) -> bool:
    if asked.api is not ApiKey.ListOffsets:
        return False
    times = {each.timestamp for one in asked.body.topics for each in one.partitions}
    fields = ("offset", "timestamp", "leader_epoch")
    return any(time >= 0 or time == -3 for time in times) and any(map(place.is_in, fields))


def _is_without_markers(place: Place) -> bool:
    """Whether Kafka has the same batches, and control batches, of whose records only keys count."""
    theirs, own = place.kafka, place.ours
    if isinstance(theirs, tuple):  # one batch each
        return all(len(record) == 2 for record in theirs[2])
    if not isinstance(theirs, list) or not isinstance(own, list):
        return False
    return [one for one in theirs if all(len(record) > 2 for record in one[2])] == own


MAY_DIFFER: Final = (
    MayDiffer(
        "Fetch of a range of nothing but markers, by a client that reads uncommitted",
        "the markers",
        "nothing, or what follows them",
        "The client would leave them out.",
        lambda asked, place: (
            asked.api is ApiKey.Fetch and place.is_in("records") and _is_without_markers(place)
        ),
    ),
    MayDiffer(
        "Fetch that adds a partition of an unknown topic id to its session, and forgets it at once",
        "100, UNKNOWN_TOPIC_ID",
        "nothing",
        "The client has said that it does not want it.",
        lambda asked, place: (
            asked.api is ApiKey.Fetch
            and place.ours is None
            and any(
                getattr(one, "topic_id", None) == UNKNOWN_ID
                for one in getattr(asked.body, "forgotten_topics_data", ())
            )
        ),
    ),
    MayDiffer(
        "Fetch in a session by ids, of a topic that was deleted",
        "3, UNKNOWN_TOPIC_OR_PARTITION",
        "100, UNKNOWN_TOPIC_ID",
        "The id is what the client named. It asks for metadata in both cases.",
        lambda asked, place: asked.api is ApiKey.Fetch and (place.kafka, place.ours) == (3, 100),
    ),
    MayDiffer(
        "Fetch below 9, in a session that a later version began with a leader epoch",
        "74 or 75, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH",
        "6, NOT_LEADER_OR_FOLLOWER",
        "A client of that version does not know the other two.",
        lambda asked, place: (
            asked.api is ApiKey.Fetch
            and asked.version < 9
            and place.is_in("error_code")
            and (place.kafka, place.ours) in ((74, 6), (75, 6))
        ),
    ),
    MayDiffer(
        "ListOffsets by time, after a transaction",
        "may be its marker",
        "is a record",
        "A marker is no record: no consumer gets it.",
        _is_by_time,
    ),
    MayDiffer(
        "Fetch that begins a session of no partitions",
        "the session's id",
        "no session",
        "It would tell the client nothing. Each takes memory.",
        lambda asked, place: (
            asked.api is ApiKey.Fetch
            and place.path == "session_id"
            and place.ours == 0
            and not asked.body.topics
        ),
    ),
    MayDiffer(
        "Fetch, versions 0 to 3: records below the offset asked for, in a compressed message",
        "sent",
        "left out",
        "Some old clients deliver them twice.",
        lambda asked, place: (
            asked.api is ApiKey.Fetch
            and asked.version < 4
            and _is_cut(asked, place.kafka, place.ours)
        ),
    ),
    MayDiffer(
        "CreateTopics, `validate_only`: the topic's id",
        "one that no topic gets",
        "none",
        "No topic is made.",
        lambda asked, place: (
            asked.api is ApiKey.CreateTopics
            and getattr(asked.body, "validate_only", False)
            and place.is_in("topic_id")
        ),
    ),
    MayDiffer(
        "Metadata of some topics by name and of others by id",
        "leaves out those by name",
        "all of them",
        "No client asks so.",
        lambda asked, place: (
            asked.api is ApiKey.Metadata
            and place.kafka is None
            and any(one.name is None for one in asked.body.topics)
        ),
    ),
    MayDiffer(
        "InitProducerId of a producer that goes on while its transaction is open",
        "51, and when it is asked again 90, PRODUCER_FENCED",
        "the transaction is aborted, and the producer goes on",
        "The producer is not fenced: it is the one that asks.",
        lambda asked, place: (
            asked.api is ApiKey.InitProducerId
            and getattr(asked.body, "producer_id", -1) != -1
            and place.kafka in (90, 47, -1)
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "InitProducerId with an epoch that is not the producer's, while its transaction is open",
        "51, and aborts the transaction",
        "90, PRODUCER_FENCED (47 before version 4), and the transaction goes on",
        "Who is fenced ends nobody's transaction.",
        lambda asked, place: (
            asked.api is ApiKey.InitProducerId
            and getattr(asked.body, "producer_id", -1) != -1
            and place.around[0].get("error_code") in (0, 51)
            and place.around[1].get("error_code") in (90, 47)
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "Produce in a transaction, after a batch that came before its partition was added",
        "45, OUT_OF_ORDER_SEQUENCE_NUMBER, for later sequences",
        "written",
        "That producer has an error, and has to abort the transaction.",
        lambda asked, place: (
            asked.api is ApiKey.Produce
            and getattr(asked.body, "transactional_id", None) is not None
            and place.around[0].get("error_code") == 45
            and place.around[1].get("error_code") == 0
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "Produce in a transaction, of records that the topic refuses, to a partition not in it",
        "48, INVALID_TXN_STATE",
        "32, INVALID_RECORD",
        "Nothing is written. Which of two errors is said makes no difference.",
        lambda asked, place: (
            asked.api is ApiKey.Produce
            and place.is_in("error_code")
            and (place.kafka, place.ours) == (48, 32)
        ),
    ),
    MayDiffer(
        "DescribeLogDirs: the size of a partition whose records the broker has compressed",
        "as Java's libraries compress",
        "up to a tenth, or 20 bytes, more or less",
        "Libraries compress the same records to other sizes.",
        lambda asked, place: (
            asked.api is ApiKey.DescribeLogDirs
            and place.is_in("partition_size")
            and abs(place.kafka - place.ours) <= max(20, place.kafka / 10)
        ),
    ),
    MayDiffer(
        "What is in `__consumer_offsets` and `__transaction_state`",
        "records as they were written",
        "others, of the same groups and transactions",
        "When each broker writes its state there is its own affair.",
        _is_internal,
    ),
    MayDiffer(
        "Fetch below 10: the codec of what an old client cannot read",
        "76, lz4 with a wrong checksum (v0), or zstd",
        "gzip",
        "[Every client reads gzip](conversion.md).",
        lambda asked, place: (
            asked.api is ApiKey.Fetch
            and asked.version < 10
            and (_is_recoded(place) or place.around[0].get("error_code") == 76)
        ),
    ),
    MayDiffer(
        "OffsetCommit and OffsetFetch, version 0",
        "35, UNSUPPORTED_VERSION",
        "as version 1",
        "Clients of 0.8 commit with it. Kafka kept that in ZooKeeper.",
        lambda asked, place: (
            (asked.api in COMMITS and asked.version == 0)
            # The group without a name is in all blocks: it is there since such a commit.
            or (
                asked.api in COMMITS
                and not getattr(asked.body, "group_id", "-")
                and _is_only_here(place)
            )
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "Fetch, versions 0 to 3: where the records of an answer end",
        "where its size on disk is used up",
        "after a whole message, up to the limit",
        "Sizes are [exact](conversion.md): nothing is cut off, or filled up.",
        lambda asked, place: (
            asked.api is ApiKey.Fetch
            and asked.version < 4
            and place.is_in("records")
            and _continues(asked, place)
        ),
    ),
    MayDiffer(
        "Fetch: no aborted transactions",
        "null, or an empty list",
        "the same, at other places",
        "Clients read both as none.",
        lambda asked, place: (
            asked.api is ApiKey.Fetch
            and place.is_in("aborted_transactions")
            and not place.kafka
            and not place.ours
        ),
    ),
    MayDiffer(
        "Produce: `log_start_offset` of a batch that its transaction does not take",
        "-1",
        "where the log begins",
        "Clients look at it with UNKNOWN_PRODUCER_ID only, which is never answered.",
        lambda asked, place: (
            asked.api is ApiKey.Produce and place.is_in("log_start_offset") and place.kafka == -1
        ),
    ),
    MayDiffer(
        "Produce in a transaction, to a brokers' own topic or with acks that there are not",
        "the transaction's error",
        "17, INVALID_TOPIC_EXCEPTION, or 21, INVALID_REQUIRED_ACKS",
        "Nothing is written. Which of two errors is said makes no difference.",
        lambda asked, place: asked.api is ApiKey.Produce and place.ours in (17, 21),
    ),
    MayDiffer(
        "DeleteTopics of `__consumer_offsets` or `__transaction_state`",
        "deletes it",
        "17, INVALID_TOPIC_EXCEPTION",
        "All groups would lose their offsets, and producers their epochs.",
        lambda asked, place: (
            asked.api is ApiKey.DeleteTopics and place.is_in("error_code") and place.ours == 17
        ),
    ),
    MayDiffer(
        "OffsetFetch of these topics, after DeleteTopics",
        "no offsets",
        "the committed offsets",
        "The topics are still there.",
        lambda asked, place: (
            asked.api is ApiKey.OffsetFetch and "__" in place.path and place.kafka is None
        ),
    ),
    MayDiffer(
        "AlterConfigs, IncrementalAlterConfigs of anything but a topic",
        "the setting changes, or an error",
        "42, INVALID_REQUEST",
        "The broker's settings are on its command line, and there are no client metrics.",
        lambda asked, place: (
            asked.api in ALTERING
            and place.ours == 42
            and not place.path.startswith(f"responses.{TOPIC} ")
        ),
    ),
    MayDiffer(
        "DescribeConfigs of a broker",
        "all of its settings",
        "those that clients and tools look at",
        "The others do not exist here.",
        lambda asked, place: (
            asked.api is ApiKey.DescribeConfigs and place.path.startswith(f"results.{BROKER} ")
        ),
    ),
    MayDiffer(
        "DescribeConfigs of several, one of an unknown type",
        "42, INVALID_REQUEST, for each",
        "42 for that one",
        "The others have settings.",
        lambda asked, _: (
            asked.api is ApiKey.DescribeConfigs
            and any(one.resource_type == NO_TYPE for one in asked.body.resources)
        ),
    ),
    MayDiffer(
        "DescribeConfigs, version 0: `is_default`",
        "false",
        "whether it is the default",
        "Kafka says it from version 1 on, in another field.",
        lambda asked, place: asked.api is ApiKey.DescribeConfigs and place.is_in("is_default"),
    ),
    MayDiffer(
        "FindCoordinator of a share group",
        "15, COORDINATOR_NOT_AVAILABLE",
        "42, INVALID_REQUEST",
        "There are no share groups. Clients would ask for ever.",
        lambda asked, place: (
            asked.api is ApiKey.FindCoordinator and (place.kafka, place.ours) == (15, 42)
        ),
    ),
    MayDiffer(
        "A group whose only commit was refused",
        "is there, Empty, until expired offsets are looked for",
        "is not there",
        "It has neither members nor offsets.",
        lambda asked, place: asked.api in GROUPS and _only_kafkas(place),
    ),
    MayDiffer(
        "A transactional id whose only InitProducerId was refused",
        "is there, Empty, with the epoch -1, until the broker is started again",
        "is not there",
        "No producer has it.",
        lambda asked, place: (
            asked.api in (ApiKey.DescribeTransactions, ApiKey.ListTransactions)
            and _is_refused_id(place)
        ),
    ),
    MayDiffer(
        "JoinGroup with a group instance id, and the member id that was given to a dynamic member",
        "-1, UNKNOWN_SERVER_ERROR",
        "42, INVALID_REQUEST",
        "The request is wrong, and not the server.",
        lambda asked, place: (
            asked.api is ApiKey.JoinGroup
            and bool(asked.body.member_id and getattr(asked.body, "group_instance_id", None))
            and (place.around[0]["error_code"], place.around[1]["error_code"]) == (-1, 42)
        ),
    ),
    MayDiffer(
        "A group whose only member was given an id, and has not joined yet",
        "is gone when any topic is deleted",
        "is there",
        "The member is about to join.",
        lambda asked, place: (
            (asked.api in GROUPS and _only_ours(place))
            or (asked.api is ApiKey.JoinGroup and _is_forgotten(place))
        ),
        keeps_step=False,
    ),
)
