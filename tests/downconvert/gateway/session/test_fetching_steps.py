"""Old fetches and the cluster, step by step: what it is asked, and when it is asked again."""

from collections.abc import Generator
from io import BytesIO
from typing import Any

import pytest

from downconvert import ConversionPolicy
from downconvert.broker import ErrorCode
from downconvert.gateway.session import fetching
from downconvert.gateway.session.exchanges import Ask, Turn
from downconvert.gateway.session.fetching import RESPONSE_MAX, can_serve, fetch
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec, MemoryRecords, Record, build, read
from records.formats import MAGIC_AT
from tests.damage import flipped
from tests.downconvert.gateway.talk import marker
from tests.downconvert.storage.logs import batch

SERVED = range(4, 19)
LIMIT = 40_000  # bytes of a partition
WAIT, LEAST = 700, 9
COMMITTED = ConversionPolicy(isolation="read_committed")
UNKNOWN_THEN = ErrorCode.FENCED_LEADER_EPOCH  # by old clients


def body(*partitions: tuple[str, int, int], **fields: Any) -> Message:
    """`partitions`: topic, number, offset."""
    topics: dict[str, Message] = {}
    for name, number, offset in partitions:
        topic = topics.setdefault(name, Message(topic=name, partitions=[]))
        topic.partitions.append(
            Message(partition=number, fetch_offset=offset, partition_max_bytes=LIMIT)
        )
    known = {"replica_id": -1, "max_wait_ms": WAIT, "min_bytes": LEAST, "max_bytes": 1 << 25}
    return Message(**known | fields, topics=list(topics.values()))


def part(records: bytes | None = None, high: int = 9, number: int = 0, **fields: Any) -> Message:
    known = {
        "partition_index": number,
        "error_code": 0,
        "high_watermark": high,
        "last_stable_offset": high,
        "aborted_transactions": None,
        "records": None if records is None else MemoryRecords(records),
    }
    return Message(**known | fields)


def fetch_response(*parts: Message, throttle: int = 0, code: int = 0, topic: str = "t") -> Message:
    responses = [Message(topic=topic, partitions=list(parts))]
    return Message(throttle_time_ms=throttle, error_code=code, responses=responses)


def run(
    asked: Message,
    *responses: Message,
    version: int = 3,
    policies: dict[str, ConversionPolicy] | None = None,
) -> tuple[Message, list[Any]]:
    """The client's response, and the bodies that the cluster was asked with: one for each
    response."""
    known = policies or {}
    steps: Generator[Ask | Turn, Any, Message] = fetch(
        asked, version, SERVED, lambda name: known.get(name, ConversionPolicy())
    )
    left, result = list(responses), None
    bodies: list[Any] = []
    while True:
        try:
            step = steps.send(result)
        except StopIteration as end:
            assert not left, "the cluster was asked less often"
            found: Message = end.value
            return found, bodies
        result = None
        if isinstance(step, Ask):
            bodies.append(step.body)
            assert left, f"the cluster was asked again: {step.body}"
            result = left.pop(0)


def asked_for(body: Any) -> list[tuple[str, int, int, int]]:
    """Topic, partition, offset and limit."""
    return [
        (topic.topic, one.partition, one.fetch_offset, one.partition_max_bytes)
        for topic in body.topics
        for one in topic.partitions
    ]


def offsets(one: Message) -> list[int]:
    if not one.records:
        return []
    channel = BytesIO()
    for send in one.records.parts:
        while not send.completed:
            send.write_to(channel)
    return [record.offset for record in read(MemoryRecords(channel.getvalue()))]


@pytest.mark.parametrize(
    ("served", "can"),
    [
        (range(4, 19), [True] * 4 + [False]),
        (range(4, 12), [True] * 4 + [False]),
        (range(12, 13), [True] * 4 + [False]),
        (range(13, 19), [False] * 5),  # by topic ids only
    ],
)
def test_old_formats_are_translated_for_clusters_that_know_topics_by_name(
    served: range, can: list[bool]
) -> None:
    assert [can_serve(version, served) for version in range(5)] == can


@pytest.mark.parametrize(("newest", "version"), [(11, 11), (12, 12), (13, 12), (18, 12)])
def test_the_cluster_is_asked_in_its_newest_version_with_names(newest: int, version: int) -> None:
    step = next(fetch(body(("t", 0, 5)), 1, range(4, newest + 1), lambda _: COMMITTED))
    assert isinstance(step, Ask)
    assert (step.api, step.version) == (ApiKey.Fetch, version)


