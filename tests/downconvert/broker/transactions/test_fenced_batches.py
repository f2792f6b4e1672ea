"""Batches that a fenced producer sends again over the wire: Kafka answers that the epoch is over.

Not here: the other requests of fenced producers (test_fencing.py)."""

from typing import Final

from downconvert.broker import Broker
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from records import Record, TimestampType, build
from records.formats import V2
from tests.downconvert.broker.talking import Talk, serving_broker

NAME: Final = "tx"


def _begin(talk: Talk) -> tuple[int, int]:
    """The producer id and the epoch."""
    body = Message(transactional_id=NAME, transaction_timeout_ms=60_000)
    found = talk.ask(ApiKey.InitProducerId, 2, body)
    assert not found.error_code
    return found.producer_id, found.producer_epoch


def _send(
    talk: Talk, producer: tuple[int, int], sequence: int, name: str | None = NAME
) -> tuple[ErrorCode, int]:
    """Error code and base offset of one record."""
    producer_id, epoch = producer
    data = build(
        [Record(0, 1000, TimestampType.CREATE, b"k")],
        magic=V2,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=name is not None,
    )
    topics = [Message(name="t", partition_data=[Message(index=0, records=data)])]
    body = Message(transactional_id=name, acks=-1, timeout_ms=1000, topic_data=topics)
    (topic,) = talk.ask(ApiKey.Produce, 7, body).responses
    (one,) = topic.partition_responses
    return ErrorCode(one.error_code), one.base_offset


def _add(talk: Talk, producer: tuple[int, int]) -> None:
    body = Message(
        v3_and_below_transactional_id=NAME,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[Message(name="t", partitions=[0])],
    )
    (topic,) = talk.ask(ApiKey.AddPartitionsToTxn, 1, body).results_by_topic_v3_and_below
    assert [one.partition_error_code for one in topic.results_by_partition] == [0]


def test_no_batch_of_an_epoch_that_is_over_counts_as_sent_again(broker: Broker) -> None:
    with (
        serving_broker(broker) as server,
        Talk(server.address) as first,
        Talk(server.address) as second,
    ):
        old = _begin(first)
        _add(first, old)
        assert _send(first, old, 0) == (ErrorCode.NONE, 0)
        assert _send(first, old, 0) == (ErrorCode.NONE, 0)  # a duplicate, as long as it may write
        new = _begin(second)  # aborts, with a marker of a newer epoch
        assert _send(first, old, 0) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
        _add(second, new)
        assert _send(second, new, 0) == (ErrorCode.NONE, 2)
        for sequence in (0, 1):  # one that is in the log, and the next
            assert _send(first, old, sequence) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
        assert broker.topics["t"].partitions[0].end_offset == 3


def test_a_late_batch_of_an_idempotent_producer_is_refused_too(broker: Broker) -> None:
    with serving_broker(broker) as server, Talk(server.address) as talk:
        for sequence in (0, 1):
            assert _send(talk, (7000, 0), sequence, None) == (ErrorCode.NONE, sequence)
        assert _send(talk, (7000, 1), 0, None) == (ErrorCode.NONE, 2)
        for sequence in (0, 1, 2):
            assert _send(talk, (7000, 0), sequence, None) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
        assert broker.topics["t"].partitions[0].end_offset == 3
