"""Metadata: topics that are made because a client asks for them."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from downconvert.access.rights import Access
from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.handlers import metadata
from downconvert.broker.topics import INTERNAL_TOPICS
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import ask, someone
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch

VERSIONS = range(14)
OLD = range(4)  # which cannot say that they do not want it
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "a.b", auto_create_topics=True, num_partitions=3) as one:
        yield one


def topics_of(broker: Broker, version: int, *names: str, allow: bool = True) -> list[Any]:
    asked = [Message(name=name, topic_id=bytes(16)) for name in names]
    fields = {"allow_auto_topic_creation": allow} if version >= 4 else {}
    body = Message(topics=asked, **fields)
    found: list[Any] = ask(broker, ApiKey.Metadata, version, body, now=1000.0).topics
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_made_when_it_is_asked_for(version: int, broker: Broker) -> None:
    (found,) = topics_of(broker, version, "new")
    assert (found.error_code, found.name) == (ErrorCode.NONE, "new")
    assert [one.leader_id for one in found.partitions] == [0, 0, 0]
    made = broker.topics["new"]
    (again,) = topics_of(broker, version, "new")
    assert again.error_code == ErrorCode.NONE
    assert broker.topics["new"] is made


@pytest.mark.parametrize("version", VERSIONS[4:])
def test_no_topic_is_created_for_a_client_that_forbids_it(version: int, broker: Broker) -> None:
    (found,) = topics_of(broker, version, "new", allow=False)
    assert found.error_code == UNKNOWN
    assert list(broker.topics) == ["a.b"]


@pytest.mark.parametrize("version", OLD)
def test_all_topics_are_asked_for_without_making_any(version: int, broker: Broker) -> None:
    body = Message(topics=None if version else [])
    found = ask(broker, ApiKey.Metadata, version, body).topics
    assert [one.name for one in found] == ["a.b"]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        *((name, UNKNOWN) for name in INTERNAL_TOPICS),
    ],
)
def test_names_that_no_clients_topic_can_have_are_not_created(
    name: str, code: ErrorCode, broker: Broker
) -> None:
    found, other = topics_of(broker, 1, name, "fine")
    assert found.error_code == code
    assert other.error_code == ErrorCode.NONE
    assert list(broker.topics) == ["a.b", "fine"]


def test_nothing_is_made_unless_the_operator_says_so(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        (found,) = topics_of(broker, 0, "new")
        assert (found.error_code, list(broker.topics)) == (UNKNOWN, [])
    with LogDir.open(tmp_path) as log_dir:
        reads = Broker(log_dir, BrokerConfig(auto_create_topics=True))
        (found,) = topics_of(reads, 0, "new")
        assert (found.error_code, list(reads.topics)) == (UNKNOWN, [])


def test_a_disk_that_cannot_store_a_topic_is_named_and_the_client_retries(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(metadata, "make", fail)
        (found,) = topics_of(broker, 0, "new")
    assert found.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    (found,) = topics_of(broker, 0, "new")
    assert found.error_code == ErrorCode.NONE


def test_an_old_producer_makes_its_topic_and_writes_to_it(broker: Broker) -> None:
    topics_of(broker, 0, "new")
    data = [Message(index=2, records=batch(0, magic=0))]
    body = Message(acks=1, timeout_ms=1000, topic_data=[Message(name="new", partition_data=data)])
    (topic,) = ask(broker, ApiKey.Produce, 0, body, now=1000.0).responses
    assert topic.partition_responses[0].error_code == ErrorCode.NONE
    assert broker.topics["new"].partitions[2].high_watermark == 1


def test_one_request_makes_only_so_many(broker: Broker) -> None:
    names = [f"new-{n}" for n in range(metadata.MADE_MAX + 5)]
    codes = [one.error_code for one in topics_of(broker, 1, "a.b", *names)]
    assert codes == [0] * (metadata.MADE_MAX + 1) + [UNKNOWN] * 5
    assert {one.error_code for one in topics_of(broker, 1, "a.b", *names)} == {0}


def test_topics_that_a_client_may_not_make_do_not_count(broker: Broker) -> None:
    client = someone(access=Access(topics=("*",), written_topics=("mine-*",)))
    others = [f"new-{n}" for n in range(metadata.MADE_MAX)]
    asked = [Message(name=name) for name in [*others, "mine-1"]]
    body = Message(topics=asked, allow_auto_topic_creation=True)
    ask(broker, ApiKey.Metadata, 4, body, client=client)
    assert list(broker.topics) == ["a.b", "mine-1"]


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("name", ["", "..", "a b", "x" * 250])
def test_nobody_waits_for_a_topic_whose_name_cannot_be(
    version: int, name: str, tmp_path: Path
) -> None:
    with writable_broker(tmp_path) as broker:
        found, other = topics_of(broker, version, name, "x" * 249)
        assert (found.name, found.error_code) == (name, ErrorCode.INVALID_TOPIC_EXCEPTION)
        assert list(found.partitions) == []
        assert other.error_code == UNKNOWN


def test_the_brokers_own_topics_are_internal_before_they_are_there(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        found = topics_of(broker, 1, *INTERNAL_TOPICS, "other")
        assert [one.is_internal for one in found] == [True, True, False]


@pytest.mark.parametrize("version", [10, 11])
def test_versions_that_cannot_answer_by_an_id_say_so(version: int, tmp_path: Path) -> None:
    """They have the field. A topic without a name cannot be in their responses."""
    with writable_broker(tmp_path, "t") as broker:
        for name, topic_id in ((None, broker.topics["t"].id), (None, b"x" * 16), ("t", b"x" * 16)):
            asked = Message(topics=[Message(name=name, topic_id=topic_id)])
            (found,) = ask(broker, ApiKey.Metadata, version, asked).topics
            assert (found.name, found.error_code) == (name or "", ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_that_asks_for_a_hidden_topic_gets_no_others(version: int, broker: Broker) -> None:
    """In version 0 a request without names means all topics, and this one has a name."""
    body = Message(topics=[Message(name="hidden", topic_id=bytes(16))])
    client = someone(access=Access(topics=("a.*",)))
    (found,) = ask(broker, ApiKey.Metadata, version, body, client=client).topics
    assert (found.name, found.error_code) == ("hidden", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    everything = Message(topics=None if version else [])
    (found,) = ask(broker, ApiKey.Metadata, version, everything, client=client).topics
    assert (found.name, found.error_code) == ("a.b", ErrorCode.NONE)
