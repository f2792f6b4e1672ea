"""Responses whose fields the gateway knows name the gateway's addresses only.

Not here: single requests (test_translation.py), who is at which address (../test_topology.py)."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.access.rights import Access
from downconvert.broker import Broker
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.session.exchanges import Ask
from downconvert.gateway.session.translator import METADATA_SAYS_WHAT_TO_MAKE, Translator
from downconvert.gateway.topology import Address
from downconvert.protocol.encoder import encode
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message, is_flexible
from tests.downconvert.broker.asking import parsed
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.gateway.cluster import FIRST_PORT, HOST, Through, modern

BOOTSTRAP = (Address("cluster.test", 9092),)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "t") as broker:
        yield modern(broker)


@pytest.fixture(params=[Access(), Access(topics=("t",), groups=("g",))], ids=["all", "lists"])
def through(request: pytest.FixtureRequest, broker: Broker) -> Through:
    """A session of a client that may do everything, or as much as lists name."""
    return Through(broker, GatewayConfig(bootstrap=BOOTSTRAP, access=request.param))


def addresses(brokers: list[Message]) -> list[tuple[str, int]]:
    return [(one.host, one.port) for one in brokers]


def gateways(broker: Broker) -> list[tuple[str, int]]:
    return [(HOST, FIRST_PORT + broker.config.node_id)]


@pytest.mark.parametrize("version", range(13))
def test_metadata_names_the_gateway(broker: Broker, through: Through, version: int) -> None:
    topics = [Message(name="t")]
    found = through.ask(ApiKey.Metadata, version, Message(topics=topics))
    assert addresses(found.brokers) == gateways(broker)
    assert [one.name for one in found.topics] == ["t"]


@pytest.mark.parametrize("version", range(13))
def test_metadata_is_asked_in_the_clients_version_unless_that_is_too_old(
    through: Through, version: int
) -> None:
    """The client wants the fields of its version. An older one may create topics, which lists may
    forbid."""
    through.ask(ApiKey.Metadata, version, Message(topics=[Message(name="t")]))
    (asked,) = (one for one in through.asked if one.api is ApiKey.Metadata)
    oldest = METADATA_SAYS_WHAT_TO_MAKE if through.config.access.topics else 0
    assert asked.version == max(version, oldest)


@pytest.mark.parametrize("version", [0, 1])
def test_only_the_first_metadata_leaves_out_replicas_that_are_down(
    broker: Broker, through: Through, version: int
) -> None:
    def tamper(ask: Ask, response: bytes) -> bytes:
        if ask.api is not ApiKey.Metadata:
            return response
        answer = parsed(ask.api, ask.version, response)
        answer.topics[0].partitions[0].replica_nodes.append(77)
        flexible = bytes(is_flexible(ask.api, ask.version))
        return response[:8] + flexible + encode("MetadataResponse", ask.version, answer)

    through.tamper = tamper
    found = through.ask(ApiKey.Metadata, version, Message(topics=[Message(name="t")]))
    (part, *_) = found.topics[0].partitions
    known = [broker.config.node_id]
    assert part.replica_nodes == (known if version == 0 else [*known, 77])
    assert part.error_code == (ErrorCode.REPLICA_NOT_AVAILABLE if version == 0 else 0)


@pytest.mark.parametrize("version", range(5))
def test_the_coordinator_of_a_group_is_at_the_gateway(
    broker: Broker, through: Through, version: int
) -> None:
    body = Message(key="g", key_type=0, coordinator_keys=["g"])
    found = through.ask(ApiKey.FindCoordinator, version, body)
    coordinators = found.coordinators if version >= 4 else [found]
    assert addresses(coordinators) == gateways(broker)


def test_the_brokers_of_the_cluster_are_at_the_gateway(broker: Broker, through: Through) -> None:
    found = through.ask(ApiKey.DescribeCluster, 0, Message())
    assert addresses(found.brokers) == gateways(broker)


def test_a_client_that_has_fetched_takes_no_memory_after_it_has_left(broker: Broker) -> None:
    one = Message(partition=0, fetch_offset=0, partition_max_bytes=100)
    body = Message(replica_id=-1, topics=[Message(topic="t", partitions=[one])])
    gc.collect()
    gc.disable()
    try:
        through = Through(broker, GatewayConfig(bootstrap=BOOTSTRAP))
        through.ask(ApiKey.Fetch, 2, body)
        del through
        assert not [one for one in gc.get_objects() if isinstance(one, Translator)]
    finally:
        gc.enable()
