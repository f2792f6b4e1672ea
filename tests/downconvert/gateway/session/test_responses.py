"""Requests to a cluster, and unusual responses that a broker of ours would not give.

Sans I/O: the exchanges are stepped, and the cluster's responses made by hand."""

from collections.abc import Generator
from io import BytesIO
from typing import Any

import pytest

from downconvert import ConversionPolicy
from downconvert.gateway.session import fetching, producing, recoding
from downconvert.gateway.session.exchanges import Ask, Turn
from downconvert.gateway.session.fetching import RESPONSE_MAX
from downconvert.gateway.session.translation import translate
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from records import MemoryRecords, read
from tests.downconvert.gateway.talk import fetch_body, message_set, produce_body
from tests.downconvert.storage.logs import batch

SERVED = range(4, 18)


def drive(steps: Generator[Any, Any, Any], *responses: Message) -> tuple[Any, list[Ask]]:
    """The reply to the client, and what the cluster was asked; it gives these responses in turn."""
    asked: list[Ask] = []
    result: Message | None = None
    while True:
        try:
            step = steps.send(result)
        except StopIteration as end:
            return end.value, asked
        result = None
        if not isinstance(step, Turn):
            assert isinstance(step, Ask)
            asked.append(step)
            result = responses[len(asked) - 1]


def part(index: int, records: bytes, end: int, stable: int | None = None) -> Message:
    return Message(
        partition_index=index,
        error_code=0,
        high_watermark=end,
        last_stable_offset=end if stable is None else stable,
        aborted_transactions=[],
        records=MemoryRecords(records),
    )


def fetch_response(*parts: Message, throttle: int = 0) -> Message:
    topics = [Message(topic="t", partitions=list(parts))]
    return Message(error_code=0, throttle_time_ms=throttle, session_id=0, responses=topics)


def old_fetch(body: Message, *responses: Message, version: int = 2) -> tuple[Any, list[Ask]]:
    steps = fetching.fetch(body, version, SERVED, lambda _topic: ConversionPolicy())
    return drive(steps, *responses)


def new_fetch(body: Message, *responses: Message) -> tuple[Any, list[Ask]]:
    body.__dict__.setdefault("isolation_level", 0)
    body.session_id, body.session_epoch, body.forgotten_topics_data = 0, 0, []
    return drive(recoding.fetch(body, 9, SERVED, lambda _topic: ConversionPolicy()), *responses)


def bodies(asked: list[Ask]) -> list[Message]:
    found = [ask.body for ask in asked]
    assert None not in found
    return [body for body in found if body is not None]


def test_partitions_that_got_nothing_beside_others_are_asked_for_alone() -> None:
    cut = batch(0)[:-1]
    _, asked = old_fetch(
        fetch_body(0, 0),
        fetch_response(part(0, cut, 1), part(1, cut, 1)),
        fetch_response(part(0, batch(0), 1)),
        fetch_response(part(1, batch(0), 1)),
    )
    named = [[one.partition for one in body.topics[0].partitions] for body in bodies(asked)]
    assert named == [[0, 1], [0], [1]]


def test_the_longest_throttle_time_of_several_responses_counts() -> None:
    cut = batch(0)[:-1]
    response, _ = old_fetch(
        fetch_body(0, 0),
        fetch_response(part(0, cut, 1), part(1, batch(0), 1), throttle=70),
        fetch_response(part(0, batch(0), 1), throttle=20),
    )
    assert response.throttle_time_ms == 70


@pytest.mark.parametrize("fetch", [old_fetch, new_fetch])
def test_no_more_is_asked_of_the_cluster_than_a_response_may_have(fetch: Any) -> None:
    body = fetch_body(0)
    body.max_bytes = 2**31 - 1
    _, asked = fetch(body, fetch_response(part(0, batch(0), 1)))
    assert [one.max_bytes for one in bodies(asked)] == [RESPONSE_MAX]
    body = fetch_body(0)
    body.max_bytes = 1000
    _, asked = fetch(body, fetch_response(part(0, batch(0), 1)))
    assert [one.max_bytes for one in bodies(asked)] == [1000]


