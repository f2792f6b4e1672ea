"""Old produces: what the gateway sends to the cluster, and how it passes the response to the
producer."""

from typing import Any

import pytest

from downconvert.broker import ErrorCode
from downconvert.gateway.session.exchanges import TURN, Ask
from downconvert.gateway.session.producing import produce
from downconvert.protocol.schemas import ApiKey, Message
from records import MemoryRecords, read
from tests.downconvert.gateway.talk import message_set

SERVED = range(13)
NOW = 1_700_000_000.0
BROKEN = message_set(1, b"broken")[:-1] + b"\xff"


def body(*partitions: tuple[str, int, bytes | None], acks: int = -1) -> Message:
    topics: dict[str, Message] = {}
    for name, index, records in partitions:
        topic = topics.setdefault(name, Message(name=name, partition_data=[]))
        topic.partition_data.append(Message(index=index, records=records))
    return Message(acks=acks, timeout_ms=4321, topic_data=list(topics.values()))


def response(*parts: tuple[str, int, int], throttle: int = 0) -> Message:
    """The cluster's response: topic, partition and error code. Offsets are from 100 on."""
    return Message(
        throttle_time_ms=throttle,
        responses=[
            Message(
                name=name,
                partition_responses=[
                    Message(index=index, error_code=code, base_offset=100 + index)
                ],
            )
            for name, index, code in parts
        ],
    )


def run(asked: Message, *responses: Message, served: range = SERVED) -> tuple[Any, list[Any]]:
    """The response to the producer, and what was yielded."""
    steps, left, said = produce(asked, served, NOW), list(responses), None
    yielded: list[Any] = []
    while True:
        try:
            step = next(steps) if said is None else steps.send(said)
        except StopIteration as end:
            assert not left
            return end.value, yielded
        yielded.append(step)
        said = left.pop(0) if isinstance(step, Ask) else None


def results(found: Message) -> list[tuple[str, int, int, int]]:
    """Topic, partition, error code and base offset."""
    return [
        (topic.name, one.index, one.error_code, one.base_offset)
        for topic in found.responses
        for one in topic.partition_responses
    ]


@pytest.mark.parametrize(
    ("served", "version"),
    [
        (range(13), 9),  # later responses may name brokers
        (range(10), 9),
        (range(9), 8),
        (range(3, 6), 5),
        (range(10, 13), 10),
        (range(2), 3),
    ],
)
def test_the_cluster_is_asked_in_a_version_whose_responses_name_no_broker(
    served: range, version: int
) -> None:
    said = response(("t", 0, 0))
    _, (turn, ask) = run(body(("t", 0, message_set(0, b"a"))), said, served=served)
    assert turn is TURN  # converting takes time
    assert (ask.api, ask.version) == (ApiKey.Produce, version)


def test_the_cluster_gets_what_was_accepted_as_the_producer_wanted_it_written() -> None:
    asked = body(
        ("t", 3, message_set(0, b"a", b"b")),
        ("t", 1, BROKEN),
        ("u", 2, BROKEN),
        ("v", 1, message_set(1, b"c")),
        ("v", 4, None),
    )
    found, yielded = run(asked, response(("v", 1, 0), ("t", 3, 0)))
    sent = yielded[-1].body
    assert (sent.acks, sent.timeout_ms) == (-1, 4321)
    values = {
        (topic.name, one.index): [record.value for record in read(MemoryRecords(one.records))]
        for topic in sent.topic_data
        for one in topic.partition_data
    }
    assert values == {("t", 3): [b"a", b"b"], ("v", 1): [b"c"]}
    assert yielded[:-1] == [TURN] * 5
    assert results(found) == [
        ("t", 3, 0, 103),
        ("t", 1, ErrorCode.CORRUPT_MESSAGE, -1),
        ("u", 2, ErrorCode.CORRUPT_MESSAGE, -1),
        ("v", 1, 0, 101),
        ("v", 4, 0, -1),
    ]


def test_the_cluster_is_not_asked_for_nothing() -> None:
    found, yielded = run(body(("t", 0, BROKEN), ("u", 0, BROKEN)))
    assert yielded == [TURN, TURN]
    assert [code for _, _, code, _ in results(found)] == [ErrorCode.CORRUPT_MESSAGE] * 2


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_TIMESTAMP, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.POLICY_VIOLATION, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.NONE, ErrorCode.NONE),
    ],
)
def test_codes_of_the_cluster_become_codes_that_old_producers_handle(
    said: ErrorCode, code: ErrorCode
) -> None:
    found, _ = run(body(("t", 0, message_set(0, b"a"))), response(("t", 0, said)))
    assert results(found) == [("t", 0, code, 100)]


@pytest.mark.parametrize(
    ("size", "code"), [(4_000_000, ErrorCode.NONE), (4_300_000, ErrorCode.MESSAGE_TOO_LARGE)]
)
def test_only_messages_that_no_cluster_takes_are_refused_for_their_size(
    size: int, code: ErrorCode
) -> None:
    responses = [response(("t", 0, 0))] if code is ErrorCode.NONE else []
    found, _ = run(body(("t", 0, message_set(0, bytes(size)))), *responses)
    assert results(found)[0][2] == code


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_producer_without_acks_learns_of_refusals_only_by_the_end(
    is_refused: bool,
) -> None:
    second = BROKEN if is_refused else message_set(0, b"b")
    asked = body(("t", 0, message_set(0, b"a")), ("t", 1, second), acks=0)
    found, yielded = run(asked, Message())
    assert yielded[-1].body.acks == 0
    assert (found is None) is is_refused
    if found is not None:
        assert found.throttle_time_ms == 0


def test_a_refused_producer_that_expects_a_response_gets_one() -> None:
    found, _ = run(body(("t", 0, BROKEN), acks=1))
    assert found is not None


def test_the_producer_gets_the_clusters_throttle_time() -> None:
    found, _ = run(body(("t", 0, message_set(0, b"a"))), response(("t", 0, 0), throttle=77))
    assert found.throttle_time_ms == 77


def test_nothing_is_acknowledged_that_the_cluster_has_not_answered_for() -> None:
    asked = body(("t", 0, message_set(0, b"a")), ("t", 1, message_set(0, b"b")))
    found, _ = run(asked, response(("t", 1, 0)))
    assert results(found) == [("t", 0, ErrorCode.REQUEST_TIMED_OUT, -1), ("t", 1, 0, 101)]


def test_the_last_of_two_sets_for_a_partition_decides_what_is_acknowledged() -> None:
    """As in Kafka, which keeps one set of each partition."""
    good = message_set(0, b"a")
    found, _ = run(body(("t", 0, good), ("t", 0, BROKEN)), response(("t", 0, 0)))
    assert results(found) == [("t", 0, ErrorCode.CORRUPT_MESSAGE, -1)] * 2
    found, _ = run(body(("t", 0, BROKEN), ("t", 0, good)), response(("t", 0, 0)))
    assert results(found) == [("t", 0, 0, 100)] * 2
