"""Where responses about records may differ: Fetch, Produce, ListOffsets, DescribeLogDirs."""

from collections import Counter
from typing import Any, Final

from downconvert.protocol.schemas import ApiKey

from .batches import names_damage
from .difference import MayDiffer
from .operations import Operation
from .responses import Place
from .values import UNKNOWN_ID

LOOKING: Final = (
    *(ApiKey.Fetch, ApiKey.ListOffsets, ApiKey.DescribeLogDirs, ApiKey.DescribeProducers),
    *(ApiKey.OffsetForLeaderEpoch, ApiKey.Produce, ApiKey.DescribeConfigs),
)


def _continues(asked: Operation, place: Place) -> bool:
    """Whether one has the records that the other has, and more. The first may be cut here."""
    theirs, own = place.kafka, place.ours
    if not isinstance(theirs, list) or not isinstance(own, list):
        return False
    return all(
        one == other or _is_cut(asked, one, other) for one, other in zip(theirs, own, strict=False)
    )


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


def _is_cut_apart(asked: Operation, place: Place) -> bool:
    """Whether the rest of one compressed message has become several messages."""
    theirs, own = place.kafka, place.ours
    if not isinstance(theirs, list) or not isinstance(own, list) or len(theirs) != 1:
        return False
    records = [record for batch in own for record in batch[2]]
    return bool(own) and _is_cut(asked, theirs[0], (theirs[0][0], theirs[0][1], records))


def _is_by_time(asked: Operation, place: Place) -> bool:
    if asked.api is not ApiKey.ListOffsets:
        return False
    times = {each.timestamp for one in asked.body.topics for each in one.partitions}
    fields = ("offset", "timestamp", "leader_epoch")
    return any(time >= 0 or time == -3 for time in times) and any(map(place.is_in, fields))


def _is_without_markers(place: Place) -> bool:
    """Whether Kafka has the same batches, and more control batches, of whose records only keys
    count."""
    theirs, own = place.kafka, place.ours
    if isinstance(theirs, tuple):  # one batch each
        return _is_marker(theirs)
    if not isinstance(theirs, list) or not isinstance(own, list):
        return False
    left_out = [one for one in theirs if one not in own]
    return [one for one in theirs if one in own] == own and all(map(_is_marker, left_out))


def _is_marker(batch: tuple[Any, ...]) -> bool:
    return all(len(record) == 2 for record in batch[2])


def names_twice(asked: Operation) -> bool:
    """Whether a produce names a partition more than once."""
    counts = Counter(
        (vars(topic).get("name"), repr(vars(topic).get("topic_id")), one.index)
        for topic in asked.body.topic_data
        for one in topic.partition_data
    )
    return any(count > 1 for count in counts.values())


def is_damaged(asked: Operation) -> bool:
    """Whether a produce has damaged records."""
    return asked.api is ApiKey.Produce and any(
        names_damage(one.records) for topic in asked.body.topic_data for one in topic.partition_data
    )


def _has_negative_limit(asked: Operation) -> bool:
    if asked.api is not ApiKey.Fetch:
        return False
    limits = [each.partition_max_bytes for one in asked.body.topics for each in one.partitions]
    return any(limit < 0 for limit in (getattr(asked.body, "max_bytes", 0), *limits))


def _has_negative_count(asked: Operation) -> bool:
    if asked.version:
        return False
    return any(each.max_num_offsets < 0 for one in asked.body.topics for each in one.partitions)


