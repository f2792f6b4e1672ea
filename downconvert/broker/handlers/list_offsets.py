"""ListOffsets: the start and end of a partition, and the offset for a timestamp.

Version 0 has no record timestamps. It gets the first offsets of segments whose files were not
changed after a time. From version 1 on, the response is one record's offset.

Not here: searching (storage)."""

from collections import Counter
from collections.abc import Generator, Iterator
from typing import Final

from downconvert.access.replica_ids import CONSUMER, DEBUG_CONSUMER
from downconvert.broker.exchange import Exchange
from downconvert.broker.fetch.fetch_request import READ_COMMITTED, check_isolation
from downconvert.broker.partition import Partition
from downconvert.broker.replication.leader_epochs import NO_EPOCH
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import Message
from downconvert.storage import Segment, StorageError
from records import RecordsError

# Special values instead of timestamps.
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
SINCE: Final = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
OFFSET_NOT_AVAILABLE_SINCE: Final = 5
UNKNOWN: Final = -1  # an offset, a timestamp
PARTITIONS_A_TURN: Final = 16


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    exchange.work_on(_responses(broker, exchange, broker.time_of_day.at(now)), now)


def _responses(
    broker: BrokerState, exchange: Exchange, now: float
) -> Generator[None, None, Message]:
    """Looks up some partitions in each turn, because a search by time reads the log."""
    topics, version = exchange.request.body.topics, exchange.request.version
    counts = Counter(
        (topic.name, one.partition_index) for topic in topics for one in topic.partitions
    )
    found: dict[tuple[str, int, int, int], Message] = {}  # repeated questions are looked up once
    responses = []
    for topic in topics:
        results = []
        for one in topic.partitions:
            asked = topic.name, one.partition_index, one.timestamp, one.max_num_offsets
            if asked not in found:
                if found and not len(found) % PARTITIONS_A_TURN:
                    yield
                is_twice = bool(version) and counts[topic.name, one.partition_index] > 1
                found[asked] = _result(broker, exchange, topic.name, one, now, is_twice=is_twice)
            results.append(found[asked])
        responses.append(Message(name=topic.name, partitions=results))
    return Message(topics=responses)


def _result(
    broker: BrokerState,
    exchange: Exchange,
    topic: str,
    asked: Message,
    now: float,
    *,
    is_twice: bool,
) -> Message:
    """The offset for one partition, or its error. `is_twice`: whether the request names the
    partition again."""
    result = Message(partition_index=asked.partition_index)
    try:
        check_isolation(exchange.request.body.isolation_level)
        if is_twice:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        _check_timestamp(asked.timestamp, exchange.request.version)
        partition = broker.topics.partition(topic, asked.partition_index)
        if partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        _answer(partition, asked, exchange, now, result)
    except ApiError as error:
        result.error_code = error.code
    except (StorageError, OSError):
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    except RecordsError:
        result.error_code = ErrorCode.CORRUPT_MESSAGE
    return result


def _check_timestamp(timestamp: int, version: int) -> None:
    if timestamp < 0 and version < SINCE.get(timestamp, version + 1):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


def _answer(
    partition: Partition, asked: Message, exchange: Exchange, now: float, result: Message
) -> None:
    body, version = exchange.request.body, exchange.request.version
    timestamp = asked.timestamp
    partition.check(asked.current_leader_epoch, leader=body.replica_id != DEBUG_CONSUMER)
    if version == 0:
        result.old_style_offsets = segment_offsets(
            partition, timestamp, asked.max_num_offsets, body.replica_id, now
        )
        return
    is_consumer = body.replica_id == CONSUMER
    bound = partition.end_offset
    if is_consumer:
        bound = partition.bound(committed=body.isolation_level == READ_COMMITTED)
    is_certain = not is_consumer or partition.is_high_watermark_certain
    if timestamp == LATEST:
        if not is_certain:
            raise ApiError(_not_available(version))
        result.offset, result.leader_epoch = bound, partition.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        result.offset = partition.start_offset
        result.leader_epoch = _epoch_of(partition, result.offset)
    elif timestamp not in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):  # all storage is local
        found = find(partition, timestamp)
        if found is not None and found[0] < bound:
            result.offset, result.timestamp = found
            result.leader_epoch = _epoch_of(partition, result.offset)
        elif not is_certain:
            raise ApiError(_not_available(version))


