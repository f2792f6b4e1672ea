import json
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from downconvert.broker.wire.schemas import ApiKey, Message
from downconvert.gateway.observing import Observation
from downconvert.gateway.server import Gateway
from downconvert.gateway.topology import Address

from .serving import LOOPBACK, TIMEOUT, Wire, cluster, gateway
from .test_server import wait_for

ANY_PORT = Address(LOOPBACK, 0)


@pytest.fixture
def observed(tmp_path: Path) -> Iterator[tuple[Gateway, Address]]:
    with cluster(tmp_path, "t") as (_, port), gateway(port) as running:
        observation = Observation(running, ANY_PORT)
        yield running, observation.address
        observation.close()


def got(address: Address, path: str) -> str:
    with urlopen(f"http://{address}{path}", timeout=TIMEOUT) as answer:
        text: str = answer.read().decode()
    return text


def test_it_is_well_once_brokers_are_known(observed: tuple[Gateway, Address]) -> None:
    running, address = observed
    wait_for(lambda: bool(running.topology.nodes))
    assert got(address, "/healthz") == "ok\n"


def test_it_is_not_well_while_the_cluster_does_not_answer(tmp_path: Path) -> None:
    with cluster(tmp_path, "t") as (_, port):
        pass
    with gateway(port) as running:
        observation = Observation(running, ANY_PORT)
        with pytest.raises(HTTPError, match="503"):
            got(observation.address, "/healthz")
        observation.close()


def test_metrics_name_connections_brokers_and_requests(observed: tuple[Gateway, Address]) -> None:
    _, address = observed
    with Wire(running_address(observed)) as client:
        client.ask(ApiKey.Metadata, 0, Message(topics=[]))
        said = got(address, "/metrics")
    assert "gateway_connections 1.0" in said
    assert "gateway_brokers 1.0" in said
    assert 'api="Metadata",client_id="test",software="",version="0"} 1.0' in said


def test_names_of_any_kind_break_no_line_of_the_metrics(observed: tuple[Gateway, Address]) -> None:
    _, address = observed
    hostile = 'a"b\n} 7\\'
    with Wire(running_address(observed)) as client:
        body = Message(client_software_name=hostile, client_software_version="1")
        client.ask(ApiKey.ApiVersions, 3, body)
        client.ask(ApiKey.Metadata, 9, Message(topics=[]))
    lines = got(address, "/metrics").splitlines()
    assert not any(line.startswith("}") for line in lines)
    rows = json.loads(got(address, "/clients"))
    assert f"{hostile} 1" in {row["software"] for row in rows}


def running_address(observed: tuple[Gateway, Address]) -> Address:
    return observed[0].address
