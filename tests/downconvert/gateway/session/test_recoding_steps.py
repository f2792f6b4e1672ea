"""Fetch v4-v9 and the cluster, step by step: sessions, damage, and batches to be read on after."""

from io import BytesIO
from random import Random
from typing import Any

import pytest

from downconvert import ConversionPolicy
from downconvert.broker import ErrorCode
from downconvert.conversion import recode
from downconvert.gateway.session import recoding, turns
from downconvert.gateway.session.exchanges import TURN_SIZE
from downconvert.gateway.session.fetching import RESPONSE_MAX
from downconvert.protocol.schemas import Message
from records import (
    Codec,
    MemoryRecords,
    Record,
    build,
    build_empty,
    read,
)
from records.formats import MAGIC_AT
from tests.damage import flipped
from tests.downconvert.gateway.talk import fetch_body, marker
from tests.downconvert.storage.logs import batch

from .test_responses import drive

SERVED = range(4, 18)
TARGET = ConversionPolicy(recode={"zstd": "lz4"})
WAIT = 700
END = 9


def body(*offsets: int, committed: bool = False, **fields: Any) -> Message:
    """A fetch as fetch_body makes it, of a version with sessions."""
    known = vars(fetch_body(*offsets, max_bytes=5000, wait=WAIT)) | {"min_bytes": 3}
    known |= {"isolation_level": int(committed), "session_id": 0, "session_epoch": -1}
    return Message(**known | fields)


def part(records: bytes | None, *, number: int = 0, **fields: Any) -> Message:
    known = {
        "partition_index": number,
        "error_code": 0,
        "high_watermark": END,
        "last_stable_offset": END - 2,
        "aborted_transactions": None,
        "records": None if records is None else MemoryRecords(records),
    }
    return Message(**known | fields)


def fetch_response(*parts: Message, code: int = 0) -> Message:
    topics = [Message(topic="t", partitions=list(parts))]
    return Message(error_code=code, throttle_time_ms=0, session_id=66, responses=topics)


def run(
    asked: Message, *responses: Message, version: int = 9, policy: ConversionPolicy = TARGET
) -> tuple[Message, list[Any]]:
    """The client's response, and what the cluster was asked with, once for each response."""
    steps = recoding.fetch(asked, version, SERVED, lambda _: policy)
    found, asks = drive(steps, *responses)
    assert len(asks) == len(responses)
    return found, [ask.body for ask in asks]


def read_by_client(one: Message) -> list[tuple[int, Codec]]:
    """The first offset and the codec of each batch."""
    data = one.records
    if not isinstance(data, bytes | memoryview):
        channel = BytesIO()
        while not data.completed:
            data.write_to(channel)
        data = channel.getvalue()
    log = MemoryRecords(data)
    assert list(read(log)) is not None
    return [(header.base_offset, header.codec) for header in log.batches()]


def emptied(offset: int, last: int) -> bytes:
    """A batch that compaction has left without records from `offset + 1` on."""
    return batch(offset, last_offset=last)


