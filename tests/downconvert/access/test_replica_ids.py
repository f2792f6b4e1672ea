"""A client is a follower only where it is known to be one: over requests without sockets."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from downconvert.access import replica_ids
from downconvert.access.rights import Access
from downconvert.broker import BadRequestError, Broker, ErrorCode
from downconvert.protocol.decoder import decode
from downconvert.protocol.encoder import encode
from downconvert.protocol.schemas import ApiKey, Message, schema
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.guarding import guard_of
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch

TOPIC: Final = "t"
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
IDS: Final = (0, 1, 2**31 - 1, -3, -(2**31))
VERSIONS: Final = [
    (api, version)
    for api, since in replica_ids.SINCE.items()
    for version in range(since, schema(f"{api.name}Request").newest + 1)
]
SESSION: Final = 7  # the first version of Fetch whose responses have an error of their own


def asked(api: ApiKey, replica_id: int, topic_id: bytes = bytes(16)) -> Message:
    if api is ApiKey.Fetch:
        one = Message(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topic = Message(topic=TOPIC, topic_id=topic_id, partitions=[one])
    elif api is ApiKey.ListOffsets:
        one = Message(partition_index=0, timestamp=-1, max_num_offsets=1)
        topic = Message(name=TOPIC, partitions=[one])
    else:
        one = Message(partition=0, leader_epoch=0, current_leader_epoch=-1)
        topic = Message(topic=TOPIC, partitions=[one])
    state = Message(replica_id=replica_id, replica_epoch=-1)
    body = Message(replica_id=replica_id, replica_state=state, topics=[topic], max_bytes=1000)
    return Message(**body.__dict__, session_epoch=-1)


def codes(api: ApiKey, response: Message) -> set[int]:
    topics = response.responses if api is ApiKey.Fetch else response.topics
    return {part.error_code for topic in topics for part in topic.partitions}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, TOPIC) as made:
        yield made


def test_versions_with_an_id_are_those_of_kafkas_definitions() -> None:
    found = {
        api: field.versions.start
        for api in ApiKey
        for field in schema(f"{api.name}Request").fields
        if field.name == "replica_id"
    }
    assert found == replica_ids.SINCE


def test_a_claim_to_be_a_broker_is_refused_to_everybody_else(broker: Broker) -> None:
    topic_id = broker.topics[TOPIC].id
    rights = (Access(), Access(is_read_only=True), Access(follower_ids=frozenset({5})))
    for access, (api, version) in product(rights, VERSIONS):
        broker.guard = guard_of(None, access)
        for replica_id in IDS:
            response = ask(broker, api, version, asked(api, replica_id, topic_id))
            assert codes(api, response) == {DENIED}
            if api is ApiKey.Fetch and version >= SESSION:
                assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        for replica_id in replica_ids.CONSUMERS:
            response = ask(broker, api, version, asked(api, replica_id, topic_id))
            assert codes(api, response) == {0}


def test_only_a_known_broker_is_a_follower(broker: Broker) -> None:
    broker.guard = guard_of(None, Access(follower_ids=frozenset({5, 6})))
    for api, version in VERSIONS:
        body = asked(api, 6, broker.topics[TOPIC].id)
        assert codes(api, ask(broker, api, version, body)) == {0}


def test_a_false_follower_reads_only_committed_records(broker: Broker) -> None:
    one = Message(index=0, records=batch(0))
    topics = [Message(name=TOPIC, partition_data=[one])]
    ask(broker, ApiKey.Produce, 9, Message(acks=1, timeout_ms=0, topic_data=topics))
    broker.topics[TOPIC].partitions[0].committed_end = 0
    for replica_id, code in ((-1, 0), (1, DENIED)):
        (response,) = ask(broker, ApiKey.Fetch, 11, asked(ApiKey.Fetch, replica_id)).responses
        assert (
            response.partitions[0].error_code,
            bytes(response.partitions[0].records or b""),
        ) == (
            code,
            b"",
        )


# --- reading no more of a request than that takes


def fetches() -> Iterator[Message]:
    """All shapes of what stands before the replica id."""
    for topics in range(3):
        for partitions in range(3):
            for forgotten in range(2):
                for rack in ("", "r" * 20):
                    one = Message(partition=1, fetch_offset=257, partition_max_bytes=1)
                    topic = Message(topic_id=bytes([1] * 16), partitions=[one] * partitions)
                    gone = Message(topic_id=bytes([1] * 16), partitions=[1] * partitions)
                    yield Message(
                        topics=[topic] * topics,
                        forgotten_topics_data=[gone] * forgotten,
                        rack_id=rack,
                    )


@pytest.mark.parametrize("version", range(15, schema("FetchRequest").newest + 1))
def test_the_id_at_the_end_of_a_fetch_is_found(version: int) -> None:
    for body in fetches():
        for replica_id in (*IDS, *replica_ids.CONSUMERS):
            body.replica_state = Message(replica_id=replica_id, replica_epoch=3)
            data = memoryview(encode("FetchRequest", version, body))
            found = replica_ids.of_frame(ApiKey.Fetch, version, data)
            assert found == replica_id
        body.replica_state = Message(replica_id=-1, replica_epoch=-1)
        data = memoryview(encode("FetchRequest", version, body))
        assert replica_ids.of_frame(ApiKey.Fetch, version, data) == replica_ids.CONSUMER


@pytest.mark.parametrize("version", range(15, schema("FetchRequest").newest + 1))
def test_a_fetch_without_tagged_fields_is_not_decoded_for_its_id(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nearly all have none. Decoding takes longer than the rest of a small fetch."""
    monkeypatch.setattr(replica_ids, "decode", lambda *_: pytest.fail("it is decoded"))
    for body in fetches():
        data = memoryview(encode("FetchRequest", version, body))
        assert replica_ids.of_frame(ApiKey.Fetch, version, data) == replica_ids.CONSUMER


