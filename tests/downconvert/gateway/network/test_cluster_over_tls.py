"""A cluster that speaks TLS: its responses are read by the event loop, whatever their size."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.gateway.security import ClusterSecurity
from downconvert.gateway.server import Gateway
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.certificates import self_signed
from tests.downconvert.gateway.cluster import append, modern
from tests.downconvert.gateway.serving import KEPT, Wire, gateway
from tests.downconvert.gateway.talk import fetch_body, records_of
from tests.downconvert.storage.logs import batch
from tests.waiting import wait_for

COUNT = 20


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return self_signed(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def served(tmp_path: Path, certificate: tuple[str, str]) -> Iterator[tuple[Broker, Gateway]]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    with LogDir.open(tmp_path, writable=True) as log_dir:
        broker = Broker(log_dir, BrokerConfig(is_writable=True))
        broker.topics.create("t", 1, KEPT, 0)
        security = ClusterSecurity(tls=True, ca_file=certificate[0], verify_hostname=False)
        with (
            Server(modern(broker), tls=context) as server,
            gateway(server.address[1], security=security) as running,
        ):
            yield broker, running


@pytest.mark.parametrize("size", [10, 30_000])
@pytest.mark.parametrize("version", [1, 3, 4, 12])
def test_responses_of_any_size_are_passed_on_or_translated(
    served: tuple[Broker, Gateway], version: int, size: int
) -> None:
    broker, running = served
    append(broker, *(batch(offset, size=size) for offset in range(COUNT)))
    with Wire(running.address) as client:
        for _ in range(3):
            (part,) = client.ask(ApiKey.Fetch, version, fetch_body(0)).responses[0].partitions
            assert len(records_of(part)) == COUNT
        assert client.ask(ApiKey.Metadata, 1, Message(topics=None)).topics
    wait_for(lambda: running.budget.held == 0)
