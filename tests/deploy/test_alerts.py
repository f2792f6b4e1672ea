"""deploy/alerts.yaml: each alert fires, in a real Prometheus that scrapes real gateways.

An alert waits for minutes before it fires. promtool simulates them, with the same rules."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from bench.dashboard import prometheus_command
from downconvert.access.rights import Access
from downconvert.gateway.figures import End
from downconvert.gateway.observing import Observation
from downconvert.gateway.session.census import ClientCensus, ClientKey
from downconvert.gateway.topology import Address
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.certificates import self_signed
from tests.downconvert.gateway.serving import Wire, cluster, gateway
from tests.downconvert.gateway.talk import message_set, produce_body
from tests.ports import LOOPBACK, free_ports
from tests.programs import needs, running
from tests.waiting import wait_for

FILE: Final = Path(__file__).parents[2] / "deploy" / "alerts.yaml"
RULES: Final = {
    rule["alert"]: rule
    for group in yaml.safe_load(FILE.read_text())["groups"]
    for rule in group["rules"]
}
NAME: Final = re.compile(r"\bdownconvert_gateway_\w+")
# A test cannot cause these within seconds: a slow cluster, and a full disk.
EASIER: Final = {"GatewaySlow": ("> 5", "> 0"), "GatewaySpoolFull": ("< 512", "< 512000000")}
# promtool's values, a minute apart: of before, and of while it lasts.
SERIES: Final = {
    "GatewayWithoutCluster": [("ready", "1x5 0x30")],
    "GatewayErrors": [("errors_total", "0x5 0+6x30"), ("requests_total", "0+60x36")],
    "GatewaySlow": [
        ('request_duration_seconds_bucket{api="Produce",le="5.0"}', "0+60x5 300+0x30"),
        ('request_duration_seconds_bucket{api="Produce",le="10.0"}', "0+60x36"),
        ('request_duration_seconds_bucket{api="Produce",le="+Inf"}', "0+60x36"),
    ],
    "GatewaySpoolFull": [("spool_free_bytes", "600000000x5 100000000x30")],
    "GatewayCertificateEnds": [("certificate_valid_until_seconds", "605000x35")],
    "GatewayDefect": [('connections_ended_total{reason="defect"}', "0x5 1x30")],
    "GatewayClientsOverLimit": [
        ('connections_ended_total{reason="over_limit"}', "0x5 0+1x30"),
        ('connections_ended_total{reason="client_closed"}', "0+9x35"),
    ],
    "GatewayProcessesDie": [("restarted_processes_total", "0x5 1x30")],
    "GatewayReportFull": [("unreported_requests_total", "0x5 9x30")],
}

ROWS: Final = 10  # of a report

pytestmark = [pytest.mark.others, needs("prometheus", "promtool")]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A Prometheus that has scraped two gateways to which everything happens."""
    directory = tmp_path_factory.mktemp("alerts")
    certificate, key = self_signed(directory)
    (directory / "log").mkdir()
    with ExitStack() as stack:
        _, port = stack.enter_context(cluster(directory / "log", "t"))
        well = stack.enter_context(gateway(port, access=Access(connections=1)))
        ill = stack.enter_context(
            gateway(*free_ports(1), tls_cert=certificate, tls_key=key, refresh_seconds=5.0)
        )
        pages = [stack.enter_context(Observation(one, Address(LOOPBACK, 0))) for one in (well, ill)]
        jobs = {name: page.address.port for name, page in zip(("well", "ill"), pages, strict=True)}
        where = stack.enter_context(prometheus(directory, jobs))
        wait_for(lambda: len(values(where, "up == 1")) == 2)
        ill.census = ClientCensus(ROWS)
        for number in range(ROWS + 1):
            key_ = ClientKey(f"client {number}", "", "10.0.0.1", "Fetch", 12)
            ill.census.count(key_, 1.0, translated=False)
        ill.counters.connection_ended(End.DEFECT)
        with Wire(well.address) as client:
            for _ in range(3):
                wait_for_scrape(where)
                client.ask(ApiKey.Metadata, 1, Message(topics=[]))
                client.ask(ApiKey.Produce, 0, produce_body(message_set(0, b"a"), partition=7))
                with Wire(well.address) as beyond:
                    refused = beyond.ask(ApiKey.ApiVersions, 0, Message()).error_code
                    assert refused == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        wait_for_scrape(where)
        yield where


@contextmanager
def prometheus(directory: Path, jobs: dict[str, int]) -> Iterator[int]:
    """One that scrapes often; its port."""
    command, port = prometheus_command(directory, jobs, "200ms")
    with running(command, lambda: is_ready(port)):
        yield port


def is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://{LOOPBACK}:{port}/-/ready", timeout=10) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def values(port: int, query: str) -> list[Any]:
    page = f"http://{LOOPBACK}:{port}/api/v1/query?{urlencode({'query': query})}"
    with urlopen(page, timeout=10) as response:
        document = json.load(response)
    found: list[Any] = document["data"]["result"]
    return found


def wait_for_scrape(port: int) -> None:
    """Two more samples: one of them was begun after this."""

    def count() -> float:
        found = values(port, 'count_over_time(up{job="well"}[1h])')
        return float(found[0]["value"][1]) if found else 0.0

    before = count()
    wait_for(lambda: count() >= before + 2)


@pytest.mark.parametrize("name", sorted(RULES.keys() - {"GatewayProcessesDie"}))
def test_the_condition_of_an_alert_holds_where_a_gateway_is_ill(asked: int, name: str) -> None:
    expression = RULES[name]["expr"].replace(*EASIER.get(name, ("", "")))
    wait_for(lambda: bool(values(asked, expression)))


@pytest.mark.parametrize("name", sorted(RULES))
def test_an_alert_asks_for_what_a_gateway_exposes(asked: int, name: str) -> None:
    for metric in NAME.findall(RULES[name]["expr"]):
        assert values(asked, metric), metric


def test_each_alert_fires_when_it_has_lasted_and_not_before(tmp_path: Path) -> None:
    tests = []
    for name, series in SERIES.items():
        rule = RULES[name]
        inputs = [
            {"series": f"downconvert_gateway_{one}", "values": texts} for one, texts in series
        ]
        is_always = name == "GatewayCertificateEnds"
        quiet = [] if is_always else [{"eval_time": "4m", "alertname": name, "exp_alerts": []}]
        fires = {"eval_time": "25m", "alertname": name}
        summary = rule["annotations"]["summary"].replace("{{ $labels.instance }}", "")
        labels = dict(rule["labels"])
        if name == "GatewayDefect":
            labels["reason"] = "defect"
        annotations = {"summary": summary, "action": rule["annotations"]["action"]}
        fires["exp_alerts"] = [{"exp_labels": labels, "exp_annotations": annotations}]
        if name in ("GatewayDefect", "GatewayProcessesDie"):
            fires["eval_time"] = "10m"  # until it is forgotten
        tests.append({"interval": "1m", "input_series": inputs, "alert_rule_test": [*quiet, fires]})
    assert SERIES.keys() == RULES.keys()
    file = tmp_path / "test.yaml"
    file.write_text(json.dumps({"rule_files": [str(FILE)], "tests": tests}))
    ran = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