def refused(index: int, code: int) -> Message:
    one = part(index, b"", -1)
    one.error_code = code
    return one


def offsets_of(response: Message, index: int = 0) -> list[int]:
    channel = BytesIO()
    send = response.responses[0].partitions[index].records
    while send and not send.completed:
        send.write_to(channel)
    return [record.offset for record in read(MemoryRecords(channel.getvalue()))]


def test_an_error_behind_records_is_left_to_the_next_fetch() -> None:
    response, asked = old_fetch(
        fetch_body(0),
        fetch_response(part(0, batch(0), 9)),
        fetch_response(refused(0, ErrorCode.CORRUPT_MESSAGE)),
    )
    (one,) = response.responses[0].partitions
    assert (one.error_code, offsets_of(response), len(asked)) == (0, [0], 2)


def test_a_failed_response_gives_its_error_to_each_partition_without_records() -> None:
    """The same holds for partitions that had records before: their next fetch gets the error."""
    failed = Message(error_code=-1, throttle_time_ms=0, session_id=0, responses=[])
    response, _ = old_fetch(fetch_body(0, 0), failed)
    assert [one.error_code for one in response.responses[0].partitions] == [-1, -1]
    response, _ = old_fetch(fetch_body(0), fetch_response(part(0, batch(0), 9)), failed)
    assert [one.error_code for one in response.responses[0].partitions] == [0]
    assert offsets_of(response) == [0]


def test_a_partition_beyond_the_limit_is_left_to_the_next_fetch() -> None:
    small, large = batch(0), batch(1, size=20_000)
    for limit, found in ((len(small) + len(large) - 1, [0]), (len(small) + len(large), [0, 1])):
        response, asked = old_fetch(
            fetch_body(0, max_bytes=limit, wait=500),
            fetch_response(part(0, small, 2)),
            fetch_response(part(0, large, 2)),
            version=3,
        )
        assert (offsets_of(response), len(asked)) == (found, 2)
        assert bodies(asked)[1].topics[0].partitions[0].partition_max_bytes == limit - len(small)
        assert [(one.max_wait_ms, one.min_bytes) for one in bodies(asked)] == [(500, 1), (0, 0)]


def test_partitions_that_are_read_on_are_asked_for_together() -> None:
    _, asked = old_fetch(
        fetch_body(0, 0),
        fetch_response(part(0, batch(0), 2), part(1, batch(0), 2)),
        fetch_response(part(0, batch(1), 2), part(1, batch(1), 2)),
    )
    named = [[one.partition for one in body.topics[0].partitions] for body in bodies(asked)]
    assert named == [[0, 1], [0, 1]]


def test_a_committed_fetch_of_an_old_client_ends_at_the_last_stable_offset() -> None:
    policy = ConversionPolicy(isolation="read_committed")
    steps = fetching.fetch(fetch_body(0), 2, SERVED, lambda _topic: policy)
    response, asked = drive(steps, fetch_response(part(0, batch(0), end=9, stable=1)))
    assert (offsets_of(response), len(asked)) == ([0], 1)
    assert response.responses[0].partitions[0].high_watermark == 9


def test_a_fetch_is_committed_if_any_of_its_topics_is() -> None:
    policies = {"t": ConversionPolicy(), "u": ConversionPolicy(isolation="read_committed")}
    for names, level in ((["t"], 0), (["u"], 1), (["t", "u"], 1)):
        body = fetch_body(0)
        body.topics = [Message(topic=name, partitions=body.topics[0].partitions) for name in names]
        steps = fetching.fetch(body, 2, SERVED, policies.__getitem__)
        ends = [Message(topic=name, partitions=[part(0, b"", 0)]) for name in names]
        _, asked = drive(steps, Message(**{**vars(fetch_response()), "responses": ends}))
        assert [one.isolation_level for one in bodies(asked)] == [level]


