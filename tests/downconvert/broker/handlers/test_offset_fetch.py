"""OffsetFetch of all offsets of a group: what each version says of topics, known here or not."""

from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.offset_logs import commit_to, make_offsets, offsets_log
from tests.downconvert.broker.transacting import Producing
from tests.downconvert.broker.writable import writable_broker


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """With offsets of a topic that is here, and of one that is not."""
    make_offsets(tmp_path, 0)
    with writable_broker(tmp_path) as broker:
        for offset, name in ((3, "t"), (4, "elsewhere")):
            commit_to(offsets_log(broker), offset, at=(name, 0))
    return tmp_path


def found(broker: Broker, version: int, *, stable: bool = False) -> dict[str, tuple[int, int]]:
    asked = Message(group_id="g", topics=None)
    body = Message(group_id="g", topics=None, groups=[asked], require_stable=stable)
    response = ask(broker, ApiKey.OffsetFetch, version, body)
    (group,) = response.groups if version >= 8 else (response,)
    ids = {broker.topics["t"].id: "t"}
    return {
        topic.name if version < 10 else ids[bytes(topic.topic_id)]: (
            topic.partitions[0].committed_offset,
            topic.partitions[0].error_code,
        )
        for topic in group.topics
    }


@pytest.mark.parametrize("version", range(2, 11))
def test_all_topics_are_listed_by_name_and_by_id_those_that_have_one(
    directory: Path, version: int
) -> None:
    with writable_broker(directory) as broker:
        elsewhere = {} if version >= 10 else {"elsewhere": (4, 0)}
        assert found(broker, version) == {"t": (3, 0), **elsewhere}


def test_only_requests_for_stable_offsets_wait_for_a_transaction(directory: Path) -> None:
    with writable_broker(directory) as broker:
        producer = Producing(broker)
        producer.begin()
        producer.add_offsets()
        producer.commit_offset(9)
        assert found(broker, 9)["t"] == (3, 0)
        assert found(broker, 9, stable=True)["t"] == (-1, 88)


def test_a_topic_is_found_by_its_id_and_an_unknown_id_is_an_error(directory: Path) -> None:
    with writable_broker(directory) as broker:
        known, unknown = broker.topics["t"].id, bytes(range(16))
        topics = [Message(topic_id=one, partition_indexes=[0, 1]) for one in (known, unknown)]
        asked = Message(group_id="g", topics=topics)
        body = Message(groups=[asked], require_stable=False)
        (group,) = ask(broker, ApiKey.OffsetFetch, 10, body).groups
        assert {bytes(topic.topic_id): results(topic) for topic in group.topics} == {
            known: [(0, 3, ErrorCode.NONE), (1, -1, ErrorCode.NONE)],
            unknown: [(index, -1, ErrorCode.UNKNOWN_TOPIC_ID) for index in (0, 1)],
        }


def results(topic: Message) -> list[tuple[int, int, int]]:
    """Index, offset and error of each partition."""
    return [(one.partition_index, one.committed_offset, one.error_code) for one in topic.partitions]
