"""What groups commit, over restarts, with real logs."""

from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker, BrokerConfig, ErrorCode
from downconvert.broker.groups.offset_records import (
    Committed,
    Key,
    read_committed,
    read_key,
    write_committed,
    write_key,
)
from downconvert.broker.groups.offsets import partition_of
from downconvert.broker.wire.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import answer, ask, begin

VERSIONS = range(11)


def opened(path: Path, **config: Any) -> Broker:
    log_dir = LogDir.open(path, writable=config.get("is_writable", True))
    defaults = {"is_writable": True, "group_initial_rebalance_delay_ms": 0}
    return Broker(log_dir, BrokerConfig(**{**defaults, **config}))


def with_topic(path: Path) -> Broker:
    broker = opened(path)
    broker.topics.create("t", 2, {}, 0)
    return broker


def commit(broker: Broker, version: int, offset: int = 7, **fields: Any) -> Message:
    partition = Message(
        partition_index=1,
        committed_offset=offset,
        committed_leader_epoch=3,
        committed_metadata="said",
    )
    topic = Message(name="t", topic_id=broker.topics["t"].id, partitions=[partition])
    body = Message(group_id="g", topics=[topic])
    body.__dict__.update(fields)
    return ask(broker, ApiKey.OffsetCommit, version, body, now=1000.0)


