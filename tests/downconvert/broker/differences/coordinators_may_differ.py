"""Where responses of the coordinators may differ: of groups, offsets and transactions."""

from typing import Any, Final

from downconvert.protocol.schemas import ApiKey

from .difference import MayDiffer
from .responses import Place

GROUPS: Final = (
    *(ApiKey.DescribeGroups, ApiKey.ListGroups, ApiKey.OffsetDelete, ApiKey.DeleteGroups),
    *(ApiKey.LeaveGroup, ApiKey.OffsetCommit, ApiKey.TxnOffsetCommit, ApiKey.JoinGroup),
)
LONG: Final = 32_000  # characters of a client id
COMMITS: Final = (ApiKey.OffsetCommit, ApiKey.OffsetFetch)


def _only_kafkas(place: Place) -> bool:
    """A group that Kafka lists without members, or from which it deletes nothing."""
    if (place.kafka, place.ours) in (("Empty", "Dead"), (0, 69), (25, 22), (23, 25)):
        return True
    theirs: Any = place.kafka if place.ours is None else None
    return isinstance(theirs, dict) and ("partitions" in theirs or not theirs.get("protocol_type"))


def _only_ours(place: Place) -> bool:
    """A group here that has never had a member."""
    if (place.kafka, place.ours) == ("Dead", "Empty"):
        return not place.around[1]["protocol_type"]
    if (place.kafka, place.ours) in ((69, 0), (25, 0), (22, 25)):
        return True
    own = place.ours
    if place.is_in("members") and isinstance(place.kafka, dict):  # one is named twice
        return all(one.get("error_code") == 25 for one in place.kafka.values())
    if not isinstance(own, dict) or place.kafka is not None:
        return False
    return "partitions" in own or not own.get("protocol_type", True)


def _is_only_here(place: Place) -> bool:
    """Whether a commit meets a group here, and none in Kafka."""
    return (place.kafka, place.ours) == (22, 25)


def _is_refused_id(place: Place) -> bool:
    """A transactional id that Kafka knows without an epoch, or a response that it is not known."""
    theirs, own = place.kafka, place.ours
    if isinstance(theirs, dict) and own is None:
        if "producer_epoch" in theirs:  # described
            return bool(theirs["producer_epoch"] == -1)
        return theirs.get("transaction_state") == "Empty"  # listed
    return theirs is None and isinstance(own, dict) and own.get("error_code") == 105


def _is_forgotten(place: Place) -> bool:
    """Whether Kafka does not know any more who joins."""
    is_known = place.around[1].get("error_code") in (0, 23, 42) or place.path.startswith("members.")
    return is_known and place.around[0].get("error_code", 25) == 25


COORDINATORS: Final = (
    MayDiffer(
        "InitProducerId of a producer that continues while its transaction is open",
        "51, and to the next request 90, PRODUCER_FENCED",
        "the transaction is aborted, and the producer continues",
        "The producer that sends the request is not fenced.",
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
        "90, PRODUCER_FENCED (47 before version 4), and the transaction continues",
        "A fenced producer must not end another's transaction.",
        lambda asked, place: (
            asked.api is ApiKey.InitProducerId
            and getattr(asked.body, "producer_id", -1) != -1
            and place.around[0].get("error_code") in (0, 51)
            and place.around[1].get("error_code") in (90, 47)
        ),
        keeps_step=False,
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
        "OffsetFetch of these topics, after DeleteTopics",
        "no offsets",
        "the committed offsets",
        "The topics are still there.",
        lambda asked, place: (
            asked.api is ApiKey.OffsetFetch and "__" in place.path and place.kafka is None
        ),
    ),
    MayDiffer(
        "OffsetFetch that names a group twice",
        "a response for each",
        "one response, for the last",
        "A short request gets no long response.",
        lambda asked, _: (
            asked.api is ApiKey.OffsetFetch
            and asked.version >= 8
            and len({one.group_id for one in asked.body.groups}) < len(asked.body.groups)
        ),
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
        "exists, Empty, until offsets expire",
        "is not there",
        "It has neither members nor offsets.",
        lambda asked, place: asked.api in GROUPS and _only_kafkas(place),
    ),
    MayDiffer(
        "A transactional id whose only InitProducerId was refused",
        "exists, Empty, with the epoch -1, until the broker restarts",
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
        "The request is wrong, not the server.",
        lambda asked, place: (
            asked.api is ApiKey.JoinGroup
            and bool(asked.body.member_id and getattr(asked.body, "group_instance_id", None))
            and (place.around[0]["error_code"], place.around[1]["error_code"]) == (-1, 42)
        ),
    ),
    MayDiffer(
        "JoinGroup with a client id of 32,767 bytes",
        "-1, UNKNOWN_SERVER_ERROR: the member's id, which begins with it, is too long",
        "a member's id with the beginning of the client id",
        "The client id is no reason to refuse the member.",
        lambda asked, _: (
            asked.api is ApiKey.JoinGroup and len(asked.envelope.client_id or "") > LONG
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "A group without members whose last offset is in an open transaction, and in a topic that "
        "is deleted",
        "exists, Empty, until the transaction ends",
        "is not there",
        "It has neither members nor offsets.",
        lambda asked, place: (
            asked.api is ApiKey.ListGroups
            and place.ours is None
            and isinstance(place.kafka, dict)
            and place.kafka.get("group_state") == "Empty"
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "OffsetDelete while the members of a group join again",
        "86, GROUP_SUBSCRIBED_TO_TOPIC, for topics that the generation before read",
        "86 for topics that its members will read",
        "A member that joins needs its offsets.",
        lambda asked, place: (
            asked.api is ApiKey.OffsetDelete and (place.kafka, place.ours) in ((0, 86), (86, 0))
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "A group whose only member was given an id, and has not joined yet, or has just left",
        "is gone when any topic is deleted, or a moment after",
        "is there",
        "The member is about to join.",
        lambda asked, place: (
            (asked.api in GROUPS and _only_ours(place))
            or (asked.api is ApiKey.JoinGroup and _is_forgotten(place))
        ),
        keeps_step=False,
    ),
)