@pytest.mark.parametrize(("most", "asked"), [(5000, 5000), (1 << 30, RESPONSE_MAX)])
def test_the_first_request_asks_as_a_consumer_for_what_its_client_asked_for(
    most: int, asked: int
) -> None:
    partitions = (("t", 0, 5), ("u", 3, 6), ("u", 1, 7))
    _, (one,) = run(body(*partitions, replica_id=8, max_bytes=most), fetch_response(code=3))
    assert asked_for(one) == [(*partition, LIMIT) for partition in partitions]
    assert (one.replica_id, one.session_epoch, one.isolation_level) == (-1, -1, 0)
    assert (one.max_wait_ms, one.min_bytes, one.max_bytes) == (WAIT, LEAST, asked)


@pytest.mark.parametrize(("committed", "level"), [("", 0), ("t", 1), ("u", 1), ("tu", 1)])
def test_aborted_records_are_named_if_any_topic_of_the_request_needs_them(
    committed: str, level: int
) -> None:
    policies = dict.fromkeys(committed, COMMITTED)
    _, (one,) = run(body(("t", 0, 5), ("u", 0, 5)), fetch_response(code=3), policies=policies)
    assert one.isolation_level == level


@pytest.mark.parametrize(
    ("result", "codes", "watermarks"),
    [
        (fetch_response(code=UNKNOWN_THEN), [6, 6], [-1, -1]),  # of the whole response
        (fetch_response(), [3, 3], [-1, -1]),  # it names no partition
        (fetch_response(part(high=5)), [0, 3], [5, -1]),
        (fetch_response(part(high=5), part(error_code=UNKNOWN_THEN, number=1)), [0, 6], [5, 9]),
        (
            fetch_response(part(batch(5), high=6), part(number=1, high=5), code=29),
            [29, 29],
            [-1, -1],
        ),
    ],
)
def test_errors_have_codes_that_old_clients_know(
    result: Message, codes: list[int], watermarks: list[int]
) -> None:
    (topic,) = run(body(("t", 0, 5), ("t", 1, 5)), result)[0].responses
    assert [one.error_code for one in topic.partitions] == codes
    assert [one.high_watermark for one in topic.partitions] == watermarks
    assert all(one.records == b"" for one in topic.partitions)  # null breaks some clients


@pytest.mark.parametrize(
    "second",
    [
        fetch_response(part(error_code=6)),
        fetch_response(code=29),
        fetch_response(),
        fetch_response(part()),
        fetch_response(part(flipped(batch(6), 8 * MAGIC_AT))),
        fetch_response(part(batch(6, size=2 * LIMIT))),
    ],
    ids=["an error", "an error of all", "not named", "nothing", "damage", "too much"],
)
def test_found_records_are_sent_whatever_follows_them(second: Message) -> None:
    found, (_, again) = run(body(("t", 0, 5)), fetch_response(part(batch(5))), second)
    (one,) = found.responses[0].partitions
    assert (one.error_code, one.high_watermark, offsets(one)) == (0, 9, [5])
    assert asked_for(again) == [("t", 0, 6, LIMIT - len(batch(5)))]


def test_partitions_with_records_are_done_when_the_cluster_has_no_more() -> None:
    first = fetch_response(part(batch(5)), part(batch(5), number=1))
    found, _ = run(body(("t", 0, 5), ("t", 1, 5)), first, fetch_response(part(), part(number=1)))
    assert [offsets(one) for one in found.responses[0].partitions] == [[5], [5]]


def test_a_partition_that_got_nothing_along_with_others_is_asked_for_alone() -> None:
    nothing = fetch_response(part(), part(number=1))
    found, asked = run(
        body(("t", 0, 5), ("t", 1, 5)),
        nothing,
        fetch_response(part(batch(5), high=6)),
        fetch_response(part(batch(5)[:40], number=1)),  # no whole batch
    )
    assert [[one[1] for one in asked_for(body)] for body in asked] == [[0, 1], [0], [1]]
    assert [offsets(one) for one in found.responses[0].partitions] == [[5], []]


