"""Committed offsets of groups survive restarts, with real logs."""

from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker, BrokerConfig, ErrorCode
from downconvert.broker.internal_topic import partition_of
from downconvert.broker.partition import Partition
from downconvert.internal_topics.group_records import (
    Committed,
    RecordKey,
    read_committed,
    write_key,
)
from downconvert.protocol.errors import ApiError
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from records import Columns, build
from tests.downconvert.broker.asking import ask, begin, response_of
from tests.downconvert.broker.offset_logs import (
    ABORT,
    COMMIT,
    commit_to,
    end,
    fetch,
    make_offsets,
    offsets_log,
)
from tests.downconvert.broker.offset_logs import commit as commit_at
from tests.downconvert.broker.writable import writable_broker

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
def test_committed_offsets_are_fetched(tmp_path: Path, version: int) -> None:
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


def test_a_read_only_broker_begins_with_the_stored_offsets_and_forgets_its_own(
    tmp_path: Path,
) -> None:
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
def test_impossible_commits_are_named_and_the_rest_is_stored(tmp_path: Path, version: int) -> None:
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
    joined = response_of(begin(broker, ApiKey.JoinGroup, 9, joining))
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


# --- transactions


@pytest.mark.parametrize("is_writable", [True, False])
def test_offsets_of_an_aborted_transaction_do_not_count(tmp_path: Path, is_writable: bool) -> None:
    make_offsets(tmp_path, 0)
    with writable_broker(tmp_path) as broker:
        log = offsets_log(broker)
        commit_to(log, 5, producer=1)
        end(log, COMMIT, producer=1)
        commit_to(log, 15, producer=1)
        commit_to(log, 7, group="h", producer=2)
        end(log, ABORT, producer=1, epoch=1)  # since 4.0 a marker has the next epoch
        end(log, ABORT, producer=2)
    broker = opened(tmp_path, is_writable=is_writable)
    assert fetch(broker) == (5, 0)
    assert fetch(broker, stable=True) == (5, 0)
    assert fetch(broker, "h") == (-1, 0)
    assert [one.group_id for one in ask(broker, ApiKey.ListGroups, 4, Message()).groups] == ["g"]
    broker.topics.log_dir.close()


