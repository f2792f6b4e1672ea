"""Plain values are those of the messages that the decoder and the encoder know."""

from io import BytesIO
from random import Random
from typing import Any, Final

import pytest

from downconvert.broker.handlers import fast_offset_commit, fast_produce
from downconvert.protocol.decoder import decode
from downconvert.protocol.encoder import encode
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.plain_values import ELEMENTS_MAX, reader, writer
from downconvert.protocol.requests import RequestHeader
from downconvert.protocol.responses import ResponseSend, response
from downconvert.protocol.schemas import ApiKey, Message
from records import MemoryRecords
from records.files.zero_copy import ZeroCopySend
from tests.damage import mutated

NUMBER: Final = 7  # a correlation id
ONE: Final = {"topics": 1, "partitions": 1, "forgotten_topics_data": 0, "replica_id": -1}
FETCHED: Final = ("max_wait_ms", "topic", "topic_id", "partition", "fetch_offset")
TEXTS: Final = ("t", "", "\u00e9", "n" * 126)
VERSIONS: Final = range(19)  # of Fetch


def fetch(random: Random) -> Message:
    one = Message(partition=random.randrange(9), fetch_offset=random.randrange(2**60))
    topic = Message(topic=random.choice(TEXTS), topic_id=random.randbytes(16), partitions=[one])
    return Message(max_wait_ms=random.randrange(9), topics=[topic])


def expected(data: bytes, version: int) -> tuple[Any, ...] | None:
    """The values by the decoder. None: the request is damaged, or has another form."""
    try:
        body = decode("FetchRequest", version, memoryview(data))
        (topic,) = body.topics
        (one,) = topic.partitions
    except (BadRequestError, ValueError):
        return None
    if body.forgotten_topics_data or (version < 15 and body.replica_id != -1):
        return None
    return body.max_wait_ms, topic.topic, topic.topic_id, one.partition, one.fetch_offset


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_have_the_values_of_their_messages(version: int) -> None:
    random, read = Random(version), reader("FetchRequest", version, FETCHED, ONE)
    for _ in range(50):
        data = encode("FetchRequest", version, fetch(random))
        assert read(memoryview(b"head" + data + b"tail"), 4) == expected(data, version) is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_damaged_requests_are_left_or_read_as_by_the_decoder(version: int) -> None:
    random, read = Random(version), reader("FetchRequest", version, FETCHED, ONE)
    for _ in range(500):
        data = mutated(encode("FetchRequest", version, fetch(random)), random)
        found = read(memoryview(data), 0)
        assert found is None or found == expected(data, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_that_were_cut_are_left(version: int) -> None:
    data = encode("FetchRequest", version, fetch(Random(1)))
    read = reader("FetchRequest", version, FETCHED, ONE)
    assert not any(read(memoryview(data)[:size], 0) for size in range(len(data)))


@pytest.mark.parametrize("version", [11, 12, 18])
@pytest.mark.parametrize(
    "other",
    [
        Message(topics=[]),
        Message(topics=[Message(partitions=[])]),
        Message(topics=[Message(partitions=[Message(), Message()])]),
        Message(topics=[Message(partitions=[Message()])] * 2),
        Message(forgotten_topics_data=[Message(topic="t", partitions=[])]),
    ],
)
def test_requests_of_another_form_are_left(version: int, other: Message) -> None:
    data = encode("FetchRequest", version, Message(**vars(fetch(Random(1))) | vars(other)))
    assert reader("FetchRequest", version, FETCHED, ONE)(memoryview(data), 0) is None


@pytest.mark.parametrize("version", [7, 8])
def test_arrays_of_any_number_are_read_up_to_a_limit(version: int) -> None:
    read = fast_offset_commit.read(version)
    for count in (0, 1, ELEMENTS_MAX, ELEMENTS_MAX + 1):
        partitions = [Message(partition_index=index) for index in range(count)]
        body = Message(topics=[Message(name="t", partitions=partitions)] * 2)
        found = read(memoryview(encode("OffsetCommitRequest", version, body)), 0)
        if count > ELEMENTS_MAX:
            assert found is None
        else:
            assert found == ("", -1, "", -1, [("t", [(n, 0, -1, "") for n in range(count)])] * 2)


@pytest.mark.parametrize("version", [3, 8, 9])
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_383, 16_384, 100_000])
def test_records_are_views_of_the_frame(version: int, size: int) -> None:
    records = bytes(size)
    topics = [Message(name="t", partition_data=[Message(index=3, records=records)])]
    body = Message(transactional_id=None, acks=-1, topic_data=topics)
    data = memoryview(encode("ProduceRequest", version, body))
    values = fast_produce.read(version)(data, 0)
    assert values is not None
    assert values[0] == -1
    assert (values[-2], values[-1]) == (3, records)
    assert values[-1].obj is data.obj
    assert fast_produce.read(version)(data[:-4], 0) is None


def written(send: ResponseSend) -> bytes:
    channel = BytesIO()
    while not send.completed:
        send.write_to(channel)
    return channel.getvalue()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [1, 126, 127, 128, 16_383, 100_000])
def test_responses_have_the_bytes_of_their_messages(version: int, size: int) -> None:
    random, records = Random(size), Random(size).randbytes(size)
    names = ("topic", "topic_id", "partition_index", "high_watermark", "log_start_offset")
    fixed = {"responses": 1, "partitions": 1, "aborted_transactions": None, "error_code": 2}
    respond = writer("FetchResponse", version, (*names, "records"), fixed)
    header = RequestHeader(ApiKey.Fetch, version, NUMBER, None, 0)
    for topic in TEXTS:
        values = topic, random.randbytes(16), random.randrange(9), random.randrange(2**60), 8
        given = dict(zip(names, values, strict=True))
        fields = {name: given[name] for name in ("topic", "topic_id")}
        one = Message(
            **given,
            error_code=2,
            aborted_transactions=None,
            records=ZeroCopySend(MemoryRecords(records)),
        )
        body = Message(error_code=2, responses=[Message(**fields, partitions=[one])])
        found = respond(NUMBER, *values, ZeroCopySend(MemoryRecords(records)))
        assert written(found) == written(response(header, body))


@pytest.mark.parametrize("version", range(2, 10))
def test_arrays_of_responses_have_the_bytes_of_their_messages(version: int) -> None:
    header = RequestHeader(ApiKey.OffsetCommit, version, NUMBER, None, 0)
    results = [("t", [(0, 3), (5, 0)]), ("\u00e9", []), ("u", [(1, 1)])]
    topics = [
        Message(
            name=name,
            partitions=[Message(partition_index=index, error_code=code) for index, code in codes],
        )
        for name, codes in results
    ]
    found = fast_offset_commit.respond(version)(NUMBER, results)
    assert written(found) == written(response(header, Message(topics=topics)))