RECORDS: Final = (
    MayDiffer(
        "Produce of damaged records",
        "2, CORRUPT_MESSAGE, 49, INVALID_PRODUCER_ID_MAPPING, 87, INVALID_RECORD, or -1, "
        "UNKNOWN_SERVER_ERROR, often for all partitions",
        "2, CORRUPT_MESSAGE, 32, INVALID_TIMESTAMP, 49, or 87, INVALID_RECORD, for that partition; "
        "others are written",
        "Damage in one partition does not keep others from being written.",
        lambda asked, place: (
            is_damaged(asked)
            and (
                place.around[0].get("error_code") in (2, 49, 87, -1)
                or place.around[1].get("error_code") in (2, 32, 87)
            )
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "Produce of records with a producer id below -1, to a topic with another codec",
        "-1, UNKNOWN_SERVER_ERROR",
        "written",
        "No producer has such an id.",
        lambda asked, place: (
            "producer_id -2" in repr(asked.body)
            and place.around[0].get("error_code") == -1
            and place.around[1].get("error_code") == 0
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "Fetch with a negative limit of bytes",
        "-1, UNKNOWN_SERVER_ERROR, where there are records",
        "as with the limit 0",
        "A first batch comes whole, whatever the limit.",
        lambda asked, _: _has_negative_limit(asked),
        keeps_step=False,
    ),
    MayDiffer(
        "Produce that names a partition twice",
        "only the last records are written, and answered",
        "all of them, each with a response",
        "No records are lost.",
        lambda asked, _: asked.api is ApiKey.Produce and names_twice(asked),
        keeps_step=False,
    ),
    MayDiffer(
        "Fetch, ListOffsets with the replica id of a broker, from a client that is no broker",
        "as to that broker",
        "29, TOPIC_AUTHORIZATION_FAILED, or 31, CLUSTER_AUTHORIZATION_FAILED",
        "A follower's fetch says that it has the records before it: that commits them.",
        lambda asked, _: getattr(asked.body, "replica_id", -1) not in (-1, -2),
    ),
    MayDiffer(
        "Fetch, ListOffsets with an unknown isolation level",
        "-1, UNKNOWN_SERVER_ERROR, or no error where nothing is read",
        "42, INVALID_REQUEST",
        "The request is wrong, not the server.",
        lambda asked, _: getattr(asked.body, "isolation_level", 0) not in (0, 1),
    ),
    MayDiffer(
        "ListOffsets 0 with a negative number of offsets",
        "-1, UNKNOWN_SERVER_ERROR, where there are records",
        "no offsets",
        "The request asks for none.",
        lambda asked, _: asked.api is ApiKey.ListOffsets and _has_negative_count(asked),
    ),
    MayDiffer(
        "Fetch of a range that begins with markers, by a client that reads uncommitted",
        "the markers",
        "what follows them, or nothing",
        "The client would discard them.",
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
        "An empty session is of no use, and takes memory.",
        lambda asked, place: (
            asked.api is ApiKey.Fetch
            and place.path == "session_id"
            and place.ours == 0
            and not asked.body.topics
        ),
    ),
    MayDiffer(
        "Fetch, versions 0 to 3: records below the fetch offset, in a compressed message",
        "sent",
        "left out; the others may come one by one",
        "Some old clients deliver them twice.",
        lambda asked, place: (
            asked.api is ApiKey.Fetch
            and asked.version < 4
            and (_is_cut(asked, place.kafka, place.ours) or _is_cut_apart(asked, place))
        ),
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
        "Produce in a transaction, of transactional records without a producer id",
        "written, or the error of the records",
        "49, INVALID_PRODUCER_ID_MAPPING",
        "They would be in no transaction.",
        lambda asked, place: (
            asked.api is ApiKey.Produce
            and "with attributes" in repr(asked.body)
            and place.around[1].get("error_code") == 49
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "Produce in a transaction, of records that the topic refuses, to a partition not in it",
        "48, INVALID_TXN_STATE",
        "32, INVALID_TIMESTAMP",
        "Nothing is written. Either error refuses the request.",
        lambda asked, place: (
            asked.api is ApiKey.Produce
            and place.is_in("error_code")
            and (place.kafka, place.ours) == (48, 32)
        ),
    ),
    MayDiffer(
        "Produce, versions 0 to 2: compressed records that just fit `max.message.bytes`, or just "
        "do not",
        "as Java's libraries compress",
        "10, MESSAGE_TOO_LARGE, where Kafka writes them, or the other way round",
        "Libraries compress the same records to other sizes.",
        lambda asked, place: (
            asked.api is ApiKey.Produce
            and asked.version < 3
            and any(one.get("error_code") == 10 for one in place.around)
            and any(name in repr(asked.body) for name in ("GZIP", "SNAPPY", "LZ4"))
        ),
        keeps_step=False,
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
        "The records in `__consumer_offsets` and `__transaction_state`",
        "records as they were written",
        "others, of the same groups and transactions",
        "Each broker chooses when it writes its state.",
        _is_internal,
    ),
    MayDiffer(
        "Fetch below 10: the codec of records that an old client cannot read",
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
        "Fetch 4 to 9: zstd, in a topic with `message.downconversion.enable=false`",
        "zstd",
        "76, UNSUPPORTED_COMPRESSION_TYPE",
        "The client cannot read it, and the topic is not to be converted.",
        lambda asked, place: (
            asked.api is ApiKey.Fetch
            and 4 <= asked.version < 10
            and (place.around[0].get("error_code"), place.around[1].get("error_code")) == (0, 76)
        ),
    ),
    MayDiffer(
        "Fetch, versions 0 to 3: where the records of a response end",
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
        "Produce: `log_start_offset` of a batch that is refused in a transaction",
        "-1",
        "where the log begins",
        "Clients look at it with UNKNOWN_PRODUCER_ID only, which is never answered.",
        lambda asked, place: (
            asked.api is ApiKey.Produce and place.is_in("log_start_offset") and place.kafka == -1
        ),
    ),
    MayDiffer(
        "Produce in a transaction, to an internal topic or with invalid acks",
        "the transaction's error",
        "17, INVALID_TOPIC_EXCEPTION, or 21, INVALID_REQUIRED_ACKS",
        "Nothing is written. Either error refuses the request.",
        lambda asked, place: asked.api is ApiKey.Produce and place.ours in (17, 21),
    ),
)