def test_all_that_are_not_done_are_asked_for_while_any_makes_progress() -> None:
    found, asked = run(
        body(("t", 0, 5), ("t", 1, 5), ("t", 2, 5)),
        fetch_response(part(batch(5), high=6), part(batch(5), high=7, number=1), part(number=2)),
        fetch_response(part(batch(6), high=7, number=1), part(batch(5), high=6, number=2)),
    )
    assert [[one[1] for one in asked_for(body)] for body in asked] == [[0, 1, 2], [1, 2]]
    assert [offsets(one) for one in found.responses[0].partitions] == [[5], [5, 6], [5]]


def test_batches_without_records_take_no_room() -> None:
    _, (_, again) = run(
        body(("t", 0, 5)), fetch_response(part(marker(5))), fetch_response(part(batch(6), high=7))
    )
    assert asked_for(again) == [("t", 0, 6, LIMIT)]
    assert (again.max_wait_ms, again.min_bytes) == (0, 0)


def test_damage_after_good_batches_ends_the_response() -> None:
    """Nothing may follow it: the client would skip what is damaged."""
    damaged = batch(5, codec=Codec.GZIP) + flipped(batch(6, codec=Codec.GZIP), 8 * MAGIC_AT)
    found, _ = run(body(("t", 0, 5)), fetch_response(part(damaged + batch(7))))
    assert offsets(found.responses[0].partitions[0]) == [5]


def test_a_fetch_waits_again_after_skipped_batches_at_the_end() -> None:
    once = body(("t", 0, 5), ("t", 1, 5))
    skipped = fetch_response(part(marker(5), high=6), part(high=5, number=1))
    more = fetch_response(part(marker(6), high=7), part(high=5, number=1))
    found, (_, again) = run(once, skipped, more)
    assert (again.max_wait_ms, again.min_bytes) == (WAIT, LEAST)
    assert [one[1:3] for one in asked_for(again)] == [(0, 6), (1, 5)]
    assert [one.high_watermark for one in found.responses[0].partitions] == [7, 5]


@pytest.mark.parametrize(
    "other",
    [part(error_code=6, number=1), part(batch(5), high=6, number=1)],
    ids=["an error", "records"],
)
def test_nothing_is_waited_for_if_the_client_gets_anything(other: Message) -> None:
    once = body(("t", 0, 5), ("t", 1, 5))
    found, asks = run(once, fetch_response(part(marker(5), high=6), other))
    assert len(asks) == 1
    first, second = found.responses[0].partitions
    assert (first.high_watermark, second.error_code) == (6, other.error_code)


def test_a_fetch_at_the_end_asks_the_cluster_once() -> None:
    found, asks = run(body(("t", 0, 5)), fetch_response(part(high=5)))
    assert len(asks) == 1
    assert offsets(found.responses[0].partitions[0]) == []


@pytest.mark.parametrize(("stable", "count"), [(6, 1), (7, 2)])
def test_a_committed_fetch_reads_on_up_to_the_last_stable_offset(stable: int, count: int) -> None:
    first = part(batch(5), high=9, last_stable_offset=stable)
    found, _ = run(
        body(("t", 0, 5)),
        *[fetch_response(first), fetch_response(part(batch(6), high=9, last_stable_offset=7))][
            :count
        ],
        policies={"t": COMMITTED},
    )
    assert len(offsets(found.responses[0].partitions[0])) == count


@pytest.mark.parametrize("throttles", [(0, 30), (30, 0), (20, 30)])
def test_the_client_gets_the_longest_throttle_time(throttles: tuple[int, int]) -> None:
    first, second = throttles
    found, _ = run(
        body(("t", 0, 5)),
        fetch_response(part(batch(5)), throttle=first),
        fetch_response(part(), throttle=second),
    )
    assert found.throttle_time_ms == 30


def test_topics_and_partitions_are_answered_in_the_order_of_the_request() -> None:
    found, _ = run(body(("u", 3, 5), ("t", 1, 6), ("u", 1, 7)), fetch_response(code=3))
    named = [(t.topic, [one.partition_index for one in t.partitions]) for t in found.responses]
    assert named == [("u", [3, 1]), ("t", [1])]


