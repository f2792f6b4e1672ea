"""The place of the offset in a fetch of one partition is where the frames of two offsets differ."""

from random import Random

import pytest

from downconvert.protocol.fetch_offset import NOWHERE, offset_position
from downconvert.protocol.fetch_versions import FLEXIBLE_SINCE
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import frame

OTHER = ~0  # differs from 0 in each byte


def body(offset: int, topic: str = "topic", topics: int = 1, partitions: int = 1) -> Message:
    asked = [Message(partition=7, fetch_offset=offset) for _ in range(partitions)]
    return Message(
        replica_id=-1,
        max_wait_ms=500,
        topics=[Message(topic=topic, partitions=asked) for _ in range(topics)],
        rack_id="rack",
    )


@pytest.mark.parametrize("version", range(19))
@pytest.mark.parametrize("client_id", [None, "", "client", "c" * 300])
@pytest.mark.parametrize("topic", ["t", "topic" * 40])
def test_the_position_is_that_of_the_bytes_that_differ(
    version: int, client_id: str | None, topic: str
) -> None:
    one, other = (
        frame(ApiKey.Fetch, version, body(offset, topic), client_id) for offset in (0, OTHER)
    )
    differing = [at for at in range(len(one)) if one[at] != other[at]]
    assert differing == list(range(differing[0], differing[0] + 8))
    expected = differing[0] if version < FLEXIBLE_SINCE else NOWHERE
    assert offset_position(memoryview(one)) == offset_position(memoryview(other)) == expected


@pytest.mark.parametrize("version", range(12))
@pytest.mark.parametrize(("topics", "partitions"), [(0, 1), (2, 1), (1, 0), (1, 2)])
def test_other_fetches_have_no_such_position(version: int, topics: int, partitions: int) -> None:
    data = frame(ApiKey.Fetch, version, body(5, topics=topics, partitions=partitions))
    assert offset_position(memoryview(data)) == NOWHERE


def test_other_requests_have_no_such_position() -> None:
    data = bytearray(frame(ApiKey.Fetch, 4, body(5)))
    data[1] = ApiKey.Produce
    assert offset_position(memoryview(data)) == NOWHERE


@pytest.mark.parametrize("version", range(12))
def test_any_bytes_have_a_position_within_them_or_none(version: int) -> None:
    data, random = frame(ApiKey.Fetch, version, body(5)), Random(version)
    position = offset_position(memoryview(data))
    for size in range(len(data)):
        expected = position if size >= position + 8 else NOWHERE
        assert offset_position(memoryview(data)[:size]) == expected
    for _ in range(3000):
        other = bytearray(data)
        for _ in range(random.randrange(1, 4)):
            other[random.randrange(len(data))] = random.choice((0, 1, 127, 128, 255))
        assert offset_position(memoryview(other)) <= len(data) - 8