def segment_offsets(
    partition: Partition, timestamp: int, count: int, replica_id: int, now: float
) -> list[int]:
    """The first offsets of the segments whose files were not changed after `timestamp`, descending,
    at most `count`. The log's end counts as the youngest.

    A consumer gets the high watermark instead of offsets above it."""
    with partition.lock:
        start, end = partition.start_offset, partition.end_offset
        segments = list(partition.log.segments)
        found = [
            (max(segment.base_offset, start), segment.path().stat().st_mtime_ns // 1_000_000)
            for segment in segments
        ]
        if segments and partition.log.end_of(segments[-1]):
            found.append((end, int(now * 1000)))
    if timestamp == EARLIEST:
        found = found[:1]
    elif timestamp != LATEST:
        while found and found[-1][1] > timestamp:
            found.pop()
    offsets = sorted((offset for offset, _ in found[-count:] if count > 0), reverse=True)
    high_watermark = partition.high_watermark
    if replica_id == CONSUMER and offsets and offsets[0] > high_watermark:
        return [high_watermark, *(offset for offset in offsets if offset <= high_watermark)]
    return offsets


def find(partition: Partition, timestamp: int) -> tuple[int, int] | None:
    """Offset and timestamp of the first record that is not older, or of the youngest of all."""
    if timestamp == MAX_TIMESTAMP:
        timestamp = max_timestamp(partition)
        if timestamp == UNKNOWN:
            return None
    with partition.lock:
        record = partition.log.find_timestamp(timestamp)
    return None if record is None else (record.offset, record.timestamp)


def max_timestamp(partition: Partition) -> int:
    """The highest timestamp of a record. -1: no record has one.

    Time indexes narrow the search. An index entry may be that of a marker, which does not count as
    a record. The index of the last segment covers only its beginning, so its writer is asked,
    too."""
    with partition.lock:
        segments = list(partition.log.segments)
        claims = {segment.base_offset: segment.max_timestamp() for segment in segments[:-1]}
        if segments and partition.log.is_writable:
            last = segments[-1]
            claims[last.base_offset] = partition.log.writer.max_timestamp(last)
    found = UNKNOWN
    for segment in segments:
        claimed = claims.get(segment.base_offset)
        if claimed is None or claimed > found:
            found = max((found, *_timestamps(partition, segment, claimed)))
    return found


def _timestamps(partition: Partition, segment: Segment, claimed: int | None) -> Iterator[int]:
    """Timestamps of a segment, including the highest. `claimed`: the highest one in the index, if
    the segment no longer grows."""
    with partition.lock:
        start, end = partition.start_offset, partition.log.end_of(segment)
        known = segment.max_timestamp() if claimed is None else claimed
        first = None if known is None else segment.find_timestamp(known, start, end)
        if first is not None:
            yield first.timestamp
            if claimed is not None:
                return
            start = first.offset
        records = segment.slice_from(start, end)
    for header in records.batches():
        if not header.is_control and header.last_offset >= start:
            yield header.max_timestamp


def _epoch_of(partition: Partition, offset: int) -> int:
    """The epoch in which an offset was written. -1: unknown."""
    epoch = NO_EPOCH
    for entry in partition.epochs():
        if entry.start_offset > offset:
            break
        epoch = entry.epoch
    return epoch


def _not_available(version: int) -> ErrorCode:
    if version < OFFSET_NOT_AVAILABLE_SINCE:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return ErrorCode.OFFSET_NOT_AVAILABLE
