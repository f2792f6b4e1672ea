"""OffsetCommit: what is stored of each partition, and each partition's error."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.internal_topics.group_records import Committed
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.writable import writable_broker

NOW = 1_700_000_000.0
NOW_MS = 1_700_000_000_000
VERSIONS = range(11)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "t", "u", partitions=3, offset_metadata_max_bytes=8) as made:
        yield made


def one(index: int, offset: int = 5, metadata: str | None = "", **fields: int) -> Message:
    return Message(
        partition_index=index, committed_offset=offset, committed_metadata=metadata, **fields
    )


def topic(broker: Broker, name: str, *partitions: Message) -> Message:
    id_ = broker.topics[name].id if name in broker.topics else bytes([9] * 16)
    return Message(name=name, topic_id=id_, partitions=list(partitions))


def commit(broker: Broker, version: int, *topics: Message, **fields: int) -> Message:
    body = Message(group_id="g", topics=list(topics), **fields)
    return ask(broker, ApiKey.OffsetCommit, version, body, now=NOW)


def codes(response: Message) -> list[list[int]]:
    return [[one.error_code for one in topic.partitions] for topic in response.topics]


def stored(broker: Broker) -> dict[tuple[str, int], Committed]:
    return dict(broker.groups.committed("g", NOW)[0])


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_of_several_topics_are_committed_in_every_version(
    broker: Broker, version: int
) -> None:
    t = topic(broker, "t", one(2, 7, committed_leader_epoch=4), one(0, 8, None))
    u = topic(broker, "u", one(2, 9, "said"))
    response = commit(broker, version, t, u)
    assert codes(response) == [[0, 0], [0]]
    assert [[one.partition_index for one in t.partitions] for t in response.topics] == [[2, 0], [2]]
    epoch = 4 if version >= 6 else -1
    found = stored(broker)
    assert found["t", 2] == Committed(7, epoch, "", NOW_MS, topic_id=found["t", 2].topic_id)
    assert (found["t", 0].offset, found["t", 0].metadata) == (8, "")
    assert (found["u", 2].offset, found["u", 2].metadata) == (9, "said")


def test_a_client_may_give_the_time_of_a_commit_in_version_1(broker: Broker) -> None:
    commit(broker, 1, topic(broker, "t", one(0, commit_timestamp=123), one(1, commit_timestamp=-1)))
    found = stored(broker)
    assert found["t", 0].commit_time == 123
    assert found["t", 1].commit_time == NOW_MS
    assert {one.expire_time for one in found.values()} == {-1}


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_client_may_give_the_time_for_which_offsets_are_kept(
    broker: Broker, version: int
) -> None:
    commit(broker, version, topic(broker, "t", one(0)), retention_time_ms=5_000)
    commit(broker, version, topic(broker, "t", one(1)), retention_time_ms=-1)
    found = stored(broker)
    assert (found["t", 0].commit_time, found["t", 0].expire_time) == (NOW_MS, NOW_MS + 5_000)
    assert (found["t", 1].commit_time, found["t", 1].expire_time) == (NOW_MS, -1)


def test_offsets_that_are_kept_longer_than_time_lasts_are_kept(broker: Broker) -> None:
    commit(broker, 2, topic(broker, "t", one(0)), retention_time_ms=2**63 - 1)
    assert stored(broker)["t", 0].expire_time == 2**63 - 1


def test_metadata_has_so_many_characters_and_no_more(broker: Broker) -> None:
    response = commit(broker, 8, topic(broker, "t", one(0, 1, "x" * 9), one(1, 1, "x" * 8)))
    assert codes(response) == [[ErrorCode.OFFSET_METADATA_TOO_LARGE, 0]]
    assert set(stored(broker)) == {("t", 1)}


@pytest.mark.parametrize("version", [8, 9, 10])
def test_a_refused_group_is_the_error_unless_a_partition_is_unknown(
    broker: Broker, version: int
) -> None:
    """Metadata is checked after the group."""
    partitions = one(0), one(9), one(1, metadata="too long for this")
    response = commit(
        broker, version, topic(broker, "t", *partitions), generation_id_or_member_epoch=3
    )
    assert codes(response) == [
        [
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.ILLEGAL_GENERATION,
        ]
    ]
    assert not stored(broker)


def test_topics_are_named_by_their_ids_since_version_10(broker: Broker) -> None:
    unknown, known = topic(broker, "none", one(0)), topic(broker, "u", one(0))
    response = commit(broker, 10, unknown, known)
    assert codes(response) == [[ErrorCode.UNKNOWN_TOPIC_ID], [0]]
    assert [one.topic_id for one in response.topics] == [unknown.topic_id, known.topic_id]
    assert set(stored(broker)) == {("u", 0)}
    response = commit(broker, 9, unknown, known)
    assert codes(response) == [[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], [0]]
    assert [one.name for one in response.topics] == ["none", "u"]
