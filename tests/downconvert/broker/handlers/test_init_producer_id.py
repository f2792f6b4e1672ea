"""InitProducerId: each producer that asks gets an id of its own."""

from pathlib import Path

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.writable import writable_broker


def init(broker: Broker, version: int, transactional_id: str | None = None) -> Message:
    body = Message(transactional_id=transactional_id, transaction_timeout_ms=1000)
    return ask(broker, ApiKey.InitProducerId, version, body)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(("name", "ids", "epochs"), [(None, 3, [0, 0, 0]), ("tx", 1, [0, 1, 2])])
def test_each_producer_gets_an_id_and_a_transactional_id_keeps_its_own_with_the_next_epoch(
    tmp_path: Path, version: int, name: str | None, ids: int, epochs: list[int]
) -> None:
    with writable_broker(tmp_path) as broker:
        responses = [init(broker, version, name) for _ in range(3)]
        assert [one.error_code for one in responses] == [0, 0, 0]
        assert [one.producer_epoch for one in responses] == epochs
        assert len({one.producer_id for one in responses}) == ids


def test_a_transactional_id_from_elsewhere_keeps_its_id_to_itself(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        init(broker, 4, "tx")
    (tmp_path / "producer-ids").unlink()  # as other brokers leave a directory
    with writable_broker(tmp_path) as broker:
        assert init(broker, 4).producer_id != init(broker, 4, "tx").producer_id


def test_a_broker_that_only_reads_gives_no_producer_ids(tmp_path: Path) -> None:
    with LogDir.open(tmp_path) as log_dir:
        response = init(Broker(log_dir, BrokerConfig()), 1)
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("known", [(5, -1), (-1, 0)])
def test_a_producer_states_both_its_id_and_its_epoch_or_neither(
    tmp_path: Path, known: tuple[int, int]
) -> None:
    producer_id, epoch = known
    body = Message(
        transactional_id="tx",
        transaction_timeout_ms=1000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    with writable_broker(tmp_path) as broker:
        response = ask(broker, ApiKey.InitProducerId, 3, body)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert (response.producer_id, response.producer_epoch) == (-1, -1)
        assert init(broker, 3, "tx").producer_epoch == 0  # the refused request began nothing
