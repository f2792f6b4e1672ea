"""Where responses to clients with limited rights may differ: Kafka has ACLs, and `serve` has rules.

Not here: the users and their rights (users.py)."""

from typing import Final

from downconvert.protocol.schemas import ApiKey

from .difference import MayDiffer
from .operations import Operation
from .responses import ENDED
from .topics_may_differ import ALTERING

DENIALS: Final = (29, 30, 31, 53)
INVALID: Final = (40, 42)  # settings, requests


def _names_twice(asked: Operation) -> bool:
    body = asked.body
    names = getattr(body, "topic_names", None) or [
        one.name for one in getattr(body, "topics", None) or ()
    ]
    return len(set(names)) < len(names)


def _has_id(asked: Operation) -> bool:
    return bool(asked.user) and getattr(asked.body, "transactional_id", None) is not None


USERS_MAY_DIFFER: Final = (
    MayDiffer(
        "AlterConfigs, IncrementalAlterConfigs of what the client may not alter, with an error "
        "in it",
        "the error of the request",
        "29, TOPIC_, 30, GROUP_, or 31, CLUSTER_AUTHORIZATION_FAILED",
        "Rights are checked first, for every request.",
        lambda asked, place: (
            asked.api in ALTERING
            and place.is_in("error_code")
            and place.kafka in INVALID
            and place.ours in DENIALS
        ),
    ),
    MayDiffer(
        "CreateTopics, CreatePartitions, DeleteTopics that name a topic twice, which the client "
        "may not change",
        "42, INVALID_REQUEST",
        "29, TOPIC_AUTHORIZATION_FAILED",
        "Nothing is changed. Either error refuses the request.",
        lambda asked, place: (
            asked.api in (ApiKey.CreateTopics, ApiKey.CreatePartitions, ApiKey.DeleteTopics)
            and _names_twice(asked)
            and (place.kafka, place.ours) == (42, 29)
        ),
    ),
    MayDiffer(
        "DeleteTopics of an unknown topic, which the client may see, but not delete",
        "3, UNKNOWN_TOPIC_OR_PARTITION",
        "29, TOPIC_AUTHORIZATION_FAILED",
        "Rights are checked first, for every request.",
        lambda asked, place: (
            asked.api is ApiKey.DeleteTopics and (place.kafka, place.ours) == (3, 29)
        ),
    ),
    MayDiffer(
        "Fetch in a session that a client with other rights began",
        "as in any session",
        "70, FETCH_SESSION_ID_NOT_FOUND",
        "The session's topics are not shown to a client that may not see them.",
        lambda asked, place: (
            asked.api is ApiKey.Fetch
            and bool(asked.user and vars(asked.body).get("session_epoch", 0) > 0)
            and (place.ours in (None, 70) or place.is_in("session_id"))
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "Metadata, DeleteTopics of a topic by its id, which the client may not see",
        "29, TOPIC_AUTHORIZATION_FAILED",
        "100, UNKNOWN_TOPIC_ID",
        "A client does not find out that there is such a topic.",
        lambda asked, place: (
            asked.api in (ApiKey.Metadata, ApiKey.DeleteTopics)
            and (place.kafka, place.ours) == (29, 100)
        ),
    ),
    MayDiffer(
        "OffsetDelete of topics that the client may not read, and no others",
        "the error of the group, if it has one",
        "29, TOPIC_AUTHORIZATION_FAILED, for each",
        "Nothing is deleted. Either error refuses the request.",
        lambda asked, place: (
            asked.api is ApiKey.OffsetDelete and place.path == "error_code" and place.ours == 0
        ),
    ),
    MayDiffer(
        "SyncGroup 5 without a protocol, in a group that the client may not use",
        "23, INCONSISTENT_GROUP_PROTOCOL",
        "30, GROUP_AUTHORIZATION_FAILED",
        "Rights are checked first, for every request.",
        lambda asked, place: (
            asked.api is ApiKey.SyncGroup and (place.kafka, place.ours) == (23, 30)
        ),
    ),
    MayDiffer(
        "DescribeProducers of an invalid topic name, which the client may not read",
        "17, INVALID_TOPIC_EXCEPTION",
        "29, TOPIC_AUTHORIZATION_FAILED",
        "Rights are checked first, for every request.",
        lambda asked, place: (
            asked.api is ApiKey.DescribeProducers and (place.kafka, place.ours) == (17, 29)
        ),
    ),
    MayDiffer(
        "DescribeGroups: subscriptions and assignments that name topics which the client may not "
        "see, or cannot be read",
        "shown",
        "empty",
        "Names of topics are not shown to clients that may not see them.",
        lambda asked, place: (
            asked.api is ApiKey.DescribeGroups
            and (place.is_in("member_metadata") or place.is_in("member_assignment"))
            and place.ours == b""
        ),
    ),
    MayDiffer(
        "Produce with a transactional id that the client may not use, of records that are in no "
        "transaction",
        "written, or 29, TOPIC_AUTHORIZATION_FAILED",
        "53, TRANSACTIONAL_ID_AUTHORIZATION_FAILED; with acks 0, the connection ends",
        "The right is checked before the records are read.",
        lambda asked, place: (
            asked.api is ApiKey.Produce
            and (
                place.around[1].get("error_code") == 53
                or (asked.is_unanswered and place.ours == ENDED and _has_id(asked))
            )
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "Produce of a transaction's records without its id, to a topic that the client may not "
        "write to, and of others",
        "53, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, for all partitions",
        "29, TOPIC_AUTHORIZATION_FAILED, for that topic; others are written",
        "An error in one topic does not keep others from being written.",
        lambda asked, place: (
            asked.api is ApiKey.Produce and place.around[0].get("error_code") == 53
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "Produce, AddPartitionsToTxn, DeleteRecords that name a topic without partitions, beside "
        "what the client may not change",
        "nothing about it",
        "the topic, without partitions",
        "Clients read both as nothing.",
        lambda asked, place: (
            asked.api in (ApiKey.Produce, ApiKey.AddPartitionsToTxn, ApiKey.DeleteRecords)
            and place.kafka is None
            and isinstance(place.ours, dict)
            and {}
            in (
                place.ours.get("partition_responses"),
                place.ours.get("results_by_partition"),
                place.ours.get("partitions"),
            )
        ),
    ),
    MayDiffer(
        "AddPartitionsToTxn of unknown partitions, beside some that the client may not write to",
        "3, UNKNOWN_TOPIC_OR_PARTITION",
        "55, OPERATION_NOT_ATTEMPTED",
        "No partition is added. Either error refuses the request.",
        lambda asked, place: (
            asked.api is ApiKey.AddPartitionsToTxn and (place.kafka, place.ours) == (3, 55)
        ),
    ),
    MayDiffer(
        "FindCoordinator of keys of an unknown type, by a client with limited rights",
        "42, INVALID_REQUEST",
        "31, CLUSTER_AUTHORIZATION_FAILED",
        "Nothing is allowed that no rule names.",
        lambda asked, place: (
            asked.api is ApiKey.FindCoordinator
            and bool(asked.user)
            and (place.kafka, place.ours) == (42, 31)
        ),
    ),
    MayDiffer(
        "OffsetFetch, version 1, of a group that the client may not use",
        "no partitions, and no error",
        "30, GROUP_AUTHORIZATION_FAILED, for each partition",
        "Without an error, the client would begin at `auto.offset.reset`.",
        lambda asked, place: (
            asked.api is ApiKey.OffsetFetch
            and asked.version < 2
            and place.kafka is None
            and isinstance(place.ours, dict)
            and all(one["error_code"] == 30 for one in place.ours["partitions"].values())
        ),
    ),
)
