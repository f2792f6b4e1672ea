"""The fast path of Produce: one v2 batch for one partition, without a transaction, that waits for
no other replica.

Not here: all other requests (produce.py), checking records (appending.py)."""

from functools import cache
from typing import Any, Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.topics import INTERNAL_TOPICS
from downconvert.protocol.errors import ApiError
from downconvert.protocol.plain_values import Read, Respond, reader, writer
from downconvert.serving.appending import prepare_ordinary
from downconvert.storage import StorageError
from records.formats import Codec

from .fast_path import FastPath
from .produce import ALL, BATCHES_VERSION, LEADER, TOPIC_IDS_VERSION, ZSTD_VERSION

ASKED: Final = ("acks", "name", "topic_id", "index", "records")
ALWAYS: Final = {"transactional_id": None, "topic_data": 1, "partition_data": 1}
TOPIC: Final = ("name", "topic_id")
PARTITION: Final = ("index", "base_offset", "log_append_time_ms", "log_start_offset")


@cache
def read(version: int) -> Read:
    return reader("ProduceRequest", version, ASKED, ALWAYS)


@cache
def respond(version: int) -> Respond:
    fixed = {"responses": 1, "partition_responses": 1}
    return writer("ProduceResponse", version, TOPIC + PARTITION, fixed)


def answer(broker: BrokerState, exchange: Exchange, values: tuple[Any, ...], now: float) -> bool:
    """Appends the records. See `FastPath.answer`."""
    acks, name, topic_id, index, records = values
    version = exchange.request.version
    topics = broker.topics
    topic = topics.by_name.get(name) if version < TOPIC_IDS_VERSION else topics.by_id(topic_id)
    partition = None if topic is None else topic.partitions.get(index)
    if topic is None or partition is None or topic.name in INTERNAL_TOPICS:
        return False
    if not broker.config.is_writable or exchange.quota is not None:
        return False
    if acks != LEADER and (acks != ALL or len(partition.replicas) > 1):
        return False
    now_ms = broker.time_of_day.ms(now)
    prepared = prepare_ordinary(records, topic.append_config, now_ms)
    if prepared is None:
        return False
    batch, start_offset = prepared.batches[0], partition.start_offset
    if version < ZSTD_VERSION and batch.codec is Codec.ZSTD:
        return False
    try:  # it refuses transactional batches, and partitions that this broker does not lead
        base_offset, _, append_time = partition.append(prepared, now, now_ms)
    except (ApiError, OSError, StorageError):
        return False
    broker.purgatory.notify(partition.key)
    result = name, topic_id, index, base_offset, append_time, start_offset
    exchange.finish(respond(version)(exchange.correlation_id, *result))
    return True


FAST_PATH: Final = FastPath(range(BATCHES_VERSION, 14), read, answer)
