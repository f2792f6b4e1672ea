"""Metadata: the topics, their partitions, and the brokers that lead them.

In version 0 an empty list means all topics, in later versions null does [MetadataRequest].

If the operator allows it, a missing topic that is requested by name is created. Producers of 0.8
and 0.9 have no other way to create one. Clients from version 4 on can decline that, and consumers
do [KIP-361]."""

import logging
from typing import Final

from downconvert.access.operations import Kind
from downconvert.access.permissions import metadata_without_ids
from downconvert.broker.exchange import Exchange
from downconvert.broker.partition import Partition
from downconvert.broker.state import BrokerState
from downconvert.broker.topics import INTERNAL_TOPICS, Topic
from downconvert.protocol.errors import NONE, ApiError, ErrorCode
from downconvert.protocol.schemas import Message
from downconvert.storage import StorageError
from records.logged import log_of

from .admin import is_name
from .authorized import operations
from .new_topics import make

LOG: Final = log_of(__name__)
NO_LEADER: Final = -1
MADE_MAX: Final = 20  # topics created for one request: creating one takes milliseconds
IDS_SINCE: Final = 12  # the first version in which topics may have no name
MAY_REFUSE_SINCE: Final = 4  # earlier versions always ask for topics to be created


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body, version = exchange.request.body, exchange.request.version
    asked = body.topics
    for one in asked or () if version < IDS_SINCE else ():
        if one.name is None or any(one.topic_id):
            exchange.reply(metadata_without_ids(asked))
            return
    # In version 0, an empty list means all topics, unless forbidden names were removed from it.
    if asked is None or (version == 0 and not asked and exchange.permission is None):
        topics = [_topic(topic) for topic in broker.topics.values()]
    else:
        creates = broker.config.is_writable and broker.config.auto_create_topics
        if version >= MAY_REFUSE_SINCE:
            creates = creates and body.allow_auto_topic_creation
        left = MADE_MAX if creates else 0
        topics, by_name = [], broker.topics.by_name
        if len(asked) > 1:
            asked = {(one.name, bytes(one.topic_id)): one for one in asked}.values()
        for one in asked:
            topic = by_name.get(one.name)
            if topic is not None:
                topics.append(_topic(topic))
                continue
            may_make = left > 0 and one.name is not None and _may_write(exchange, one.name)
            topics.append(_missing(broker, one, now if may_make else None))
            left -= may_make
    for one in topics if body.include_topic_authorized_operations else ():
        one.topic_authorized_operations = operations(
            exchange, Kind.TOPIC, one.name or "", is_asked=one.name is not None
        )
    client = exchange.client
    response = Message(
        brokers=[Message(node_id=broker.config.node_id, host=client.host, port=client.port)],
        cluster_id=broker.config.cluster_id,
        controller_id=broker.config.node_id,
        topics=topics,
    )
    if body.include_cluster_authorized_operations:
        response.cluster_authorized_operations = operations(exchange, Kind.CLUSTER, is_asked=True)
    exchange.reply(response)


def _may_write(exchange: Exchange, topic: str) -> bool:
    access = exchange.client.access
    return access is None or access.allows_writing(topic)


def _missing(broker: BrokerState, asked: Message, create_at: float | None) -> Message:
    """The response for a topic without a name, or with the name of no topic. `create_at`: the time;
    None: do not create it."""
    if asked.name is None:
        by_id = broker.topics.by_id(asked.topic_id)
        if by_id is not None:
            return _topic(by_id)
        return Message(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID,
            name=None,
            topic_id=asked.topic_id,
        )
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not is_name(asked.name):  # an invalid name will never be a topic
        code, create_at = ErrorCode.INVALID_TOPIC_EXCEPTION, None
    if create_at is not None:
        made = _made(broker, asked.name, create_at)
        if isinstance(made, Topic):
            return _topic(made)
        code = made
    return Message(error_code=code, name=asked.name, is_internal=asked.name in INTERNAL_TOPICS)


def _made(broker: BrokerState, name: str, now: float) -> Topic | ErrorCode:
    """Creates a topic. On failure returns an error code that clients of 0.8 know."""
    count = broker.config.num_partitions
    try:
        if name in INTERNAL_TOPICS:  # brokers create internal topics when they need them
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic = make(broker, name, count, {}, now)
    except ApiError as error:
        found = broker.topics.get(name)
        if found is not None:  # another client was faster
            return found
        LOG.info("topic %s is not created: %s", name[:249], error.message)
        return error.code
    except (OSError, StorageError) as error:
        message = "topic %s cannot be made: %s"
        broker.lines.write(LOG, now, logging.WARNING, "topic", message, name, error)
        return ErrorCode.LEADER_NOT_AVAILABLE  # the client asks again
    return topic


def _topic(topic: Topic) -> Message:
    return Message(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_partition(*item) for item in sorted(topic.partitions.items())],
    )


def _partition(index: int, partition: Partition) -> Message:
    """A partition. An offline one has no leader, but an offline replica."""
    leader, offline = partition.leader, []
    if partition.log.offline_reason is not None:
        offline = [partition.node_id]
        leader = None if leader == partition.node_id else leader
    return Message(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader is None else NONE,
        partition_index=index,
        leader_id=NO_LEADER if leader is None else leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=sorted(partition.isr),
        offline_replicas=offline,
    )