@pytest.mark.parametrize("version", range(7, 11))
def test_offsets_of_an_open_transaction_are_unstable(tmp_path: Path, version: int) -> None:
    make_offsets(tmp_path, 0)
    with writable_broker(tmp_path) as broker:
        log = offsets_log(broker)
        commit_to(log, 5)
        commit_to(log, 15, producer=1)
    broker = opened(tmp_path, is_writable=False)
    if version < 10:  # later ones name topics by their ids
        assert fetch(broker, version=version) == (5, 0)
        assert fetch(broker, version=version, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    everything = Message(group_id="g", topics=None)
    body = Message(group_id="g", topics=None, groups=[everything], require_stable=True)
    said = ask(broker, ApiKey.OffsetFetch, version, body)
    (found,) = said.groups if version >= 8 else (said,)
    (one,) = found.topics[0].partitions
    assert one.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_the_later_one_of_a_commit_and_a_transaction_counts(tmp_path: Path) -> None:
    make_offsets(tmp_path, 0)
    with writable_broker(tmp_path) as broker:
        log = offsets_log(broker)
        commit_to(log, 5, producer=1)
        commit_to(log, 9, producer=2, group="h")
        commit_to(log, 7)
        commit_to(log, 8, group="h")
        commit_to(log, 10, producer=2, group="h")
        end(log, COMMIT, producer=1)
        end(log, COMMIT, producer=2)
    with writable_broker(tmp_path) as broker:
        assert (fetch(broker), fetch(broker, "h")) == ((7, 0), (10, 0))


def test_a_damaged_marker_ends_reading_of_its_partition(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_offsets(tmp_path, 0)
    with writable_broker(tmp_path) as broker:
        log = offsets_log(broker)
        commit_to(log, 5)
        commit_to(log, 15, producer=1)
        end(log, COMMIT, producer=1)
    (path,) = (tmp_path / "__consumer_offsets-0").glob("*.log")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    broker = opened(tmp_path, is_writable=False)
    assert fetch(broker) == (5, 0)
    assert "read up to its damage" in caplog.text
    assert "transactions that are still open" in caplog.text


# --- topics that are deleted


def test_a_deleted_topic_takes_the_groups_offsets_with_it(tmp_path: Path) -> None:
    make_offsets(tmp_path, 0, 1, 2, topics=("t", "u"))
    with writable_broker(tmp_path) as broker:
        for group in ("g", "h", "not loaded"):
            assert commit_at(broker, 10, group) == commit_at(broker, 4, group, ("u", 0)) == 0
        open_in = offsets_log(broker, partition_of("open", 3))
        commit_to(open_in, 10, group="open", producer=1)
    with writable_broker(tmp_path) as broker:
        assert fetch(broker, "g") == (10, 0)
        ask(broker, ApiKey.DeleteTopics, 1, Message(topic_names=["t"]))
        broker.topics.create("t", 1, {}, 5)
        assert [fetch(broker, one)[0] for one in ("g", "h", "not loaded")] == [-1, -1, -1]
        assert fetch(broker, "open", stable=True) == (-1, 0)
        end(offsets_log(broker, partition_of("open", 3)), COMMIT, producer=1)
    with writable_broker(tmp_path) as broker:
        groups = ("g", "h", "not loaded", "open")
        assert [fetch(broker, one) for one in groups] == [(-1, 0)] * 4
        assert [fetch(broker, one, ("u", 0))[0] for one in groups] == [4, 4, 4, -1]


def test_a_new_topic_has_no_offsets_though_a_crash_kept_the_old_ones(tmp_path: Path) -> None:
    make_offsets(tmp_path, 0)
    with writable_broker(tmp_path) as broker:
        commit_at(broker, 10)
        broker.topics.delete("t")  # and no tombstones
    with writable_broker(tmp_path) as broker:
        new = Message(name="t", num_partitions=1, replication_factor=1)
        asked = Message(topics=[new], validate_only=True)
        ask(broker, ApiKey.CreateTopics, 4, asked)
        assert fetch(broker) == (10, 0)
        asked.validate_only = False
        assert ask(broker, ApiKey.CreateTopics, 4, asked).topics[0].error_code == 0
        assert fetch(broker) == (-1, 0)
    with writable_broker(tmp_path) as broker:
        assert fetch(broker) == (-1, 0)


def test_many_offsets_of_a_topic_go_in_batches_that_fit(tmp_path: Path) -> None:
    make_offsets(tmp_path, 0)
    with writable_broker(tmp_path, message_max_bytes=100_000) as broker:
        log = offsets_log(broker)
        for number in range(30):
            for index in range(100):
                commit_to(log, 1, group=f"{number}" + "x" * 100, at=("t", index))
    with writable_broker(tmp_path, message_max_bytes=150_000) as broker:
        ask(broker, ApiKey.DeleteTopics, 1, Message(topic_names=["t"]))
        assert broker.groups.manager.ids() == []
    with writable_broker(tmp_path) as broker:
        assert broker.groups.manager.ids() == []


def test_offsets_of_a_topic_that_kafka_calls_another_by_its_id_do_not_count(
    tmp_path: Path,
) -> None:
    make_offsets(tmp_path, 0)

    def value(offset: int, topic_id: bytes) -> bytes:
        start = bytes.fromhex("0004") + offset.to_bytes(8) + bytes.fromhex("ffffffff 01")
        return start + bytes(8) + bytes([1, 0, 16]) + topic_id

    with writable_broker(tmp_path) as broker:
        mine = broker.topics["t"].id
        assert read_committed(value(3, mine)) == Committed(3, -1, "", 0, topic_id=mine)
        for group, topic_id in (("g", mine), ("h", b"?" * 16)):
            key = write_key(RecordKey(group, ("t", 0)))
            log = offsets_log(broker)
            columns = Columns([log.end_offset], [0], [key], [value(3, topic_id)])
            log.writer.append(build(columns, magic=2))
    with writable_broker(tmp_path) as broker:
        assert (fetch(broker, "g"), fetch(broker, "h")) == ((3, 0), (-1, 0))


@pytest.mark.parametrize(
    ("of_append", "of_commit", "of_group"),
    [
        ("MESSAGE_TOO_LARGE", "INVALID_COMMIT_OFFSET_SIZE", "UNKNOWN_SERVER_ERROR"),
        ("RECORD_LIST_TOO_LARGE", "INVALID_COMMIT_OFFSET_SIZE", "UNKNOWN_SERVER_ERROR"),
        ("KAFKA_STORAGE_ERROR", "NOT_COORDINATOR", "NOT_COORDINATOR"),
        ("NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR", "NOT_COORDINATOR"),
        ("CORRUPT_MESSAGE", "CORRUPT_MESSAGE", "CORRUPT_MESSAGE"),
    ],
)
def test_an_append_that_fails_has_kafkas_code_for_commits_and_for_groups(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    of_append: str,
    of_commit: str,
    of_group: str,
) -> None:
    def fail(*_: object) -> None:
        raise ApiError(ErrorCode[of_append])

    broker = with_topic(tmp_path)
    commit(broker, 2, generation_id_or_member_epoch=-1)
    offers = Message(name="range", metadata=b"")
    body = Message(group_id="g", session_timeout_ms=9000, protocol_type="x", protocols=[offers])
    joined = ask(broker, ApiKey.JoinGroup, 0, body)
    monkeypatch.setattr(Partition, "append", fail)
    ids = {"generation_id": joined.generation_id, "member_id": joined.member_id}
    synced = ask(broker, ApiKey.SyncGroup, 0, Message(group_id="g", **ids, assignments=[]))
    assert ErrorCode(synced.error_code).name == of_group
    one = Message(partition_index=1, committed_offset=8)
    body = Message(group_id="alone", topics=[Message(name="t", partitions=[one])])
    (topic,) = ask(broker, ApiKey.OffsetCommit, 2, body).topics
    assert ErrorCode(topic.partitions[0].error_code).name == of_commit
    monkeypatch.undo()
    assert fetched(broker, 2)[1] == (1, 7, "said", 0)
    broker.topics.log_dir.close()


def test_a_full_disk_keeps_no_topic_and_no_offset_of_it_while_the_broker_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make_offsets(tmp_path, 0)
    with writable_broker(tmp_path) as broker:
        commit_at(broker, 10)

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        partition = broker.topics["__consumer_offsets"].partitions[0]
        monkeypatch.setattr(partition, "append", full)
        said = ask(broker, ApiKey.DeleteTopics, 1, Message(topic_names=["t"]))
        assert [one.error_code for one in said.responses] == [0]
        monkeypatch.undo()
        broker.topics.create("t", 1, {}, 5)
        assert fetch(broker) == (-1, 0)
        assert "No space left" in caplog.text
