"""Idempotent producers: nothing twice, nothing left out, also after a restart or a truncation."""

from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker
from downconvert.broker.sequences import PRODUCERS_MAX, Sequences
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec, MemoryRecords, Record, TimestampType, build
from records.batch import SEQUENCE_MAX
from records.formats import V2

from .asking import ask
from .writable import writable_broker

NOW = 1_700_000_000.0


def batch(sequence: int, count: int = 2, epoch: int = 0, producer: int = 5, **fields: Any) -> bytes:
    records = [Record(i, 1000 + i, TimestampType.CREATE, b"k") for i in range(count)]
    return build(
        records,
        magic=V2,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        **fields,
    )


def send(broker: Broker, data: bytes) -> tuple[ErrorCode, int]:
    """Error code and base offset."""
    partition = Message(index=0, records=data)
    body = Message(acks=1, timeout_ms=1, topic_data=[Message(name="t", partition_data=[partition])])
    (topic,) = ask(broker, ApiKey.Produce, 9, body, now=NOW).responses
    (one,) = topic.partition_responses
    return ErrorCode(one.error_code), one.base_offset


def end(broker: Broker) -> int:
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    return partition.end_offset


def test_the_last_five_batches_are_known_and_not_appended_again(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        for number in range(6):
            assert send(broker, batch(2 * number)) == (ErrorCode.NONE, 2 * number)
        for number in range(1, 6):
            assert send(broker, batch(2 * number)) == (ErrorCode.NONE, 2 * number)
        assert send(broker, batch(0))[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert end(broker) == 12


def test_another_codec_does_not_make_it_another_batch(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        broker.topics.configure("t", {"compression.type": "lz4"})
        assert send(broker, batch(0)) == (ErrorCode.NONE, 0)
        assert send(broker, batch(0, codec=Codec.GZIP)) == (ErrorCode.NONE, 0)
        assert send(broker, batch(2)) == (ErrorCode.NONE, 2)


@pytest.mark.parametrize(
    ("sequence", "count", "epoch", "expected"),
    [
        (3, 1, 0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (1, 1, 0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),  # a part of what is there
        (0, 3, 0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),  # what is there, and more
        (2, 1, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),  # a new epoch begins at 0
        (0, 1, 1, ErrorCode.NONE),
        (-1, 1, 0, ErrorCode.INVALID_RECORD),
        (2, 1, 0, ErrorCode.NONE),
    ],
)
def test_batches_that_may_follow_sequence_number_1(
    tmp_path: Path, sequence: int, count: int, epoch: int, expected: ErrorCode
) -> None:
    with writable_broker(tmp_path, "t") as broker:
        send(broker, batch(0))
        assert send(broker, batch(sequence, count, epoch))[0] is expected


def test_an_old_epoch_is_over(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        send(broker, batch(0))
        send(broker, batch(0, epoch=1))
        assert send(broker, batch(0))[0] is ErrorCode.INVALID_PRODUCER_EPOCH
        assert send(broker, batch(2))[0] is ErrorCode.INVALID_PRODUCER_EPOCH


def test_numbers_begin_again_behind_the_last_one(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        assert send(broker, batch(SEQUENCE_MAX - 1)) == (ErrorCode.NONE, 0)
        assert send(broker, batch(0)) == (ErrorCode.NONE, 2)
        assert send(broker, batch(SEQUENCE_MAX - 1)) == (ErrorCode.NONE, 0)


def test_the_last_batch_is_known_after_a_restart(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        for sequence in (0, 2, 4):
            send(broker, batch(sequence))
    with writable_broker(tmp_path) as broker:
        assert send(broker, batch(4)) == (ErrorCode.NONE, 4)
        assert send(broker, batch(8))[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send(broker, batch(6)) == (ErrorCode.NONE, 6)


def test_truncated_records_were_never_sent(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        for sequence in (0, 2, 4):
            send(broker, batch(sequence))
        partition = broker.topics.partition("t", 0)
        assert partition is not None
        partition.log.writer.truncate_to(2)
        assert send(broker, batch(4))[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send(broker, batch(0)) == (ErrorCode.NONE, 0)
        assert send(broker, batch(2)) == (ErrorCode.NONE, 2)


def test_batches_before_a_truncation_are_still_known(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        for sequence in (0, 2, 4, 6):
            send(broker, batch(sequence))
        partition = broker.topics.partition("t", 0)
        assert partition is not None
        partition.log.writer.truncate_to(4)
        for sequence in (0, 2):
            assert send(broker, batch(sequence)) == (ErrorCode.NONE, sequence)
        assert send(broker, batch(4)) == (ErrorCode.NONE, 4)
        assert end(broker) == 6


def test_records_appended_by_another_leader_count(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        send(broker, batch(0))
        partition = broker.topics.partition("t", 0)
        assert partition is not None
        fetched = bytearray(batch(2))
        fetched[7] = 2  # its offset
        partition.log.writer.append(fetched)
        assert send(broker, batch(2)) == (ErrorCode.NONE, 2)
        assert send(broker, batch(4)) == (ErrorCode.NONE, 4)


def test_producers_are_forgotten_that_were_silent_for_longest() -> None:
    sequences = Sequences()
    header = next(MemoryRecords(batch(0)).batches())
    for producer in range(PRODUCERS_MAX + 10):
        sequences.add_batch(header._replace(producer_id=producer), 2 * producer)
    assert len(sequences) == PRODUCERS_MAX


def test_a_batch_that_was_cut_off_is_not_known_by_the_offset_that_another_has_now(
    tmp_path: Path,
) -> None:
    data = batch(0)
    (header,) = MemoryRecords(data).batches()
    with writable_broker(tmp_path, "t") as broker:
        partition = broker.topics.partition("t", 0)
        assert partition is not None
        writer = partition.log.writer
        writer.append(data)
        partition.sequences.add_batch(header, 0)
        assert partition.sequences.duplicate_of(header, writer.producers) is not None
        partition.restart_at(0)
        writer.append(batch(7))
        with pytest.raises(ApiError, match="expected is 9"):
            partition.sequences.duplicate_of(header, writer.producers)


@pytest.mark.parametrize("fields", [{"producer": -1, "epoch": -1}, {"producer": 5}])
def test_batches_without_a_sequence_number_are_never_duplicates(
    tmp_path: Path, fields: dict[str, int]
) -> None:
    """Those of producers that are not idempotent, and of the coordinator itself."""
    with writable_broker(tmp_path, "t") as broker:
        send(broker, batch(0))
        partition = broker.topics.partition("t", 0)
        assert partition is not None
        (header,) = MemoryRecords(batch(-1, **fields)).batches()
        assert partition.sequences.duplicate_of(header, partition.log.writer.producers) is None