def fetched(broker: Broker, version: int, *, everything: bool = False) -> list[tuple[Any, ...]]:
    asked = Message(name="t", topic_id=broker.topics["t"].id, partition_indexes=[0, 1])
    topics = None if everything else [asked]
    group = Message(group_id="g", topics=topics)
    body = Message(group_id="g", topics=topics, groups=[group])
    said = ask(broker, ApiKey.OffsetFetch, version, body)
    (found,) = said.groups if version >= 8 else (said,)
    assert found.error_code == 0
    return [
        (one.partition_index, one.committed_offset, one.metadata, one.error_code)
        for topic in found.topics
        for one in topic.partitions
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_committed_is_fetched(tmp_path: Path, version: int) -> None:
    broker = with_topic(tmp_path)
    said = commit(broker, version)
    assert [one.error_code for one in said.topics[0].partitions] == [0]
    assert fetched(broker, version) == [(0, -1, "", 0), (1, 7, "said", 0)]
    if version >= 2:
        assert fetched(broker, version, everything=True) == [(1, 7, "said", 0)]
    broker.topics.log_dir.close()


def test_offsets_are_there_when_the_broker_starts_again(tmp_path: Path) -> None:
    broker = with_topic(tmp_path)
    commit(broker, 8)
    broker.topics.log_dir.close()
    for _ in range(2):
        broker = opened(tmp_path)
        assert fetched(broker, 8) == [(0, -1, "", 0), (1, 7, "said", 0)]
        broker.topics.log_dir.close()


def test_a_broker_that_only_reads_begins_with_what_is_there_and_forgets(tmp_path: Path) -> None:
    broker = with_topic(tmp_path)
    commit(broker, 8)
    broker.topics.log_dir.close()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    broker = opened(tmp_path, is_writable=False)
    assert fetched(broker, 8) == [(0, -1, "", 0), (1, 7, "said", 0)]
    commit(broker, 8, offset=9)
    assert fetched(broker, 8) == [(0, -1, "", 0), (1, 9, "said", 0)]
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    broker = opened(tmp_path, is_writable=False)
    assert fetched(broker, 8) == [(0, -1, "", 0), (1, 7, "said", 0)]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_cannot_be_committed_is_named_and_the_rest_is_kept(
    tmp_path: Path, version: int
) -> None:
    broker = with_topic(tmp_path)
    partitions = [
        Message(partition_index=0, committed_offset=5, committed_metadata=None),
        Message(partition_index=1, committed_offset=5, committed_metadata="x" * 5000),
        Message(partition_index=9, committed_offset=5, committed_metadata=""),
    ]
    topic = Message(name="t", topic_id=broker.topics["t"].id, partitions=partitions)
    said = commit(broker, version, topics=[topic])
    assert [one.error_code for one in said.topics[0].partitions] == [
        ErrorCode.NONE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert fetched(broker, version) == [(0, 5, "", 0), (1, -1, "", 0)]
    broker.topics.log_dir.close()


def test_a_deleted_group_is_gone_for_good(tmp_path: Path) -> None:
    broker = with_topic(tmp_path)
    commit(broker, 8)
    said = ask(broker, ApiKey.DeleteGroups, 2, Message(groups_names=["g", "h"]))
    assert [(one.group_id, one.error_code) for one in said.results] == [
        ("g", ErrorCode.NONE),
        ("h", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert fetched(broker, 8) == [(0, -1, "", 0), (1, -1, "", 0)]
    broker.topics.log_dir.close()
    broker = opened(tmp_path)
    assert fetched(broker, 8) == [(0, -1, "", 0), (1, -1, "", 0)]
    broker.topics.log_dir.close()


def test_members_stay_members_when_the_broker_starts_again(tmp_path: Path) -> None:
    broker = with_topic(tmp_path)
    joining = Message(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        protocol_type="consumer",
        protocols=[Message(name="range", metadata=b"all")],
        group_instance_id="one",
    )
    joined = answer(begin(broker, ApiKey.JoinGroup, 9, joining))
    claim = Message(
        group_id="g",
        generation_id=1,
        member_id=joined.member_id,
        group_instance_id="one",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[Message(member_id=joined.member_id, assignment=b"yours")],
    )
    assert ask(broker, ApiKey.SyncGroup, 5, claim).assignment == b"yours"
    broker.topics.log_dir.close()

    broker = opened(tmp_path)
    assert ask(broker, ApiKey.Heartbeat, 4, claim, now=100.0).error_code == 0
    del claim.assignments
    assert ask(broker, ApiKey.SyncGroup, 5, claim, now=101.0).assignment == b"yours"
    broker.tick(200.0)  # nothing has been heard of it
    late = ask(broker, ApiKey.Heartbeat, 4, claim, now=200.0)
    assert late.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    broker.topics.log_dir.close()


@pytest.mark.parametrize(
    ("group_id", "hashed"),
    [("", 0), ("g", 103), ("ab", 97 * 31 + 98), ("ü", 252), ("\U0001f600", 0xD83D * 31 + 0xDE00)],
)
def test_groups_are_in_the_partitions_that_kafka_looks_for_them_in(
    group_id: str, hashed: int
) -> None:
    assert partition_of(group_id, 2**31) == hashed
    assert partition_of(group_id, 50) == hashed % 50


def test_records_are_byte_for_byte_as_kafka_writes_them() -> None:
    key = Key("g", ("t", 1))
    assert write_key(key) == bytes.fromhex("0001 0001 67 0001 74 00000001")
    assert read_key(write_key(key)) == key
    assert read_key(b"\0\0" + write_key(key)[2:]) == key  # as 0.8.2 wrote them
    committed = Committed(7, 3, "m", 1000)
    written = bytes.fromhex("0003 0000000000000007 00000003 0001 6d 00000000000003e8")
    assert write_committed(committed) == written
    assert read_committed(written) == committed


@pytest.mark.parametrize(
    "value",
    [
        "0000 0000000000000007 0001 6d 00000000000003e8",
        "0001 0000000000000007 0001 6d 00000000000003e8 ffffffffffffffff",
        "0002 0000000000000007 0001 6d 00000000000003e8",
        "0003 0000000000000007 ffffffff 0001 6d 00000000000003e8",
        "0004 0000000000000007 ffffffff 02 6d 00000000000003e8 00",
    ],
)
def test_offsets_of_every_version_are_read(value: str) -> None:
    assert read_committed(bytes.fromhex(value)) == Committed(7, -1, "m", 1000)
