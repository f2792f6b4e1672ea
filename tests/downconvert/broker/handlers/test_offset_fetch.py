"""OffsetFetch of all offsets of a group: what each version says of topics, known here or not."""

from pathlib import Path

import pytest

from downconvert.broker import Broker
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
def test_by_name_all_topics_are_told_and_by_id_those_that_have_one(
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