@pytest.mark.parametrize("fetch", ["recoded", "as it is"])
@pytest.mark.parametrize(
    ("version", "session_id", "epoch", "continues"),
    [
        (6, 5, 3, False),  # the version has no sessions
        (7, 5, 1, True),
        (9, 5, 3, True),
        (9, 5, 0, False),
        (9, 5, -1, False),
        (9, 0, 3, False),
        (9, 0, 0, False),
    ],
)
def test_only_a_fetch_that_continues_a_session_is_refused(
    fetch: str, version: int, session_id: int, epoch: int, continues: bool
) -> None:
    asked = body(0, session_id=session_id, session_epoch=epoch, forgotten_topics_data=[1])
    if fetch == "recoded":
        steps = recoding.fetch(asked, version, SERVED, lambda _: TARGET)
    else:
        steps = recoding.as_it_is(asked, version)
    found, asks = drive(steps, fetch_response(part(batch(0))))
    if continues:
        assert (found.error_code, found.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
        assert not asks
        return
    assert (found.error_code, found.session_id) == (0, 0)
    (ask,) = asks
    assert ask.version == (12 if fetch == "recoded" else version)
    sent = ask.body
    assert sent is not None
    assert (sent.session_id, sent.session_epoch, sent.forgotten_topics_data) == (0, -1, [])
    assert read_by_client(found.responses[0].partitions[0]) == [(0, Codec.NONE)]


@pytest.mark.parametrize(("most", "asked"), [(5000, 5000), (1 << 30, RESPONSE_MAX)])
def test_no_more_is_asked_for_than_a_response_may_hold(most: int, asked: int) -> None:
    _, (one,) = run(body(0, max_bytes=most), fetch_response(part(batch(0))))
    assert one.max_bytes == asked


@pytest.mark.parametrize("records", [None, b""])
def test_absent_records_become_an_empty_record_set(records: bytes | None) -> None:
    found, _ = run(body(0), fetch_response(part(records)))
    assert found.responses[0].partitions[0].records == b""
    found, _ = drive(recoding.as_it_is(body(0), 9), fetch_response(part(records)))
    assert found.responses[0].partitions[0].records == b""


def test_batches_in_zstd_get_the_codec_of_the_rule_and_others_keep_theirs() -> None:
    codecs = [Codec.ZSTD, Codec.GZIP, Codec.NONE, Codec.ZSTD]
    data = b"".join(batch(n, codec=codec) for n, codec in enumerate(codecs))
    found, _ = run(body(0), fetch_response(part(data)))
    messages = read_by_client(found.responses[0].partitions[0])
    assert messages == [(0, Codec.LZ4), (1, Codec.GZIP), (2, Codec.NONE), (3, Codec.LZ4)]


@pytest.mark.parametrize("at", [8 * MAGIC_AT, -30], ids=["header", "records"])
@pytest.mark.parametrize("good", [0, 1, 2])
def test_batches_before_damage_are_sent_and_damage_alone_is_an_error(good: int, at: int) -> None:
    whole = [batch(n, codec=Codec.ZSTD, size=3000 * n) for n in range(good)]
    bad = batch(good, codec=Codec.ZSTD, size=500)
    data = b"".join(whole) + flipped(bad, at % (8 * len(bad))) + batch(good + 1, codec=Codec.ZSTD)
    found, _ = run(body(0), fetch_response(part(data), part(batch(4), number=1)))
    first, second = found.responses[0].partitions
    assert first.error_code == (0 if good else ErrorCode.CORRUPT_MESSAGE)
    assert read_by_client(first) == [(n, Codec.LZ4) for n in range(good)]
    assert (second.error_code, read_by_client(second)) == (0, [(4, Codec.NONE)])


@pytest.mark.parametrize("damaged", [1, 2, 3])
def test_nothing_follows_damage_whichever_part_it_is_in(damaged: int) -> None:
    """Two batches are a part."""
    noise = Random(5)
    data = bytearray()
    for n in range(5):
        value = noise.randbytes(TURN_SIZE * 2 // 5)
        one = build([Record(n, 1, value=value)], magic=2, codec=Codec.ZSTD)
        data += flipped(one, 8 * 100_000) if n == damaged else one
    found, _ = run(body(0), fetch_response(part(bytes(data))))
    (partition,) = found.responses[0].partitions
    assert (partition.error_code, len(read_by_client(partition))) == (0, damaged)


@pytest.mark.parametrize(
    ("committed", "last", "count"),
    [
        (False, END - 2, 2),
        (False, END - 1, 1),  # the end of the log
        (True, END - 4, 2),
        (True, END - 3, 1),  # the last stable offset
    ],
)
def test_batches_without_records_are_read_on_after_up_to_the_end(
    committed: bool, last: int, count: int
) -> None:
    """At the end an empty batch is sent as it is."""
    follows = fetch_response(part(batch(last + 1)))
    responses = [fetch_response(part(emptied(0, last))), follows][:count]
    found, asked = run(body(1, committed=committed), *responses)
    (one,) = found.responses[0].partitions
    assert [base for base, _ in read_by_client(one)] == [[0], [last + 1]][count - 1]
    if count == 2:
        (topic,) = asked[1].topics
        (again,) = topic.partitions
        assert (topic.topic, again.partition, again.fetch_offset) == ("t", 0, last + 1)
        assert (again.partition_max_bytes, asked[1].max_wait_ms) == (5000, 0)


@pytest.mark.parametrize("records", [None, b""])
def test_batches_without_records_before_a_hole_at_the_end_are_sent(records: bytes | None) -> None:
    """Compaction may leave nothing up to the end. Without these batches the client would stay where
    it is, and fetch again at once, for ever."""
    found, asked = run(body(1), fetch_response(part(emptied(0, 3))), fetch_response(part(records)))
    assert len(asked) == 2
    (one,) = found.responses[0].partitions
    assert read_by_client(one) == [(0, Codec.NONE)]
    second = fetch_response(part(bytes(build_empty(base_offset=4, last_offset=5, producer_id=1))))
    found, asked = run(
        body(1), fetch_response(part(emptied(0, 3))), second, fetch_response(part(records))
    )
    assert len(asked) == 3
    (one,) = found.responses[0].partitions
    assert read_by_client(one) == [(4, Codec.NONE)]


def test_only_the_partition_without_records_is_read_on_after() -> None:
    first = fetch_response(part(batch(1)), part(emptied(0, 3), number=1))
    found, asked = run(body(1, 1), first, fetch_response(part(batch(4), number=1)))
    assert [one.partition for one in asked[1].topics[0].partitions] == [1]
    messages = [read_by_client(one) for one in found.responses[0].partitions]
    assert messages == [[(1, Codec.NONE)], [(4, Codec.NONE)]]


def test_empty_batches_before_records_are_left_out() -> None:
    data = emptied(0, 3) + batch(4) + batch(5)
    found, _ = run(body(1), fetch_response(part(data)))
    messages = read_by_client(found.responses[0].partitions[0])
    assert messages == [(4, Codec.NONE), (5, Codec.NONE)]


@pytest.mark.parametrize("committed", [False, True])
def test_markers_are_sent_to_clients_that_ask_for_committed_records(committed: bool) -> None:
    responses = [fetch_response(part(marker(1))), fetch_response(part(batch(2)))][
        : 1 if committed else 2
    ]
    found, _ = run(body(1, committed=committed), *responses)
    (one,) = found.responses[0].partitions
    assert [base for base, _ in read_by_client(one)] == [1 if committed else 2]


@pytest.mark.parametrize(
    "more",
    [
        fetch_response(part(batch(4)), code=6),
        fetch_response(part(batch(4), error_code=6)),
        fetch_response(),
        fetch_response(part(batch(4)), part(batch(4), number=1)),
    ],
    ids=["an error of all", "an error", "not named", "too many"],
)
def test_an_error_while_reading_on_is_left_to_the_next_fetch(more: Message) -> None:
    found, _ = run(body(1), fetch_response(part(emptied(0, 3))), more)
    (one,) = found.responses[0].partitions
    assert one.error_code == 0
    assert [base for base, _ in read_by_client(one)] == [0]


def test_nothing_is_read_on_from_where_the_fetch_began() -> None:
    found, asks = run(body(5), fetch_response(part(emptied(0, 3))))
    assert len(asks) == 1
    assert [base for base, _ in read_by_client(found.responses[0].partitions[0])] == [0]


@pytest.mark.parametrize(
    ("room", "found"), [(1_000_000, [3, 3, 3]), (650_000, [2, 3, 1]), (10, [1, 0, 0])]
)
def test_recoded_records_never_become_more_than_a_response_may_have(
    room: int, found: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size of a response is a number of 32 bits, and compressed batches expand to any size."""
    monkeypatch.setattr(recoding, "CONVERTED_MAX", room)
    monkeypatch.setattr(turns, "TURN_SIZE", 1)  # each batch is a part
    parts = []
    for number, size in enumerate((300_000, 10_000, 10_000)):
        records = [Record(offset, 1, value=bytes(size)) for offset in range(3)]
        each = [build([one], magic=2, codec=Codec.ZSTD) for one in records]
        parts.append(part(b"".join(map(bytes, each)), number=number))
    plain = ConversionPolicy(recode={"zstd": "none"})
    response, _ = run(body(0, 0, 0), fetch_response(*parts), policy=plain)
    (topic,) = response.responses
    assert [len(read_by_client(one)) for one in topic.partitions] == found
    assert not any(one.error_code for one in topic.partitions)


@pytest.mark.parametrize(
    ("version", "told"),
    [
        (4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (5, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (6, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_errors_have_codes_that_the_client_knows(version: int, told: ErrorCode) -> None:
    """Kafka tells a client of 0.11 so, too. With a code that it does not know, it would ask the
    broker with the failed disk for minutes, and not for the new leader."""
    failed = part(None, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    found, _ = run(body(0), fetch_response(failed), version=version)
    assert found.responses[0].partitions[0].error_code == told


def test_no_batch_is_left_out_behind_records_that_become_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One part has many batches that become large."""
    monkeypatch.setattr(recode, "DECOMPRESSED_SIZE_MAX", 300_000)
    data = b"".join(batch(n, codec=Codec.ZSTD, size=100_000) for n in range(9))
    found, _ = run(body(0), fetch_response(part(data)))
    offsets = [base for base, _ in read_by_client(found.responses[0].partitions[0])]
    assert 0 < len(offsets) < 9
    assert offsets == list(range(len(offsets)))
