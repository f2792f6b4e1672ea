"""DescribeLogDirs: the disk space of each partition."""

import shutil

from downconvert.broker.exchange import Exchange
from downconvert.broker.partition import Partition
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message

from .admin import each_once


def handle(broker: BrokerState, exchange: Exchange, _now: float) -> None:
    asked = exchange.request.body.topics
    path = broker.topics.log_dir.path
    wanted = None if asked is None else each_once((one.topic, one.partitions) for one in asked)
    topics = []
    for name, topic in broker.topics.items():
        if wanted is not None and name not in wanted:
            continue
        indices = None if wanted is None else set(wanted[name])
        partitions = [
            Message(partition_index=index, partition_size=size)
            for index, partition in sorted(topic.partitions.items())
            if (indices is None or index in indices) and (size := _size(partition)) is not None
        ]
        if partitions:
            topics.append(Message(name=name, partitions=partitions))
    response = Message(log_dir=str(path), topics=topics)
    try:
        usage = shutil.disk_usage(path)
        response.total_bytes, response.usable_bytes = usage.total, usage.free
    except OSError:
        response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    if broker.topics.log_dir.offline_reason is not None:
        response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    exchange.reply(Message(results=[response]))


def _size(partition: Partition) -> int | None:
    """Bytes of its records. None: it is being deleted."""
    try:
        return partition.size()
    except OSError:
        return None
