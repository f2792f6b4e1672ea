import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from downconvert.broker import ErrorCode
from downconvert.gateway.figures import Counters, Figures, total
from downconvert.gateway.observing import Observation
from downconvert.gateway.server import Gateway
from downconvert.gateway.session.census import ClientKey
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.series import CLIENTS_MAX
from tests.downconvert.broker.asking import frame
from tests.ports import LOOPBACK, free_ports
from tests.waiting import wait_for

from .serving import LENGTH, TIMEOUT, Wire, cluster, gateway
from .talk import fetch_body

ANY_PORT = Address(LOOPBACK, 0)


@pytest.fixture
def observed(tmp_path: Path) -> Iterator[tuple[Gateway, Address]]:
    with cluster(tmp_path, "t") as (_, port), gateway(port) as running:
        observation = Observation(running, ANY_PORT)
        yield running, observation.address
        observation.close()


def got(address: Address, path: str) -> str:
    with urlopen(f"http://{address}{path}", timeout=TIMEOUT) as response:
        text: str = response.read().decode()
    return text


def unready(address: Address) -> str:
    """Why it is not ready; nothing: it is."""
    try:
        text = got(address, "/readyz")
    except HTTPError as error:
        return f"{error.code} {error.read().decode()}"
    assert text == "ok\n"
    return ""


