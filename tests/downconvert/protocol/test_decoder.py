"""Whatever bytes come in: a message, or a BadRequestError, and quickly."""

import time
import tracemalloc
from random import Random

import pytest

from downconvert.protocol.decoder import ELEMENTS_MAX, decode
from downconvert.protocol.encoder import encode
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import Message
from tests.damage import cut, flipped
from tests.downconvert.broker.messages import random_message, versions

REQUESTS = [name for name in versions() if name.endswith("Request")]
MUTATIONS = 40


def taken(name: str, version: int, data: bytes) -> Message | None:
    """The message; None: the bytes are none."""
    try:
        return decode(name, version, memoryview(data))
    except BadRequestError:
        return None


@pytest.mark.parametrize("name", REQUESTS)
def test_hostile_bytes_are_a_message_or_a_bad_request(name: str) -> None:
    for version in versions()[name]:
        check_hostile_bytes(name, version)


def check_hostile_bytes(name: str, version: int) -> None:
    random = Random(f"{name} {version}")
    data = encode(name, version, random_message(random, name, version))
    for _ in range(MUTATIONS):
        bits = [random.randrange(8 * len(data)) for _ in range(3)] if data else []
        for hostile in (
            flipped(data, *bits),
            cut(data, random.randrange(len(data) + 1)),
            random.randbytes(random.randrange(60)),
        ):
            found = taken(name, version, hostile)
            if found is not None:  # a message like any other
                assert taken(name, version, encode(name, version, found)) == found, version


@pytest.mark.parametrize("name", REQUESTS)
def test_a_message_that_is_cut_off_is_none(name: str) -> None:
    for version in versions()[name]:
        data = encode(name, version, random_message(Random(1), name, version))
        for size in range(len(data) - 1, max(-1, len(data) - 40), -1):
            assert taken(name, version, cut(data, size)) is None, version


@pytest.mark.parametrize(
    "data",
    [
        bytes(16) + (2**31 - 1).to_bytes(4),  # topics of a FetchRequest v4: the largest count
        bytes(16) + (-2).to_bytes(4, signed=True),
        bytes(17) + (1).to_bytes(4) + (2**15 - 1).to_bytes(2),  # a name of 32 KiB
        b"\xff" * 100,
    ],
)
def test_a_claim_allocates_nothing(data: bytes) -> None:
    tracemalloc.start()
    started = time.process_time()
    assert taken("FetchRequest", 4, data) is None
    assert time.process_time() - started < 0.5
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


def partitions_of_topics(*counts: int) -> bytes:
    """A request for offsets of so many partitions of each topic."""
    topics = [Message(name="t", partition_indexes=[0] * count) for count in counts]
    return encode("OffsetFetchRequest", 5, Message(group_id="g", topics=topics))


def test_a_request_has_so_many_elements_in_all_its_arrays_and_no_more() -> None:
    half = ELEMENTS_MAX // 2
    assert taken("OffsetFetchRequest", 5, partitions_of_topics(half - 1, half - 1)) is not None
    for counts in ((half - 1, half), (ELEMENTS_MAX,)):
        with pytest.raises(BadRequestError, match="too many elements: partition_indexes"):
            decode("OffsetFetchRequest", 5, memoryview(partitions_of_topics(*counts)))


def test_a_request_has_so_many_tagged_fields_and_no_more() -> None:
    head = b"\x02a\x02b"  # the client's name and version
    count = (ELEMENTS_MAX + 1).to_bytes(4)  # as a variable-length number:
    bits = int.from_bytes(count)
    size = bytes([bits & 127 | 128, bits >> 7 & 127 | 128, bits >> 14])
    with pytest.raises(BadRequestError, match="too many elements: tagged fields"):
        decode("ApiVersionsRequest", 3, memoryview(head + size + bytes(9)))


def test_a_response_of_a_large_cluster_is_read_whole() -> None:
    partitions = [Message(partition_index=0, replica_nodes=[0] * (ELEMENTS_MAX + 1))]
    data = encode("MetadataResponse", 1, Message(topics=[Message(partitions=partitions)]))
    (topic,) = decode("MetadataResponse", 1, memoryview(data)).topics
    assert len(topic.partitions[0].replica_nodes) == ELEMENTS_MAX + 1


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\xff\xff", b"\xff\xff\xff\xff\x7f"])
def test_a_length_of_more_than_32_bits_is_none(data: bytes) -> None:
    with pytest.raises(BadRequestError, match="more than 32 bits"):
        decode("ApiVersionsRequest", 3, memoryview(data))


def test_tags_that_do_not_rise_are_refused() -> None:
    head = b"\x02a\x02b"  # the client's name and version
    with pytest.raises(BadRequestError, match="tag 5 after tag 5"):
        decode("ApiVersionsRequest", 3, memoryview(head + b"\x02\x05\x00\x05\x00"))


def test_unknown_tags_are_passed_over() -> None:
    message = decode("ApiVersionsRequest", 3, memoryview(b"\x02a\x02b\x01\x63\x02xy"))
    assert (message.client_software_name, message.client_software_version) == ("a", "b")


def test_strings_that_are_no_utf8_are_refused() -> None:
    with pytest.raises(BadRequestError, match="no UTF-8"):
        decode("ApiVersionsRequest", 3, memoryview(b"\x02\xff\x02b\x00"))


def test_byte_strings_are_views_of_the_frame() -> None:
    body = Message(
        acks=1, topic_data=[Message(name="t", partition_data=[Message(index=0, records=b"xyz")])]
    )
    data = memoryview(encode("ProduceRequest", 3, body))
    records = decode("ProduceRequest", 3, data).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is data.obj