def test_half_a_fetch_has_no_id() -> None:
    for body in fetches():
        data = memoryview(encode("FetchRequest", 15, body))
        for cut in range(0, len(data), 5):
            with pytest.raises(BadRequestError):
                replica_ids.of_frame(ApiKey.Fetch, 15, data[:cut])


def test_an_id_after_unknown_tags_is_found() -> None:
    """The unknown tags are those of the request itself, and of the structures in it."""
    start = bytes(21)
    partition, topic_id, rack = bytes(32), bytes(16), b"\x01"
    state = b"\x01\x0d" + (9).to_bytes(4) + bytes(8) + b"\x00"
    unknown, like_no_rack = b"\x07\x01x", b"\x01\x01\x00"
    kinds = (b"\x00", b"\x01" + unknown, like_no_rack)
    for of_partition, of_topic, of_forgotten in product(kinds, repeat=3):
        topic = topic_id + b"\x02" + partition + of_partition + of_topic
        forgotten = b"\x02" + topic_id + b"\x02" + bytes(4) + of_forgotten
        for gone in (b"\x01", forgotten):
            for tags in (b"\x01" + state, b"\x02" + state + unknown):
                body = memoryview(start + b"\x02" + topic + gone + rack + tags)
                assert decode("FetchRequest", 16, body).replica_state.replica_id == 9
                assert replica_ids.of_frame(ApiKey.Fetch, 16, body) == 9


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_the_id_is_the_same_before_and_after_reading(api: ApiKey, version: int) -> None:
    for replica_id in (*IDS, *replica_ids.CONSUMERS):
        data = memoryview(encode(f"{api.name}Request", version, asked(api, replica_id)))
        body = decode(f"{api.name}Request", version, data)
        assert replica_ids.of_body(api, version, body) == replica_id
        assert replica_ids.of_frame(api, version, data) == replica_id
