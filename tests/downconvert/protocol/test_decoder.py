"""Any bytes become a message or a BadRequestError, and quickly."""

import time
import tracemalloc
from random import Random

import pytest

from downconvert.protocol.decoder import ELEMENTS_MAX, TEXT_MAX, Cursor, decode, reader
from downconvert.protocol.encoder import Parts, encode
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import Message
from tests.damage import cut, flipped
from tests.downconvert.broker.messages import random_message, versions

REQUESTS = [name for name in versions() if name.endswith("Request")]
MUTATIONS = 40


def taken(name: str, version: int, data: bytes) -> Message | None:
    """The message; None: the bytes are not a message."""
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
def test_a_message_that_is_cut_off_is_an_error(name: str) -> None:
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


def uvarint(number: int) -> bytes:
    """A variable-length number."""
    parts = Parts()
    parts.uvarint(number)
    return bytes(parts.bytes)


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
    data = head + uvarint(ELEMENTS_MAX + 1) + bytes(9)
    with pytest.raises(BadRequestError, match="too many elements: tagged fields"):
        decode("ApiVersionsRequest", 3, memoryview(data))


@pytest.mark.parametrize("name", ["RequestHeader", "ConsumerProtocolSubscription"])
def test_the_limit_of_elements_also_holds_for_bytes_beside_requests(name: str) -> None:
    """A header is read before the request, and subscriptions when a group is described."""
    version, head = (2, bytes(8) + b"\xff\xff") if name == "RequestHeader" else (0, b"")
    if head:  # tags rise, and have no bytes
        tags = range(ELEMENTS_MAX + 1)
        elements = uvarint(len(tags)) + b"".join(uvarint(tag) + b"\0" for tag in tags)
    else:
        elements = (ELEMENTS_MAX + 1).to_bytes(4) + bytes(2 * ELEMENTS_MAX + 2)
    with pytest.raises(BadRequestError, match="too many elements"):
        reader(name, version)(Cursor(memoryview(head + elements + bytes(4))))


@pytest.mark.parametrize("api", ["ApiVersionsRequest", "DescribeGroupsRequest"])
def test_a_compact_string_is_no_longer_than_another(api: str) -> None:
    """Here in a field, and as an element of an array."""
    version, head = (3, b"") if api == "ApiVersionsRequest" else (5, b"\x02")
    for size, is_taken in ((TEXT_MAX, True), (TEXT_MAX + 1, False)):
        data = head + uvarint(size + 1) + b"a" * size + b"\x01\x00\x00"
        assert (taken(api, version, data) is not None) is is_taken


def test_a_response_of_a_large_cluster_is_read_whole() -> None:
    partitions = [Message(partition_index=0, replica_nodes=[0] * (ELEMENTS_MAX + 1))]
    data = encode("MetadataResponse", 1, Message(topics=[Message(partitions=partitions)]))
    (topic,) = decode("MetadataResponse", 1, memoryview(data)).topics
    assert len(topic.partitions[0].replica_nodes) == ELEMENTS_MAX + 1


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\xff\xff", b"\xff\xff\xff\xff\x7f"])
def test_a_length_of_more_than_32_bits_is_an_error(data: bytes) -> None:
    with pytest.raises(BadRequestError, match="more than 32 bits"):
        decode("ApiVersionsRequest", 3, memoryview(data))


@pytest.mark.parametrize("length", [-1, -2, -(2**31)])
def test_any_negative_length_of_a_field_that_may_be_null_is_null(length: int) -> None:
    """As in Kafka."""
    size = length.to_bytes(4, signed=True)
    assert decode("MetadataRequest", 1, memoryview(size)).topics is None
    with pytest.raises(BadRequestError, match=f"length of {length}"):
        decode("MetadataRequest", 0, memoryview(size))


def test_tags_that_do_not_rise_are_refused() -> None:
    head = b"\x02a\x02b"  # the client's name and version
    with pytest.raises(BadRequestError, match="tag 5 after tag 5"):
        decode("ApiVersionsRequest", 3, memoryview(head + b"\x02\x05\x00\x05\x00"))


def test_unknown_tags_are_passed_over() -> None:
    message = decode("ApiVersionsRequest", 3, memoryview(b"\x02a\x02b\x01\x63\x02xy"))
    assert (message.client_software_name, message.client_software_version) == ("a", "b")


@pytest.mark.parametrize("byte", [0, 1, 2, 0x80, 0xFF])
def test_any_byte_but_zero_is_true(byte: int) -> None:
    """As in Kafka."""
    message = decode("MetadataRequest", 4, memoryview(b"\xff\xff\xff\xff" + bytes([byte])))
    assert message.allow_auto_topic_creation is (byte != 0)


def test_strings_that_are_no_utf8_are_refused() -> None:
    with pytest.raises(BadRequestError, match="is not UTF-8"):
        decode("ApiVersionsRequest", 3, memoryview(b"\x02\xff\x02b\x00"))


def test_byte_strings_are_views_of_the_frame() -> None:
    body = Message(
        acks=1, topic_data=[Message(name="t", partition_data=[Message(index=0, records=b"xyz")])]
    )
    data = memoryview(encode("ProduceRequest", 3, body))
    records = decode("ProduceRequest", 3, data).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is data.obj
