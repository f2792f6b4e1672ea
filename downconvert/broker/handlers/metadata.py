"""Metadata: which topics there are, with which partitions, and which broker leads them.

Version 0 asks for all topics with an empty list, later ones with null [MetadataRequest]."""

from downconvert.broker.errors import ErrorCode
from downconvert.broker.exchange import Exchange
from downconvert.broker.partition import Partition
from downconvert.broker.state import BrokerState
from downconvert.broker.topics import Topic
from downconvert.broker.wire.schemas import Message

NOT_ASKED = -(2**31)  # authorized operations
NO_LEADER = -1


def handle(broker: BrokerState, exchange: Exchange, _now: float) -> None:
    body, version = exchange.request.body, exchange.request.version
    asked = body.topics
    if asked is None or (version == 0 and not asked):
        topics = [_topic(topic) for topic in broker.topics.values()]
    else:
        topics = [_asked(broker, one) for one in asked]
    client = exchange.client
    exchange.reply(
        Message(
            brokers=[Message(node_id=broker.config.node_id, host=client.host, port=client.port)],
            cluster_id=broker.config.cluster_id,
            controller_id=broker.config.node_id,
            topics=topics,
            cluster_authorized_operations=NOT_ASKED,
        )
    )


def _asked(broker: BrokerState, asked: Message) -> Message:
    if asked.name is None:
        by_id = broker.topics.by_id(asked.topic_id)
        if by_id is not None:
            return _topic(by_id)
        return Message(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID,
            name=None,
            topic_id=asked.topic_id,
            topic_authorized_operations=NOT_ASKED,
        )
    topic = broker.topics.get(asked.name)
    if topic is not None:
        return _topic(topic)
    return Message(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        name=asked.name,
        topic_authorized_operations=NOT_ASKED,
    )


def _topic(topic: Topic) -> Message:
    return Message(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_partition(*item) for item in sorted(topic.partitions.items())],
        topic_authorized_operations=NOT_ASKED,
    )


def _partition(index: int, partition: Partition) -> Message:
    """One that is offline has no leader, but a replica that is offline."""
    leader, offline = partition.leader, []
    if partition.log.offline_reason is not None:
        offline = [partition.node_id]
        leader = None if leader == partition.node_id else leader
    return Message(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader is None else ErrorCode.NONE,
        partition_index=index,
        leader_id=NO_LEADER if leader is None else leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=sorted(partition.isr),
        offline_replicas=offline,
    )
