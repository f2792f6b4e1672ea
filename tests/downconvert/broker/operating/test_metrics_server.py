"""A server shows over HTTP its health, and bounded metrics with names as Prometheus wants them."""

from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from downconvert.broker.endings import End
from downconvert.broker.operating.metrics_server import MetricsServer
from downconvert.broker.server import Server
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.series import CLIENTS_MAX, OTHERS
from tests.downconvert.broker.asking import frame
from tests.downconvert.broker.talking import SECONDS, TOPIC, Talk, fetch, serving
from tests.downconvert.broker.writable import writable_broker
from tests.ports import free_ports
from tests.waiting import wait_for


def page(address: tuple[str, int], path: str) -> tuple[int, str]:
    """The status, and the text."""
    try:
        with urlopen(f"http://{address[0]}:{address[1]}{path}", timeout=SECONDS) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def metrics(address: tuple[str, int]) -> dict[str, float]:
    """By name with labels, without what all names begin with."""
    lines = page(address, "/metrics")[1].splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name.removeprefix("downconvert_broker_"): float(value) for name, _, value in pairs}


def test_requests_for_metrics_are_counted(tmp_path: Path) -> None:
    with (
        serving(tmp_path) as server,
        MetricsServer(server, "127.0.0.1", 0) as watched,
        Talk(server.address) as talk,
    ):
        for _ in range(3):
            response = talk.ask(ApiKey.Fetch, 2, fetch())
        converted = 'converted_records_total{api="Fetch",topic="events"}'
        wait_for(lambda: metrics(watched.address)[converted] == 90)  # once the response is sent
        found = metrics(watched.address)
    assert response.responses
    assert found['requests_total{api="Fetch",version="2"}'] == 3
    assert found['client_requests_total{address="127.0.0.1",client_id="test"}'] == 3
    assert found["connections"] == 1
    assert found['response_bytes_total{api="Fetch"}'] > 0


def test_latencies_are_histograms_and_errors_and_ends_have_names(tmp_path: Path) -> None:
    with serving(tmp_path) as server, MetricsServer(server, "127.0.0.1", 0) as watched:
        with Talk(server.address) as talk:
            talk.ask(ApiKey.Fetch, 4, fetch(offset=10_000))
        with Talk(server.address) as talk:
            talk.send_frame(bytes(3))
            assert talk.has_ended()
        ended = [f'connections_ended_total{{reason="{one}"}}' for one in (End.CLIENT, End.REQUEST)]
        wait_for(lambda: all(one in metrics(watched.address) for one in ended))
        found = metrics(watched.address)
    assert found['errors_total{api="Fetch",code="OFFSET_OUT_OF_RANGE"}'] == 1
    assert found['request_duration_seconds_bucket{api="Fetch",le="+Inf"}'] == 1
    assert [found[one] for one in ended] == [1, 1]


def test_logs_disk_and_process_are_looked_at(tmp_path: Path) -> None:
    with serving(tmp_path) as server, MetricsServer(server, "127.0.0.1", 0) as watched:
        found = metrics(watched.address)
        log = tmp_path / f"{TOPIC}-0" / "00000000000000000000.log"
        assert found[f'log_bytes{{topic="{TOPIC}"}}'] == log.stat().st_size
    assert found[f'partitions{{topic="{TOPIC}"}}'] == 1
    assert (found["offline_partitions"], found["directory_offline"]) == (0, 0)
    assert 0 < found["disk_free_bytes"] <= found["disk_size_bytes"]
    assert found["disk_full_total"] == 0
    assert found["resident_memory_bytes"] > 1e6
    assert 0 < found["open_files"] <= found["open_files_max"]
    assert found["cpu_seconds_total"] > 0


def test_a_groups_lag_is_what_it_has_not_committed(tmp_path: Path) -> None:
    with serving(tmp_path) as server, MetricsServer(server, "127.0.0.1", 0) as watched:
        committed = Message(partition_index=0, committed_offset=12, committed_metadata="")
        body = Message(group_id="g", topics=[Message(name=TOPIC, partitions=[committed])])
        with Talk(server.address) as talk:
            (topic,) = talk.ask(ApiKey.OffsetCommit, 0, body).topics
        assert topic.partitions[0].error_code == 0
        assert metrics(watched.address)[f'group_lag_records{{group="g",topic="{TOPIC}"}}'] == 18


def test_clients_of_any_number_of_names_have_bounded_series(tmp_path: Path) -> None:
    with (
        serving(tmp_path) as server,
        MetricsServer(server, "127.0.0.1", 0) as watched,
        Talk(server.address) as talk,
    ):
        for number in range(CLIENTS_MAX + 20):
            body = Message(topics=[])
            talk.send_frame(frame(ApiKey.Metadata, 1, body, f'client "{number}"\n'))
            talk.receive()
        found = metrics(watched.address)
    series = {name: value for name, value in found.items() if "client_requests_total{" in name}
    assert len(series) == CLIENTS_MAX + 1
    others = f'client_requests_total{{address="{OTHERS}",client_id="{OTHERS}"}}'
    assert series[others] == 20


def test_names_are_as_prometheus_wants_them(tmp_path: Path) -> None:
    with (
        writable_broker(tmp_path, TOPIC) as broker,
        Server(broker) as server,
        MetricsServer(server, "127.0.0.1", 0) as watched,
    ):
        lines = page(watched.address, "/metrics")[1].splitlines()
    kinds = dict(line.split()[2:] for line in lines if line.startswith("# TYPE"))
    assert all(name.startswith("downconvert_broker_") for name in kinds)
    assert all(name.endswith("_total") for name, kind in kinds.items() if kind == "counter")
    assert "downconvert_broker_removed_bytes_total" in kinds
    units = ("_seconds", "_bytes")
    assert all(name.endswith(units) for name, kind in kinds.items() if kind == "histogram")


def test_it_is_alive_and_ready_while_it_serves(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        watched = MetricsServer(server, "127.0.0.1", 0)
        for path in ("/healthz", "/readyz"):
            assert page(watched.address, path) == (200, "ok\n")
    for path in ("/healthz", "/readyz"):
        assert page(watched.address, path) == (503, "it is not running\n")
    assert page(watched.address, "/")[0] == 404
    watched.close()


def test_a_failed_disk_is_alive_and_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path) as server, MetricsServer(server, "127.0.0.1", 0) as watched:
        log_dir = type(server.broker.topics.log_dir)
        monkeypatch.setattr(log_dir, "offline_reason", "an I/O error")
        assert page(watched.address, "/healthz")[0] == 200
        assert page(watched.address, "/readyz") == (503, "its disk has failed: an I/O error\n")
        assert metrics(watched.address)["directory_offline"] == 1
        assert metrics(watched.address)["ready"] == 0


def test_it_ends_when_it_is_closed(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with serving(tmp_path) as server:
        with MetricsServer(server, "127.0.0.1", port) as watched:
            address = watched.address
        with pytest.raises(OSError, match="refused"):
            metrics(address)
        with MetricsServer(server, *address) as again:  # it leaves nothing behind
            assert metrics(again.address)["connections"] == 0


def test_counters_are_one_series_each(tmp_path: Path) -> None:
    with serving(tmp_path) as server, MetricsServer(server, "127.0.0.1", 0) as watched:
        with Talk(server.address) as talk:
            talk.ask(ApiKey.Fetch, 2, fetch())
        name = "downconvert_broker_requests_total"
        for path in ("/metrics", f"/metrics?name[]={name}"):
            shown = page(watched.address, path)[1]
            assert f"{name}{{" in shown
            assert "_created" not in shown
