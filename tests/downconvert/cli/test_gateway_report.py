"""`downconvert gateway --report`, and a gateway's pages over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from downconvert.protocol.schemas import ApiKey
from tests.downconvert.broker.asking import frame
from tests.downconvert.gateway.serving import LENGTH, TIMEOUT, Wire
from tests.downconvert.gateway.talk import fetch_body
from tests.ports import LOOPBACK, free_ports
from tests.report_pages import check_fits_a_phone

from .gateways import Running, gateway, produce
from .running import Command


@pytest.fixture
def observed(port: int) -> Iterator[tuple[Running, str]]:
    """A gateway that an old and a new client have used, and where it is observed."""
    (http,) = free_ports(1)
    with gateway(port, "--http", f"{LOOPBACK}:{http}") as running:
        produce(running)
        running.ask(ApiKey.Fetch, 0, fetch_body(0))
        running.ask(ApiKey.Fetch, 12, fetch_body(0))
        yield running, f"http://{LOOPBACK}:{http}"


def got(url: str) -> str:
    with urlopen(url, timeout=TIMEOUT) as response:
        text: str = response.read().decode()
    return text


def test_health_metrics_and_clients_are_served_over_http(observed: tuple[Running, str]) -> None:
    _, url = observed
    assert got(f"{url}/healthz") == got(f"{url}/readyz") == "ok\n"
    labels = 'api="Fetch",version="0"'
    name = "downconvert_gateway_converted_records_total"
    assert f"{name}{{{labels}}} 1.0" in got(f"{url}/metrics")
    rows = json.loads(got(f"{url}/clients"))
    assert {(row["api"], row["version"]) for row in rows} >= {("Fetch", 0), ("Fetch", 12)}
    with pytest.raises(HTTPError, match="404"):
        got(f"{url}/nothing")


def test_the_report_is_a_table_lines_for_programs_and_a_page(
    observed: tuple[Running, str], command: Command, tmp_path: Path
) -> None:
    _, url = observed
    table = command("gateway", "--report", url)
    assert (table.code, table.err) == (0, "")
    assert "1 of 1 client needs the gateway." in table.out
    assert "test: Fetch v0, Produce v0" in table.out
    rows = json.loads(command("gateway", "--report", url, "--json").out)
    assert sum(row["records_converted"] for row in rows) == 1
    page = tmp_path / "old.html"
    ran = command("gateway", "--report", url.removeprefix("http://"), "--html", page)
    assert f"{page}: open it in a browser" in ran.err
    assert "Which clients use old versions" in page.read_text()
    assert "Fetch v0, Produce v0" in page.read_text()
    assert 'name="viewport" content="width=device-width' in page.read_text()
    assert '<p class="conclusion bad">1 of 1 client needs the gateway.</p>' in page.read_text()
    assert '<span class="bad">test</span>' in page.read_text()
    check_fits_a_phone(page)


@pytest.mark.parametrize(("by", "name"), [("principal", "(none)"), ("prefix", "test")])
def test_the_report_can_be_grouped(
    observed: tuple[Running, str], command: Command, tmp_path: Path, by: str, name: str
) -> None:
    _, url = observed
    (group,) = json.loads(command("gateway", "--report", url, "--by", by, "--json").out)
    assert (group["name"], group["old_clients"], group["clients"]) == (name, 1, 1)
    assert group["old"] == ["Fetch v0", "Produce v0"]
    assert group["first_seen"] <= group["last_old"] <= group["last_seen"]
    page = tmp_path / "old.html"
    ran = command("gateway", "--report", url, "--by", by, "--html", page)
    assert "1 of 1 group needs the gateway." in ran.out
    assert f"{name}: Fetch v0, Produce v0" in ran.out
    assert f"<th>{by}</th>" in page.read_text()
    check_fits_a_phone(page)


def test_a_report_without_old_clients_says_so(port: int, command: Command) -> None:
    (http,) = free_ports(1)
    url = f"{LOOPBACK}:{http}"
    with gateway(port, "--http", url) as running:
        nobody = command("gateway", "--report", url)
        assert "No client has sent a request yet." in nobody.out
        running.ask(ApiKey.Fetch, 12, fetch_body(0))
        assert "None of 1 client needs the gateway." in command("gateway", "--report", url).out


def test_client_names_are_escaped_in_the_report(
    observed: tuple[Running, str], command: Command, tmp_path: Path
) -> None:
    running, url = observed
    hostile = "<script>[red]\x1b[2J"
    request = frame(ApiKey.Fetch, 0, fetch_body(0), hostile)
    with Wire(running.address) as client:
        client.socket.sendall(LENGTH.pack(len(request)) + request)
        client.receive()
    ran = command("gateway", "--report", url, "--html", tmp_path / "old.html")
    assert ran.code == 0
    assert "  <script>[red]\\x1b[2J: Fetch v0\n" in ran.out
    assert "<script" not in (tmp_path / "old.html").read_text()
