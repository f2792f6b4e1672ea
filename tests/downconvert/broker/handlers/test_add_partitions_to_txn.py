"""AddPartitionsToTxn: topics without partitions, beside others. Its errors are in
transactions/test_coordinator.py."""

from pathlib import Path

import pytest

from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.transacting import NOW, Producing
from tests.downconvert.broker.writable import writable_broker


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize(
    ("known", "code"), [("t", ErrorCode.NONE), ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
)
def test_a_topic_without_partitions_is_answered_unless_another_is_refused(
    tmp_path: Path, version: int, known: str, code: ErrorCode
) -> None:
    """As in Kafka."""
    with writable_broker(tmp_path, "t", "u") as broker:
        producer = Producing(broker)
        producer.begin()
        body = Message(
            v3_and_below_transactional_id=producer.name,
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[
                Message(name=known, partitions=[0]),
                Message(name="u", partitions=[]),
            ],
        )
        response = ask(broker, ApiKey.AddPartitionsToTxn, version, body, now=NOW)
    found = {
        topic.name: [one.partition_error_code for one in topic.results_by_partition]
        for topic in response.results_by_topic_v3_and_below
    }
    assert found == {known: [code]} | ({} if code else {"u": []})
