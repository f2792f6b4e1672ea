"""A produce that takes long is handled in turns, and other clients are served in between.

Not here: what is appended (test_produce.py), when it is answered (test_produce_acks.py)."""

import time
from pathlib import Path

import pytest

from downconvert.broker.handlers.produce import PARTITIONS_A_TURN
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.appending import TURN_SIZE
from records import Codec, Record, build
from records.formats import V2
from tests.downconvert.broker.asking import begin, response_of
from tests.downconvert.broker.producing import batch
from tests.downconvert.broker.talking import Talk, serving_broker
from tests.downconvert.broker.writable import writable_broker

VERSION = 9
TURNS = 8
PATIENCE = 30.0


def bomb(codec: Codec) -> bytes:
    """A batch that expands to some turns' bytes."""
    values = [Record(number, 0, value=bytes(TURN_SIZE)) for number in range(TURNS)]
    return build(values, magic=V2, codec=codec)


def request(data: bytes, count: int = 1, acks: int = 1) -> Message:
    """`count` times the same partition: the records are appended as often."""
    partitions = [Message(index=0, records=data) for _ in range(count)]
    return Message(
        acks=acks, timeout_ms=1000, topic_data=[Message(name="t", partition_data=partitions)]
    )


def turns(path: Path, body: Message) -> tuple[int, Message]:
    """How many turns a request takes beyond the first, and its response."""
    with writable_broker(path, "t") as broker:
        exchange, count = begin(broker, ApiKey.Produce, VERSION, body), 0
        while not exchange.is_done:
            broker.tick(0.0)
            count += 1
        return count, response_of(exchange)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_records_that_expand_to_much_are_checked_in_turns(tmp_path: Path, codec: Codec) -> None:
    count, found = turns(tmp_path, request(bomb(codec)))
    assert count >= TURNS / 2
    assert found.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize(("partitions", "more"), [(1, 0), (64, 0), (65, 2), (200, 6)])
def test_so_are_many_partitions(tmp_path: Path, partitions: int, more: int) -> None:
    """Their headers are read in turns, too."""
    assert PARTITIONS_A_TURN == 64
    count, found = turns(tmp_path, request(batch(1), partitions))
    assert count == more
    offsets = [one.base_offset for one in found.responses[0].partition_responses]
    assert offsets == list(range(partitions))


@pytest.mark.parametrize("acks", [0, 1])
def test_all_of_a_request_is_appended_if_its_client_goes_meanwhile(
    tmp_path: Path, acks: int
) -> None:
    count = 5 * PARTITIONS_A_TURN
    with writable_broker(tmp_path, "t") as broker, serving_broker(broker) as server:
        with Talk(server.address) as talk:
            talk.send(ApiKey.Produce, VERSION, request(batch(1), count, acks))
        partition = broker.topics["t"].partitions[0]
        until = time.monotonic() + PATIENCE
        while partition.end_offset < count and time.monotonic() < until:
            time.sleep(0.01)
        assert partition.end_offset == count
        with Talk(server.address) as talk:
            assert talk.is_served()
