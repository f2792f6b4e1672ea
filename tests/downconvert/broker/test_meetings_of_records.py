"""Records are what was promised where two mechanisms meet: readers, transactions, deletions, cuts.

Not here: rates, sessions and groups (test_meetings_of_clients.py)."""

import time
from pathlib import Path

import pytest

from downconvert.broker.server import Server
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import Log, LogConfig
from downconvert.storage.cleaning.compact_log import compact
from records import MemoryRecords, Record, TimestampType, build, read
from records.formats import V2
from records.units import KiB, MiB
from tests.downconvert.storage import logs
from tests.downconvert.storage.logs import UNSYNCED

from .asking import parsed
from .fetching import broker_of
from .meeting import (
    TOPIC,
    batch,
    delete_records,
    delete_topic,
    fetch,
    make_anew,
    offsets_in,
    partition_of,
    produce,
    produced,
    serving,
)
from .talking import Talk, serving_broker

SMALL_BUFFER = 16 * KiB
OUT_OF_RANGE, OUT_OF_ORDER = 1, 45
SEGMENTS = LogConfig(segment_bytes=MiB)


def slowly(server: Server, version: int) -> Talk:
    """A client that has asked for everything, and reads nothing of it yet."""
    talk = Talk(server.address, receive_buffer=SMALL_BUFFER)
    talk.send(ApiKey.Fetch, version, fetch(0))
    time.sleep(0.3)  # until the socket is full
    return talk


# --- a client that reads slowly, and records that go away meanwhile


