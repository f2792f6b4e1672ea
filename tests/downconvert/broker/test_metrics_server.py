from pathlib import Path
from urllib.request import urlopen

import pytest

from downconvert.broker.metrics_server import MetricsServer
from downconvert.broker.wire.schemas import ApiKey

from .talking import SECONDS, Talk, fetch, serving


def metrics(address: tuple[str, int]) -> dict[str, float]:
    with urlopen(f"http://{address[0]}:{address[1]}/metrics", timeout=SECONDS) as page:
        lines = page.read().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def test_what_is_served_is_counted(tmp_path: Path) -> None:
    with (
        serving(tmp_path) as server,
        MetricsServer(server, "127.0.0.1", 0) as watched,
        Talk(server.address) as talk,
    ):
        for _ in range(3):
            answer = talk.ask(ApiKey.Fetch, 2, fetch())
        found = metrics(watched.address)
    assert answer.responses
    assert found['requests_total{request="Fetch",version="2"}'] == 3
    assert found['fetch_message_conversions_total{topic="events"}'] == 90
    assert found["connections"] == 1
    assert found['bytes_out_total{request="Fetch"}'] > 0


def test_it_ends_when_it_is_closed(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        with MetricsServer(server, "127.0.0.1", 0) as watched:
            address = watched.address
        with pytest.raises(OSError, match="refused"):
            metrics(address)