def test_it_is_ready_while_the_cluster_answers_and_alive_without(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (port,) = free_ports(1)
    with gateway(port, refresh_seconds=0.1) as running:
        observation = Observation(running, ANY_PORT)
        address = observation.address
        wait_for(lambda: f"127.0.0.1:{port}" in unready(address))
        assert got(address, "/healthz") == "ok\n"
        with cluster(tmp_path / "a", "t", port=port):
            wait_for(lambda: not unready(address))
            assert "downconvert_gateway_ready 1.0" in got(address, "/metrics")
        wait_for(lambda: f"127.0.0.1:{port}" in unready(address))
        assert got(address, "/healthz") == "ok\n"
        assert f'downconvert_gateway_broker_failures_total{{broker="127.0.0.1:{port}"}}' in got(
            address, "/metrics"
        )
        observation.close()


def test_it_is_not_ready_while_a_broker_has_no_port(tmp_path: Path) -> None:
    with (
        cluster(tmp_path, "t") as (_, port),
        socket.create_server((LOOPBACK, 0)) as other,
        gateway(port, node_ports={0: other.getsockname()[1]}) as running,
    ):
        observation = Observation(running, ANY_PORT)
        wait_for(lambda: "in use by another program" in unready(observation.address))
        with Wire(running.address) as client:  # behind that port is somebody else
            assert client.ask(ApiKey.Metadata, 1, Message(topics=None)).brokers == []
            body = Message(key="g", key_type=0)
            found = client.ask(ApiKey.FindCoordinator, 1, body)
            assert (found.error_code, found.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        observation.close()


def test_a_gateway_that_has_ended_is_not_alive(tmp_path: Path) -> None:
    with cluster(tmp_path, "t") as (_, port), gateway(port) as running:
        observation = Observation(running, ANY_PORT)
    with pytest.raises(HTTPError, match="503"):
        got(observation.address, "/healthz")
    observation.close()


def test_metrics_name_connections_brokers_and_requests(observed: tuple[Gateway, Address]) -> None:
    _, address = observed
    with Wire(running_address(observed)) as client:
        client.ask(ApiKey.Metadata, 0, Message(topics=[]))
        text = got(address, "/metrics")
    assert "downconvert_gateway_connections 1.0" in text
    assert "downconvert_gateway_brokers 1.0" in text
    assert 'downconvert_gateway_requests_total{api="Metadata",version="0"} 1.0' in text
    name = "downconvert_gateway_client_requests_total"
    assert f'{name}{{address="127.0.0.1",client_id="test"}} 1.0' in text


def test_latencies_are_histograms_and_ends_have_reasons(
    observed: tuple[Gateway, Address],
) -> None:
    running, address = observed
    with Wire(running.address) as client:
        client.ask(ApiKey.Metadata, 0, Message(topics=[]))
    with Wire(running.address) as client:
        client.socket.sendall(bytes(4))
        assert client.has_ended()
    wait_for(lambda: running.figures().ends.total() == 2)
    text = got(address, "/metrics")
    name = "downconvert_gateway_request_duration_seconds"
    assert f'{name}_bucket{{api="Metadata",le="+Inf"}} 1.0' in text
    assert f'{name}_count{{api="Metadata"}} 1.0' in text
    for reason in ("client_closed", "bad_request"):
        ended = f'downconvert_gateway_connections_ended_total{{reason="{reason}"}} 1.0'
        assert ended in text


def test_the_clusters_time_is_reported_by_api(observed: tuple[Gateway, Address]) -> None:
    running, address = observed
    apis = ("Metadata", "Heartbeat")
    with Wire(running.address) as client:
        for _ in range(3):  # the first is looked at, the others pass
            client.ask(ApiKey.Metadata, 12, Message(topics=[]))
            client.ask(ApiKey.Heartbeat, 4, Message(group_id="g", member_id="m"))

        def all_are_counted() -> bool:
            latencies = running.figures().latencies
            return all(api in latencies and sum(latencies[api].counts) == 3 for api in apis)

        wait_for(all_are_counted)
    figures = running.figures()
    for api in apis:
        assert 0 < figures.cluster_seconds[api] <= figures.latencies[api].seconds
        assert f'cluster_seconds_total{{api="{api}"}}' in got(address, "/metrics")


def test_clients_of_any_number_of_names_have_bounded_series(
    observed: tuple[Gateway, Address],
) -> None:
    running, address = observed
    for number in range(CLIENTS_MAX + 50):
        key = ClientKey(f"client-{number}", "", "10.0.0.1", "Fetch", 0)
        running.census.count(key, 1.0, translated=True)
    text = got(address, "/metrics")
    series = [line for line in text.splitlines() if "client_requests_total{" in line]
    assert len(series) == CLIENTS_MAX + 1
    assert sum(float(line.split()[-1]) for line in series) == CLIENTS_MAX + 50
    assert got(address, "/metrics").count("client_requests_total{") == len(series)


def test_requests_are_shown_for_a_bounded_number_of_principals(
    observed: tuple[Gateway, Address],
) -> None:
    running, address = observed
    for number in range(CLIENTS_MAX + 50):
        name = f"team-{number}"
        key = ClientKey("app", "", "10.0.0.1", "Fetch", 0, principal=name, rule="rule 1")
        running.census.count(key, 1.0, translated=True)
    text = got(address, "/metrics")
    name = "downconvert_gateway_principal_translated_requests_total"
    series = [line for line in text.splitlines() if line.startswith(f"{name}{{")]
    assert len(series) == CLIENTS_MAX + 1
    assert sum(float(line.split()[-1]) for line in series) == CLIENTS_MAX + 50
    assert f'{name}{{principal="team-0",rule="rule 1"}} 1.0' in series


def test_names_of_metrics_are_as_prometheus_wants_them(observed: tuple[Gateway, Address]) -> None:
    _, address = observed
    kinds = {}
    for line in got(address, "/metrics").splitlines():
        if line.startswith("# TYPE"):
            _, _, name, kind = line.split()
            kinds[name] = kind
    assert all(name.startswith("downconvert_gateway_") for name in kinds)
    assert all(name.endswith("_total") for name, kind in kinds.items() if kind == "counter")


def test_names_of_any_kind_break_no_line_of_the_metrics(observed: tuple[Gateway, Address]) -> None:
    _, address = observed
    hostile = 'a"b\n} 7\\'
    with Wire(running_address(observed)) as client:
        body = Message(client_software_name=hostile, client_software_version="1")
        assert client.ask(ApiKey.ApiVersions, 3, body).error_code == ErrorCode.INVALID_REQUEST
        data = frame(ApiKey.Metadata, 9, Message(topics=[]), hostile)
        client.socket.sendall(LENGTH.pack(len(data)) + data)
        client.receive()
    lines = got(address, "/metrics").splitlines()
    assert not any(line.startswith("}") for line in lines)
    rows = json.loads(got(address, "/clients"))
    assert hostile in {row["client_id"] for row in rows}
    assert {row["software"] for row in rows} == {""}


def running_address(observed: tuple[Gateway, Address]) -> Address:
    return observed[0].address


def test_errors_are_counted_by_code_and_brokers_by_how_fast_they_answer(
    observed: tuple[Gateway, Address],
) -> None:
    gateway, address = observed
    with Wire(gateway.address) as client:
        body = fetch_body(1 << 40)  # beyond the end
        for version, count in ((1, 1), (11, 1), (4, 2)):  # of which one passes through
            client.ask(ApiKey.Fetch, version, body)
            wait_for(lambda count=count: gateway.figures().errors.total() == count)  # type: ignore[misc]
        request = Message(topics=[Message(name="no-such-topic")])
        assert client.ask(ApiKey.Metadata, 1, request).topics[0].error_code == 3
    page = got(address, "/metrics")
    assert 'errors_total{api="Fetch",code="OFFSET_OUT_OF_RANGE"} 2.0' in page
    assert 'errors_total{api="Metadata",code="UNKNOWN_TOPIC_OR_PARTITION"} 1.0' in page
    (broker,) = gateway.figures().broker_latencies
    assert gateway.figures().broker_latencies[broker].seconds > 0
    assert f'broker_answer_duration_seconds_count{{broker="{broker}"}}' in page


def test_figures_of_several_processes_are_added_up() -> None:
    counters = Counters()
    counters.errors_answered("Fetch", {1: 2, 3: 1})
    counters.broker_answered("b:1", 0.5, "Fetch")
    one = Figures()
    counters.copy_to(one)
    whole = total([one, one.lasting()])
    assert whole.errors == {("Fetch", 1): 4, ("Fetch", 3): 2}
    assert whole.cluster_seconds == {"Fetch": 1.0}
    assert whole.broker_latencies["b:1"].seconds == 1.0
    assert sum(whole.broker_latencies["b:1"].counts) == 2