def fill(server: Server, size: int = 6 * MiB) -> None:
    with Talk(server.address) as talk:
        for _ in range(size // (400 * KiB)):
            produced(talk, batch(count=8, size=50 * KiB))


@pytest.mark.parametrize("version", [3, 11])
@pytest.mark.parametrize("how", ["records", "topic", "compaction"])
def test_a_slow_client_gets_all_that_it_was_promised(
    tmp_path: Path, version: int, how: str
) -> None:
    with serving(tmp_path, log_config=SEGMENTS) as (broker, server):
        fill(server)
        partition = broker.topics[TOPIC].partitions[0]
        end = partition.end_offset
        with slowly(server, version) as slow, Talk(server.address) as talk:
            if how == "records":
                delete_records(talk, end)
            elif how == "topic":
                delete_topic(talk)
                assert TOPIC not in broker.topics
            else:
                with partition.lock:
                    compact(partition.log, SEGMENTS, now=int(time.time() * 1000))
                left = sum(one.size for one in partition.log.segments)
                assert left < 2 * MiB
            found = offsets_in(parsed(ApiKey.Fetch, version, slow.receive()))
            assert found == list(range(len(found)))
            assert len(found) >= 8


# --- a transaction, and records or a topic that go away


def begin_transaction(talk: Talk, records: int) -> tuple[int, int]:
    made = talk.ask(
        ApiKey.InitProducerId,
        1,
        Message(transactional_id="x", transaction_timeout_ms=60_000),
    )
    who = made.producer_id, made.producer_epoch
    topics = [Message(name=TOPIC, partitions=[0])]
    talk.ask(
        ApiKey.AddPartitionsToTxn,
        1,
        Message(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=who[0],
            v3_and_below_producer_epoch=who[1],
            v3_and_below_topics=topics,
        ),
    )
    send_in_transaction(talk, who, records)
    return who


def send_in_transaction(talk: Talk, who: tuple[int, int], records: int, sequence: int = 0) -> None:
    for number in range(sequence, sequence + records):
        produced(
            talk,
            batch(
                producer_id=who[0], producer_epoch=who[1], base_sequence=number, transactional=True
            ),
            transactional_id="x",
        )


def end_transaction(talk: Talk, who: tuple[int, int], *, commits: bool = True) -> int:
    body = Message(
        transactional_id="x", producer_id=who[0], producer_epoch=who[1], committed=commits
    )
    code: int = talk.ask(ApiKey.EndTxn, 1, body).error_code
    return code


def committed(talk: Talk, offset: int) -> Message:
    return partition_of(talk.ask(ApiKey.Fetch, 11, fetch(offset, isolation_level=1)))


def test_records_of_an_open_transaction_may_be_deleted(tmp_path: Path) -> None:
    """A consumer of committed records then begins at the new start, and goes on afterwards."""
    with serving(tmp_path) as (_, server), Talk(server.address) as talk:
        who = begin_transaction(talk, 4)
        delete_records(talk, 2)
        found = committed(talk, 2)
        assert (found.error_code, found.log_start_offset, len(found.records)) == (0, 2, 0)
        assert found.last_stable_offset == 2
        assert end_transaction(talk, who) == 0
        found = committed(talk, 2)
        assert (found.error_code, found.last_stable_offset) == (0, 5)
        assert [one.offset for one in read(MemoryRecords(bytes(found.records)))] == [2, 3]


def test_a_transaction_ends_though_its_topic_was_made_anew(tmp_path: Path) -> None:
    with serving(tmp_path) as (broker, server), Talk(server.address) as talk:
        who = begin_transaction(talk, 2)
        make_anew(talk)
        produced(talk, batch())
        assert end_transaction(talk, who) == 0
        found = committed(talk, 0)
        end = broker.topics[TOPIC].partitions[0].end_offset
        assert (found.error_code, found.last_stable_offset) == (0, end)
        assert [one.offset for one in read(MemoryRecords(bytes(found.records)))] == [0]


def test_the_rest_of_an_aborted_transaction_is_marked_as_aborted(tmp_path: Path) -> None:
    """The same holds if its first records were deleted."""
    with serving(tmp_path) as (_, server), Talk(server.address) as talk:
        who = begin_transaction(talk, 4)
        delete_records(talk, 2)
        assert end_transaction(talk, who, commits=False) == 0
        delete_records(talk, 3)
        found = committed(talk, 3)
        assert [one.producer_id for one in found.aborted_transactions] == [who[0]]
        assert found.last_stable_offset == 5


@pytest.mark.parametrize("restarts", [False, True])
def test_offsets_of_a_transaction_do_not_count_in_a_topic_that_was_made_anew(
    tmp_path: Path, restarts: bool
) -> None:
    with serving(tmp_path) as (_, server), Talk(server.address) as talk:
        who = begin_transaction(talk, 1)
        names = {"transactional_id": "x", "producer_id": who[0], "producer_epoch": who[1]}
        assert not talk.ask(ApiKey.AddOffsetsToTxn, 1, Message(**names, group_id="g")).error_code
        offset = Message(partition_index=0, committed_offset=7, committed_metadata="")
        topics = [Message(name=TOPIC, partitions=[offset])]
        body = Message(**names, group_id="g", topics=topics)
        response = talk.ask(ApiKey.TxnOffsetCommit, 1, body)
        assert not response.topics[0].partitions[0].error_code
        make_anew(talk)
        assert end_transaction(talk, who) == 0
        assert fetched_offset(talk) == -1
    if restarts:
        with serving(tmp_path) as (_, server), Talk(server.address) as talk:
            assert fetched_offset(talk) == -1


def fetched_offset(talk: Talk) -> int:
    body = Message(group_id="g", topics=[Message(name=TOPIC, partition_indexes=[0])])
    response = talk.ask(ApiKey.OffsetFetch, 5, body)
    found: int = response.topics[0].partitions[0].committed_offset
    return found


def test_a_producer_goes_on_after_all_of_its_records_were_deleted_and_a_restart(
    tmp_path: Path,
) -> None:
    def send(talk: Talk, sequence: int) -> int:
        sent = batch(producer_id=7, producer_epoch=0, base_sequence=sequence)
        response = talk.ask(ApiKey.Produce, 8, produce(sent))
        code: int = response.responses[0].partition_responses[0].error_code
        return code

    with serving(tmp_path) as (_, server), Talk(server.address) as talk:
        assert [send(talk, number) for number in range(3)] == [0, 0, 0]
        delete_records(talk, 3)
    with serving(tmp_path) as (_, server), Talk(server.address) as talk:
        assert send(talk, 4) == OUT_OF_ORDER
        assert send(talk, 3) == 0


@pytest.mark.parametrize("timestamp", [-3, 1])
def test_a_search_by_time_finds_no_deleted_record(tmp_path: Path, timestamp: int) -> None:
    with serving(tmp_path) as (_, server), Talk(server.address) as talk:
        for time_ms in (500, 900, 300, 200):
            record = Record(0, time_ms, TimestampType.CREATE, None, b"v")
            produced(talk, build([record], magic=V2))
        delete_records(talk, 2)
        asked = Message(partition_index=0, timestamp=timestamp, current_leader_epoch=-1)
        topics = [Message(name=TOPIC, partitions=[asked])]
        response = talk.ask(ApiKey.ListOffsets, 7, Message(replica_id=-1, topics=topics))
        (found,) = response.topics[0].partitions
        assert (found.error_code, found.offset, found.timestamp) == (0, 2, 300)


# --- a log of another process, which cuts it


def test_a_fetch_that_waits_at_an_end_that_is_cut_gets_the_records_written_anew(
    tmp_path: Path,
) -> None:
    path = tmp_path / f"{TOPIC}-0"
    path.mkdir()
    with Log.open(path, writable=True, files=UNSYNCED) as other:
        for offset in range(10):
            other.writer.append(logs.batch(offset))
        with (
            broker_of(tmp_path, {}) as broker,
            serving_broker(broker) as server,
            Talk(server.address) as talk,
        ):
            assert offsets_in(talk.ask(ApiKey.Fetch, 11, fetch(0))) == list(range(10))
            talk.send(ApiKey.Fetch, 11, fetch(10, wait=1_000))
            time.sleep(0.1)
            other.writer.truncate_to(5)
            other.writer.append(logs.batch(5, size=77))
            response = parsed(ApiKey.Fetch, 11, talk.receive())
            assert partition_of(response).error_code == OUT_OF_RANGE
            again = talk.ask(ApiKey.Fetch, 11, fetch(5))
            (record,) = read(MemoryRecords(bytes(partition_of(again).records)))
            assert (record.offset, len(record.value or b"")) == (5, 77)
