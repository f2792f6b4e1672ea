"""TxnOffsetCommit: what counts once a transaction is committed, and each partition's error."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.broker.handlers import txn_offset_commit
from downconvert.internal_topics.group_records import Committed
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.transacting import NOW, Producing
from tests.downconvert.broker.writable import writable_broker

VERSIONS = range(5)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(
        tmp_path,
        "t",
        "u",
        partitions=3,
        offset_metadata_max_bytes=8,
        group_initial_rebalance_delay_ms=0,
    ) as made:
        yield made


@pytest.fixture
def producer(broker: Broker) -> Producing:
    made = Producing(broker)
    made.begin()
    made.add_offsets()
    return made


def one(index: int, offset: int = 5, metadata: str | None = "") -> Message:
    return Message(
        partition_index=index,
        committed_offset=offset,
        committed_leader_epoch=4,
        committed_metadata=metadata,
    )


def commit(
    producer: Producing, version: int, topics: dict[str, list[Message]], **fields: object
) -> list[list[int]]:
    """The errors, topic by topic."""
    body = Message(
        transactional_id=producer.name,
        group_id="g",
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        topics=[Message(name=name, partitions=parts) for name, parts in topics.items()],
    )
    body.__dict__.update(fields)
    response = ask(producer.broker, ApiKey.TxnOffsetCommit, version, body, now=NOW)
    assert [topic.name for topic in response.topics] == list(topics)
    return [[one.error_code for one in topic.partitions] for topic in response.topics]


def stored(broker: Broker) -> dict[tuple[str, int], Committed]:
    return dict(broker.groups.committed("g", NOW)[0])


@pytest.mark.parametrize("version", VERSIONS)
def test_impossible_commits_are_named_and_the_rest_counts(
    producer: Producing, version: int
) -> None:
    t, u = [one(2, 7), one(3), one(0, 8, None)], [one(0, 9, "x" * 9), one(1, 9, "x" * 8)]
    assert commit(producer, version, {"t": t, "u": u}) == [
        [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0],
        [ErrorCode.OFFSET_METADATA_TOO_LARGE, 0],
    ]
    assert not stored(producer.broker)
    producer.end()
    found = stored(producer.broker)
    assert set(found) == {("t", 2), ("t", 0), ("u", 1)}
    epoch = 4 if version >= 2 else -1
    assert (found["t", 2].offset, found["t", 2].leader_epoch) == (7, epoch)
    assert found["t", 2].commit_time == int(NOW * 1000)
    assert (found["t", 0].metadata, found["u", 1].metadata) == ("", "x" * 8)


def test_a_group_has_a_name(producer: Producing) -> None:
    assert commit(producer, 3, {"t": [one(0)]}, group_id="") == [[ErrorCode.INVALID_GROUP_ID]]


def test_a_broker_that_only_reads_takes_no_offsets_of_transactions(
    tmp_path: Path, producer: Producing
) -> None:
    producer.broker.topics.log_dir.close()
    with LogDir.open(tmp_path) as log_dir:
        producer.broker = Broker(log_dir)
        codes = commit(producer, 3, {"t": [one(0)]})
    assert codes == [[ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]]


@pytest.mark.parametrize(
    ("code", "version", "expected"),
    [
        (ErrorCode.CONCURRENT_TRANSACTIONS, 3, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 4, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_each_version_has_errors_that_its_producers_know(
    code: ErrorCode,
    version: int,
    expected: ErrorCode,
    producer: Producing,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise ApiError(code)

    monkeypatch.setattr(producer.broker.transactions, "check_producer", refuse)
    assert commit(producer, version, {"t": [one(0)]}) == [[code if expected is code else expected]]
    assert txn_offset_commit.ABORTABLE_VERSION == 4


def test_a_member_is_known_by_its_id_generation_and_instance(producer: Producing) -> None:
    protocols = [Message(name="range", metadata=b"")]
    body = Message(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        group_instance_id="static",
        protocol_type="consumer",
        protocols=protocols,
    )
    joined = ask(producer.broker, ApiKey.JoinGroup, 5, body, now=NOW)
    me = {"member_id": joined.member_id, "generation_id": joined.generation_id}
    parts = {"t": [one(0)]}
    assert commit(producer, 3, parts, **me, group_instance_id="static") == [[0]]
    assert commit(producer, 3, parts, **me, group_instance_id="another") == [
        [ErrorCode.UNKNOWN_MEMBER_ID]
    ]
    other = {**me, "member_id": "somebody"}
    assert commit(producer, 3, parts, **other, group_instance_id="static") == [
        [ErrorCode.FENCED_INSTANCE_ID]
    ]
    assert commit(producer, 3, parts, **{**me, "generation_id": 9}) == [
        [ErrorCode.ILLEGAL_GENERATION]
    ]


def test_offsets_of_a_transaction_that_ends_meanwhile_are_refused(
    producer: Producing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer is checked again when its batch is appended."""
    check = producer.broker.transactions.check_producer

    def then_ends(*args: object) -> None:
        check(*args)  # type: ignore[arg-type]
        monkeypatch.undo()
        assert producer.end() is ErrorCode.NONE

    monkeypatch.setattr(producer.broker.transactions, "check_producer", then_ends)
    assert commit(producer, 4, {"t": [one(0)]}) == [[ErrorCode.TRANSACTION_ABORTABLE]]
    assert not stored(producer.broker)