def test_a_response_ends_at_its_clients_limit_for_all_partitions_together() -> None:
    size = len(batch(0))
    asked = body(*(("t", number, 0) for number in range(4)), max_bytes=size + 5)
    empty = [part(number=number) for number in range(4)]
    found, bodies = run(
        asked,
        fetch_response(part(batch(0)), *empty[1:]),
        fetch_response(part(batch(1), number=1), *empty[2:]),
    )
    assert [one.max_bytes for one in bodies] == [size + 5, 5]
    (topic,) = found.responses
    assert [offsets(one) for one in topic.partitions] == [[0], [1], [], []]
    assert not any(one.error_code for one in topic.partitions)


@pytest.mark.parametrize(("more", "requests"), [(-1, 1), (0, 1), (1, 2)])
def test_a_cluster_is_not_asked_for_no_bytes(more: int, requests: int) -> None:
    """It would answer with a batch, which the client's limit leaves no room for."""
    asked = body(("t", 0, 0), ("t", 1, 0), max_bytes=len(batch(0)) + more)
    responses = [
        fetch_response(part(batch(0)), part(number=1)),
        fetch_response(part(batch(1), number=1)),
    ]
    found, bodies = run(asked, *responses[:requests])
    assert all(one.max_bytes for one in bodies)
    (topic,) = found.responses
    assert [offsets(one) for one in topic.partitions] == [[0], [1] if requests > 1 else []]


@pytest.mark.parametrize(("more", "expected"), [(-1, [0]), (0, [0, 1])])
def test_a_range_that_just_fills_a_partitions_limit_is_joined(
    more: int, expected: list[int]
) -> None:
    asked = body(("t", 0, 0))
    asked.topics[0].partitions[0].partition_max_bytes = len(batch(0) + batch(1)) + more
    found, bodies = run(asked, fetch_response(part(batch(0))), fetch_response(part(batch(1))))
    assert [limit for one in bodies for *_, limit in asked_for(one)][1] == len(batch(1)) + more
    (topic,) = found.responses
    assert [offsets(one) for one in topic.partitions] == [expected]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NONE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_an_offset_is_out_of_range_only_if_the_client_asked_for_it(
    code: ErrorCode, told: ErrorCode
) -> None:
    """If the log is truncated while batches without records are skipped, the client's own offset
    may still be there. Told otherwise, it would begin again."""
    waited = [fetch_response(part(error_code=code))] if told is ErrorCode.NONE else []
    found, bodies = run(
        body(("t", 0, 0)),
        fetch_response(part(marker(0))),
        fetch_response(part(error_code=code)),
        *waited,
    )
    assert [asked_for(one)[0][2] for one in bodies][:2] == [0, 1]
    (one,) = found.responses[0].partitions
    assert (one.error_code, offsets(one)) == (told, [])
    found, _ = run(body(("t", 0, 1)), fetch_response(part(error_code=code)))
    assert found.responses[0].partitions[0].error_code == code


@pytest.mark.parametrize("most", [0, -1])
def test_a_limit_of_no_bytes_still_leads_over_batches_without_records(most: int) -> None:
    found, bodies = run(
        body(("t", 0, 0), max_bytes=most),
        fetch_response(part(marker(0))),
        fetch_response(part(batch(1))),
    )
    assert [one.max_bytes for one in bodies] == [most, most]
    assert offsets(found.responses[0].partitions[0]) == [1]


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize(
    ("room", "found"),
    [
        (1_000_000, [[0, 1, 2], [0, 1, 2], [0, 1, 2]]),
        (3_500, [[0, 1, 2], [], []]),  # no message is cut off alone
        (4_500, [[0, 1, 2], [0], []]),
        (2_500, [[0, 1], [], []]),
        (10, [[0], [], []]),  # else its client would never get further
    ],
)
def test_converted_records_never_become_more_than_a_response_may_have(
    version: int, room: int, found: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size of a response is a number of 32 bits, and compressed batches expand to any size."""
    monkeypatch.setattr(fetching, "CONVERTED_MAX", room)
    records = [Record(offset, 1, value=bytes(1_000)) for offset in range(3)]
    data = build(records, magic=2, codec=Codec.GZIP)
    parts = [part(bytes(data), high=3, number=number) for number in range(3)]
    asked = body(*(("t", number, 0) for number in range(3)))
    plain = ConversionPolicy(recode={"gzip": "none"})
    response, _ = run(asked, fetch_response(*parts), version=version, policies={"t": plain})
    (topic,) = response.responses
    assert [offsets(one) for one in topic.partitions] == found
    assert not any(one.error_code for one in topic.partitions)
