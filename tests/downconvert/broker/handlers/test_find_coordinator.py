from pathlib import Path

import pytest

from downconvert.broker import Broker, BrokerConfig, ErrorCode
from downconvert.broker.topics import OFFSETS_TOPIC, Topic
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import ask, someone
from tests.downconvert.broker.writable import writable_broker

VERSIONS = range(7)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(LogDir.open(tmp_path), BrokerConfig(node_id=3))


@pytest.mark.parametrize("version", VERSIONS)
def test_this_broker_coordinates_every_group(broker: Broker, version: int) -> None:
    client = someone(host="here", port=1234)
    body = Message(key="g", coordinator_keys=["g"])
    response = ask(broker, ApiKey.FindCoordinator, version, body, client=client)
    found = response if version < 4 else response.coordinators[0]
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 3, "here", 1234)


@pytest.mark.parametrize("version", VERSIONS)
def test_finding_a_groups_coordinator_makes_the_topic_of_its_offsets(
    tmp_path: Path, version: int
) -> None:
    """Clients that read all topics by a pattern see that it is internal, and leave it out."""
    body = Message(key="g", coordinator_keys=["g"])
    with writable_broker(tmp_path) as broker:
        ask(broker, ApiKey.FindCoordinator, version, body, client=someone())
        assert OFFSETS_TOPIC in broker.topics
    (tmp_path / "other").mkdir()
    with LogDir.open(tmp_path / "other") as log_dir:
        ask(Broker(log_dir, BrokerConfig()), ApiKey.FindCoordinator, version, body)
        assert not log_dir.logs


def test_a_disk_that_is_full_is_said_once_however_many_groups_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def create(*_: object) -> Topic:
        raise OSError("no space is left")

    with writable_broker(tmp_path) as broker:
        monkeypatch.setattr(broker.topics, "create", create)
        body = Message(coordinator_keys=["", *map(str, range(100))])
        response = ask(broker, ApiKey.FindCoordinator, 4, body)
    assert len(response.coordinators) == 101
    (record,) = caplog.records
    assert "no space is left" in record.getMessage()


@pytest.mark.parametrize("version", range(4, 7))
def test_several_groups_are_asked_for_at_a_time(broker: Broker, version: int) -> None:
    body = Message(coordinator_keys=["a", "b"])
    response = ask(broker, ApiKey.FindCoordinator, version, body)
    assert [one.key for one in response.coordinators] == ["a", "b"]


@pytest.mark.parametrize(
    ("kind", "code"),
    [(1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), (2, ErrorCode.INVALID_REQUEST)],
)
@pytest.mark.parametrize("version", range(1, 7))
def test_nobody_coordinates_transactions_where_nothing_is_written_nor_anything_else(
    broker: Broker, version: int, kind: int, code: ErrorCode
) -> None:
    body = Message(key="t", coordinator_keys=["t"], key_type=kind)
    response = ask(broker, ApiKey.FindCoordinator, version, body)
    found = response if version < 4 else response.coordinators[0]
    assert (found.error_code, found.node_id) == (code, -1)
    assert found.error_message


@pytest.mark.parametrize("version", range(1, 7))
def test_a_broker_that_may_write_coordinates_transactions(tmp_path: Path, version: int) -> None:
    with writable_broker(tmp_path, node_id=3) as broker:
        client = someone(host="here", port=1234)
        body = Message(key="t", coordinator_keys=["t"], key_type=1)
        response = ask(broker, ApiKey.FindCoordinator, version, body, client=client)
        found = response if version < 4 else response.coordinators[0]
        assert (found.error_code, found.node_id, found.host, found.port) == (0, 3, "here", 1234)