@pytest.mark.parametrize(
    ("other", "waits"),
    [
        (part(1, b"", 0), [(500, 1), (500, 1)]),  # nothing for the client: it waits, once more
        (refused(1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), [(500, 1)]),
        (part(1, batch(0), 1), [(500, 1)]),
    ],
    ids=["nothing", "an error", "records"],
)
def test_a_fetch_waits_again_only_if_all_it_found_was_nothing_for_the_client(
    other: Message, waits: list[tuple[int, int]]
) -> None:
    first = fetch_response(part(0, skipped(5), 5), other)
    again = fetch_response(part(0, b"", 5), part(1, b"", 0))
    _, asked = old_fetch(fetch_body(1, 0, wait=500), first, again)
    assert [(one.max_wait_ms, one.min_bytes) for one in bodies(asked)] == waits


def test_a_fetch_at_the_end_asks_once() -> None:
    response, asked = old_fetch(fetch_body(5, wait=500), fetch_response(part(0, b"", 5)))
    assert len(asked) == 1
    assert response.responses[0].partitions[0].records == b""


def test_a_session_that_is_left_names_no_partition_to_forget() -> None:
    body = fetch_body(0)
    body.isolation_level, body.session_id, body.session_epoch = 0, 7, -1
    body.forgotten_topics_data = [Message(topic="t", partitions=[1])]
    policy = ConversionPolicy()
    steps = recoding.fetch(body, 9, SERVED, lambda _topic: policy)
    _, asked = drive(steps, fetch_response(part(0, batch(0), 1)))
    (sent,) = bodies(asked)
    assert (sent.session_id, sent.session_epoch, sent.forgotten_topics_data) == (0, -1, [])


def skipped(end: int) -> bytes:
    """A batch that has nothing for a client that asks at 1: its last record was compacted away."""
    return batch(0, last_offset=end - 1)


def test_the_rest_of_a_range_is_requested_without_a_wait() -> None:
    body = fetch_body(1, wait=500)
    body.isolation_level = 0
    _, asked = new_fetch(
        body, fetch_response(part(0, skipped(5), 6)), fetch_response(part(0, batch(5), 6))
    )
    assert [one.max_wait_ms for one in bodies(asked)] == [500, 0]
    assert bodies(asked)[1].topics[0].partitions[0].fetch_offset == 5


def test_a_committed_client_is_read_on_for_up_to_the_last_stable_offset() -> None:
    body = fetch_body(1)
    body.isolation_level = 1
    _, asked = new_fetch(body, fetch_response(part(0, skipped(5), end=9, stable=5)))
    assert len(asked) == 1


@pytest.mark.parametrize("acks", [1, -1])
def test_a_producer_hears_how_long_the_cluster_throttles_it(acks: int) -> None:
    body = produce_body(message_set(1, b"a"), acks)
    one = Message(index=0, error_code=0, base_offset=3)
    result = Message(throttle_time_ms=40, responses=[Message(name="t", partition_responses=[one])])
    response, _ = drive(producing.produce(body, range(3, 12), 1.0), result)
    assert response.throttle_time_ms == 40


def test_the_earliest_offset_is_the_start_whatever_the_cluster_finds_for_it() -> None:
    """Records may have been deleted between the two responses."""
    one = Message(partition_index=0, timestamp=-2, max_num_offsets=9)
    body = Message(replica_id=-1, topics=[Message(name="t", partitions=[one])])

    def found(offset: int) -> Message:
        part = Message(partition_index=0, error_code=0, offset=offset, timestamp=-1)
        return Message(topics=[Message(name="t", partitions=[part])])

    response, _ = drive(translate(ApiKey.ListOffsets, body, 0, 5), found(3), found(7))
    assert response.topics[0].partitions[0].old_style_offsets == [7]
