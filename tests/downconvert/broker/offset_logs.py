"""`__consumer_offsets` as other brokers leave it: with transactions, without some partitions.

Not here: what is read from it (test_offsets.py, test_offsets_topic.py)."""

from pathlib import Path
from typing import Any

from downconvert.broker import Broker
from downconvert.broker.topics import OFFSETS_TOPIC
from downconvert.internal_topics.group_records import (
    Committed,
    Partition,
    RecordKey,
    write_committed,
    write_key,
)
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import Log
from records import Columns, build, build_marker
from records.batches.control import ControlRecordType
from records.formats import V2

from .asking import ask
from .writable import writable_broker

COMMIT, ABORT = ControlRecordType.COMMIT, ControlRecordType.ABORT
AT: Partition = ("t", 0)


def commit_to(
    log: Log,
    offset: int | None,
    *,
    group: str = "g",
    at: Partition = AT,
    producer: int | None = None,
    epoch: int = 0,
    transactional: bool = True,
) -> None:
    """Appends a commit, or a tombstone; by `producer`, if there is one, and in its transaction."""
    value = None if offset is None else write_committed(Committed(offset, commit_time=0))
    columns = Columns([log.end_offset], [0], [write_key(RecordKey(group, at))], [value])
    options: dict[str, Any] = {}
    if producer is not None:
        options = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": 0}
        options["transactional"] = transactional
    log.writer.append(build(columns, magic=V2, **options))


def end(log: Log, kind: ControlRecordType, *, producer: int, epoch: int = 0) -> None:
    """Appends a transaction's marker."""
    options = {"producer_id": producer, "producer_epoch": epoch}
    log.writer.append(build_marker(kind, offset=log.end_offset, timestamp=0, **options))


def offsets_log(broker: Broker, index: int = 0) -> Log:
    return broker.topics[OFFSETS_TOPIC].partitions[index].log


def make_offsets(path: Path, *indices: int, topics: tuple[str, ...] = ("t",)) -> None:
    """A directory with these partitions of `__consumer_offsets`, and with topics of one."""
    with writable_broker(path, *topics) as broker:
        broker.topics.create(OFFSETS_TOPIC, max(indices) + 1, {}, 0)
        for index in set(range(max(indices))) - set(indices):
            name = broker.topics[OFFSETS_TOPIC].partitions[index].name
            broker.topics.log_dir.logs.delete(name)
        broker.topics.refresh()


def fetch(
    broker: Broker, group: str = "g", at: Partition = AT, *, stable: bool = False, version: int = 7
) -> tuple[int, int]:
    """The offset and the error code that OffsetFetch gives."""
    topics = [Message(name=at[0], partition_indexes=[at[1]])]
    asked = Message(group_id=group, topics=topics)
    body = Message(group_id=group, topics=topics, groups=[asked], require_stable=stable)
    response = ask(broker, ApiKey.OffsetFetch, version, body)
    (found,) = response.groups if version >= 8 else (response,)
    (one,) = found.topics[0].partitions
    return one.committed_offset, one.error_code


def commit(broker: Broker, offset: int, group: str = "g", at: Partition = AT) -> int:
    """The error code that OffsetCommit gives."""
    partition = Message(partition_index=at[1], committed_offset=offset, committed_metadata="")
    body = Message(group_id=group, topics=[Message(name=at[0], partitions=[partition])])
    (topic,) = ask(broker, ApiKey.OffsetCommit, 8, body, now=1000.0).topics
    code: int = topic.partitions[0].error_code
    return code
