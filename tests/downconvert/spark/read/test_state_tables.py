"""The brokers' own topics as tables say what the brokers themselves make of them."""

from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from downconvert.broker.groups.committed_offsets import CommittedOffsets
from downconvert.internal_topics.group_records import (
    Committed,
    RecordKey,
    StoredGroup,
    StoredMember,
    write_committed,
    write_group,
    write_key,
)
from downconvert.internal_topics.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from downconvert.internal_topics.transaction import State, Transaction
from downconvert.internal_topics.transaction_records import write_key as write_id
from downconvert.internal_topics.transaction_records import write_value
from downconvert.spark.errors import CorruptSegmentError, CorruptStateError
from downconvert.spark.options.schemas import arrow_schema, schema_of
from downconvert.spark.read.state_tables import COLUMNS, LEVELS, StateTable
from downconvert.storage import Log, TopicPartition
from downconvert.storage.names import Kind, file_name
from records import ControlRecordType, Record, build
from records.formats import V2
from tests.downconvert.broker.offset_logs import commit, commit_to, end
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.spark.reading import parsed, rows
from tests.downconvert.storage.logs import UNSYNCED

COMMIT, ABORT = ControlRecordType.COMMIT, ControlRecordType.ABORT
GROUPS, PRODUCERS = ("g", "h"), (7, 8)
Step: TypeAlias = tuple[Any, ...]

COMMITS = st.tuples(
    st.just("commit"),
    st.sampled_from(GROUPS),
    st.integers(0, 1),  # partition
    st.integers(0, 99),
    st.one_of(st.none(), st.sampled_from(PRODUCERS)),
)
TOMBSTONES = st.tuples(
    st.just("commit"), st.sampled_from(GROUPS), st.integers(0, 1), st.none(), st.none()
)
ENDS = st.tuples(st.just("end"), st.sampled_from((COMMIT, ABORT)), st.sampled_from(PRODUCERS))
STEPS = st.lists(st.one_of(COMMITS, COMMITS, TOMBSTONES, ENDS), max_size=12)


ONGOING: Final = Transaction(
    transactional_id="a",
    producer_id=7,
    epoch=2,
    timeout_ms=60_000,
    state=State.ONGOING,
    partitions=frozenset({TopicPartition("t", 1), TopicPartition("t", 0)}),
    start_time=1000,
    update_time=2000,
)


def keyed(path: Path, *records: tuple[bytes, bytes | None], topic: str = OFFSETS_TOPIC) -> Path:
    """A partition of a topic with these keys and values, a batch each."""
    log = path / f"{topic}-0" / file_name(0, Kind.LOG)
    log.parent.mkdir()
    parts = [
        build([Record(n, 0, key=key, value=value)], magic=V2)
        for n, (key, value) in enumerate(records)
    ]
    log.write_bytes(b"".join(parts))
    return path


def later(kind: int, group: str, *more: str) -> bytes:
    """A key of a later protocol."""
    texts = (len(text).to_bytes(2, "big") + text.encode() for text in (group, *more))
    return kind.to_bytes(2, "big") + b"".join(texts)


@given(steps=STEPS)
def test_offsets_are_those_that_a_coordinator_adds_up(steps: list[Step]) -> None:
    """The same holds with transactions, open, committed or aborted."""
    kept = CommittedOffsets()
    with TemporaryDirectory() as folder:
        path = Path(folder, f"{OFFSETS_TOPIC}-0")
        path.mkdir()
        with Log.open(path, writable=True, files=UNSYNCED) as log:
            for kind, *step in steps:
                if kind == "end":
                    end(log, step[0], producer=step[1])
                    kept.end((0, step[1]), committed=step[0] is COMMIT)
                    continue
                group, partition, offset, producer = step
                key, transaction = RecordKey(group, ("t", partition)), producer and (0, producer)
                if offset is None:
                    kept.remove(key, transaction)
                else:
                    kept.put(*key, Committed(offset), log.end_offset, transaction)
                commit_to(log, offset, group=group, at=("t", partition), producer=producer)
        found = rows(folder, level="offset")
    expected = {(g, *at, one.offset) for g in GROUPS for at, one in kept.of(g).items()}
    assert {(r["group"], r["topic"], r["partition"], r["offset"]) for r in found} == expected
    assert len(found) == len(expected)


def test_state_of_a_broker_is_read(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        assert commit(broker, 41) == commit(broker, 42) == commit(broker, 5, group="h") == 0
    found = rows(tmp_path, level="offset")
    assert {(row["group"], row["topic"], row["offset"]) for row in found} == {
        ("g", "t", 42),
        ("h", "t", 5),
    }


def test_an_offset_has_all_that_was_committed(tmp_path: Path) -> None:
    old = Committed(7, metadata="said", commit_time=1000, expire_time=2000)
    new = Committed(8, leader_epoch=3, commit_time=2**62)  # a time that Spark does not have
    keys = [write_key(RecordKey("g", ("t", n))) for n in range(2)]
    keyed(tmp_path, (keys[0], write_committed(old)), (keys[1], write_committed(new)))
    first, second = rows(tmp_path, level="offset")
    assert first == {
        "group": "g",
        "topic": "t",
        "partition": 0,
        "offset": 7,
        "leaderEpoch": None,
        "metadata": "said",
        "commitTimestamp": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "expireTimestamp": datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
        "topicId": None,
        "recordPartition": 0,
        "recordOffset": 0,
    }
    assert (second["leaderEpoch"], second["commitTimestamp"]) == (3, None)


def test_groups_have_members_and_those_of_later_protocols_names(tmp_path: Path) -> None:
    member = StoredMember("m", None, "c", "/h", 10, 20, b"sub", b"as")
    stable = StoredGroup("consumer", 3, "range", "m", 1000, (member,))
    keyed(
        tmp_path,
        (write_key(RecordKey("g")), write_group(stable)),
        (write_key(RecordKey("g", ("t", 0))), write_committed(Committed(1))),
        (write_key(RecordKey("gone")), write_group(stable)),
        (write_key(RecordKey("gone")), None),
        (later(3, "new"), b"not decoded"),
        (later(5, "new", "m"), b""),
        (later(11, "shared"), b""),
        (later(99, "of the future"), b""),
    )
    classic, consumer, share = rows(tmp_path, level="group")
    assert (classic["group"], classic["type"], classic["generation"]) == ("g", "classic", 3)
    assert classic["members"] == [
        {
            "memberId": "m",
            "groupInstanceId": None,
            "clientId": "c",
            "clientHost": "/h",
            "sessionTimeoutMs": 10,
            "rebalanceTimeoutMs": 20,
            "subscription": b"sub",
            "assignment": b"as",
        }
    ]
    assert (consumer["group"], consumer["type"], consumer["members"]) == ("new", "consumer", None)
    assert consumer["records"] == ["ConsumerGroupMemberMetadata", "ConsumerGroupMetadata"]
    assert (share["group"], share["type"]) == ("shared", "share")


def test_transactional_ids_have_their_last_state(tmp_path: Path) -> None:
    empty = Transaction(transactional_id="b", producer_id=8, epoch=0, timeout_ms=1)
    keyed(
        tmp_path,
        (write_id("a"), write_value(empty)),
        (write_id("b"), write_value(empty)),
        (write_id("gone"), write_value(empty)),
        (write_id("a"), write_value(ONGOING)),
        (write_id("gone"), None),
        topic=TRANSACTIONS_TOPIC,
    )
    first, second = rows(tmp_path, level="transaction")
    assert first == {
        "transactionalId": "a",
        "producerId": 7,
        "producerEpoch": 2,
        "previousProducerId": None,
        "nextProducerId": None,
        "timeoutMs": 60_000,
        "state": "Ongoing",
        "partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}],
        "startTimestamp": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "updateTimestamp": datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
        "recordPartition": 0,
        "recordOffset": 3,
    }
    assert (second["transactionalId"], second["state"], second["partitions"]) == ("b", "Empty", [])


GOOD: Final = (write_key(RecordKey("g", ("t", 0))), write_committed(Committed(1)))
KEYS: Final = (GOOD[0], later(2, "g"), write_id("a"))
TORN: Final = (write_key(RecordKey("h", ("t", 0))), write_committed(Committed(2))[:-1])


def test_damaged_state_fails_or_is_a_row_or_is_left_out(tmp_path: Path) -> None:
    keyed(tmp_path, GOOD, TORN, (b"\0\1\0\7", b""), (b"", None))
    with pytest.raises(CorruptStateError, match="the record at offset 2: 7 bytes at 4"):
        rows(tmp_path, level="offset")
    assert [row["group"] for row in rows(tmp_path, level="offset", mode="DROPMALFORMED")] == ["g"]
    found = rows(tmp_path, level="offset", mode="PERMISSIVE")
    damaged = {row["recordOffset"]: row["_corrupt"]["reason"] for row in found if row["_corrupt"]}
    assert sorted(damaged) == [1, 2, 3]
    assert "the record at offset 1: " in damaged[1]
    log = tmp_path / f"{OFFSETS_TOPIC}-0" / file_name(0, Kind.LOG)
    log.write_bytes(log.read_bytes()[:-1] + b"?")  # a batch's checksum
    with pytest.raises((CorruptSegmentError, CorruptStateError)):
        rows(tmp_path, level="offset")
    assert len(rows(tmp_path, level="offset", mode="PERMISSIVE")) == 4


def test_a_value_that_was_replaced_is_not_looked_at(tmp_path: Path) -> None:
    keyed(tmp_path, TORN, (TORN[0], write_committed(Committed(3))))
    assert [row["offset"] for row in rows(tmp_path, level="offset")] == [3]


@given(
    records=st.lists(
        st.tuples(
            st.one_of(
                st.binary(max_size=20), st.sampled_from([GOOD[0], later(2, "g"), write_id("a")])
            ),
            st.one_of(st.none(), st.binary(max_size=60)),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_any_records_are_rows(records: list[tuple[bytes, bytes | None]]) -> None:
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([key for key, _ in records], pa.binary()),
            pa.array([value for _, value in records], pa.binary()),
            pa.array(range(len(records)), pa.int64()),
        ],
        schema=COLUMNS,
    )
    for level in LEVELS:
        options = parsed("/nowhere", level=level, mode="PERMISSIVE")
        table = StateTable(options, arrow_schema(schema_of(options)))
        found = [*table.take(batch, 0, "log"), *table.rows()]
        for row in (row for one in found for row in one.to_pylist()):
            assert 0 <= row["recordOffset"] < len(records)


def test_each_partition_is_read_by_one_task(tmp_path: Path) -> None:
    """The size of tasks does not matter: the last value of a key may be in the next segment."""
    with Log.open(keyed(tmp_path, GOOD) / f"{OFFSETS_TOPIC}-0", writable=True) as log:
        log.writer.roll()
        commit_to(log, 9)
    found = rows(tmp_path, level="offset", maxPartitionBytes=1)
    assert [(row["offset"], row["recordOffset"]) for row in found] == [(9, 1)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topics": "a"}, "is read from __consumer_offsets: leave assign"),
        ({"includeHeaders": "true"}, "leave includeHeaders and isolation out"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rows("/nowhere", level="offset", **options)


def test_spark_reads_them_as_tables(spark: SparkSession, tmp_path: Path) -> None:
    member = StoredMember("m", None, "c", "/h", 10, 20, b"sub", b"as")
    group = StoredGroup("consumer", 3, "range", "m", 1000, (member,))
    keyed(tmp_path, GOOD, (write_key(RecordKey("g")), write_group(group)))
    keyed(tmp_path, (write_id("a"), write_value(ONGOING)), topic=TRANSACTIONS_TOPIC)
    reader = spark.read.format("kafka-segments").option("mode", "PERMISSIVE")
    (offset,) = reader.option("level", "offset").load(str(tmp_path)).where("topic = 't'").collect()
    assert (offset.group, offset.offset) == ("g", 1)
    (found,) = reader.option("level", "group").load(str(tmp_path)).collect()
    assert found.members[0].memberId == "m"
    (one,) = reader.option("level", "transaction").load(str(tmp_path)).collect()
    assert (one.state, one.partitions[0].topic) == ("Ongoing", "t")
