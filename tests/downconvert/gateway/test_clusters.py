"""Sections of several clusters: what each means, and what they cannot have in common."""

import json
import tomllib
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from downconvert.access.rights import ConfigError
from downconvert.gateway.clusters import ONLY, SectionError, build_all
from downconvert.gateway.observing import Observation
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from tests.ports import LOOPBACK, free_ports
from tests.waiting import wait_for

from .serving import Wire, cluster, gateway
from .test_observing import ANY_PORT, got

TWO = """
topics = "shared-*"
[limits]
connections = 7
memory = 1000

[[clusters]]
name = "east"
bootstrap = "east:9092"
listen = "127.0.0.1:1"
topics = "east-*"
[clusters.limits]
connections = 3
[[clusters.clients]]
networks = "10.0.0.0/8"

[[clusters]]
name = "west"
bootstrap = "west:9092"
listen = "127.0.0.1:2"
"""
# Series of the process, which serves all clusters.
OF_PROCESSES = (
    *("build_info", "cpu_seconds_total", "processes", "resident_memory_bytes"),
    "restarted_processes_total",
)


def built(text: str, **overrides: Any) -> dict[str, Any]:
    return build_all(tomllib.loads(text), overrides, {})


def test_a_file_without_sections_is_about_one_cluster_without_a_name() -> None:
    clusters = built('bootstrap = "k:1"', read_only=True)
    assert clusters.keys() == {ONLY}
    assert clusters[ONLY].bootstrap == (Address("k", 1),)
    assert clusters[ONLY].access.is_read_only


def test_each_section_has_its_settings_and_those_at_the_top_that_it_leaves_out() -> None:
    clusters = built(TWO, limits={"idle_timeout": 5.0})
    east, west = clusters["east"], clusters["west"]
    assert list(clusters) == ["east", "west"]
    assert [one.bootstrap[0].host for one in (east, west)] == ["east", "west"]
    assert [one.listen.port for one in (east, west)] == [1, 2]
    assert [one.access.topics for one in (east, west)] == [("east-*",), ("shared-*",)]
    assert [one.limits.connections for one in (east, west)] == [3, 7]
    assert [one.limits.memory for one in (east, west)] == [1000, 1000]
    assert [one.limits.idle_timeout for one in (east, west)] == [5.0, 5.0]
    assert [len(one.identities.rules) for one in (east, west)] == [1, 0]


def test_one_cluster_may_have_two_listeners_such_as_one_with_old_tls() -> None:
    files = 'tls_cert = "c"\ntls_key = "k"\ntls_min_version = "1.0"\n'
    clusters = built(TWO.replace("west:9092", "east:9092") + files)
    assert clusters["east"].bootstrap == clusters["west"].bootstrap
    assert [one.takes_old_tls for one in clusters.values()] == [False, True]


@pytest.mark.parametrize(
    ("text", "section", "message"),
    [
        (TWO.replace('name = "west"\n', ""), 1, "each section of .* has one"),
        (TWO.replace('"west"', '"a b"'), 1, "each section of .* has one"),
        (TWO.replace('"west"', '"east"'), 1, "two clusters are called 'east'"),
        (TWO.replace('listen = "127.0.0.1:2"', ""), 1, "cluster west: no listen"),
        (TWO.replace("1:2", "1:1"), 1, "listen: cluster 'east' has port 1 already"),
        (TWO + "node_ports = { 0 = 1 }", 1, "node_ports: cluster 'east' has port 1 already"),
        (TWO.replace('bootstrap = "west:9092"', ""), 1, "cluster west: no cluster"),
        (TWO + "tls_cert = 5", 1, "cluster west: tls_cert is 5"),
        (TWO.replace("connections = 3", "connection = 3"), 0, "cluster east: 'connection' is not"),
        (TWO + 'http = "127.0.0.1:9100"', 1, "'http' is not a setting of"),
        ('bootstrap = "k:1"\n' + TWO, None, "bootstrap belongs to one cluster"),
        ("workers_ = 2\n" + TWO, None, "'workers_' is not a setting"),
        ("clusters = []", None, "clusters is empty"),
        ("clusters = [1]", None, "clusters are tables"),
        ("clusters = 1", None, "clusters is 1"),
    ],
)
def test_a_wrong_section_is_refused_and_named(text: str, section: int | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        built(text)
    assert getattr(raised.value, "section", None) == section


@pytest.mark.parametrize(
    ("overrides", "option"),
    [({"bootstrap": ["k:1"]}, "--bootstrap"), ({"node_ports": {"0": "1"}}, "--node-port")],
)
def test_options_of_one_cluster_are_refused_where_there_are_several(
    overrides: dict[str, Any], option: str
) -> None:
    with pytest.raises(ConfigError, match=f"{option} belongs to one cluster") as raised:
        built(TWO, **overrides)
    assert not isinstance(raised.value, SectionError)


def state(address: Address, page: str) -> tuple[int, str]:
    try:
        return 200, got(address, page)
    except HTTPError as error:
        return error.code, error.read().decode()


def test_one_page_shows_all_clusters_and_the_process_once(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (nowhere,) = free_ports(1)
    with ExitStack() as stack:
        _, port = stack.enter_context(cluster(tmp_path / "log", "t"))
        gateways = {
            name: stack.enter_context(gateway(where))
            for name, where in (("east", port), ("west", nowhere))
        }
        page = stack.enter_context(Observation(gateways, ANY_PORT))
        wait_for(lambda: state(page.address, "/readyz/east")[0] == 200)
        with Wire(gateways["east"].address) as client:
            client.ask(ApiKey.Metadata, 1, Message(topics=None))
            samples = [
                line for line in got(page.address, "/metrics").splitlines() if line[0] != "#"
            ]
        rows = [row for name, row in _rows(got(page.address, "/clients")) if name == "east"]
    names = [line.removeprefix("downconvert_gateway_").partition("{")[0] for line in samples]
    assert len(samples) == len(set(samples))
    for name, line in zip(names, samples, strict=True):
        is_of_process = name.partition(" ")[0] in OF_PROCESSES
        assert ('cluster="' in line) != is_of_process, line
    assert 'downconvert_gateway_ready{cluster="east"} 1.0' in samples
    assert 'downconvert_gateway_ready{cluster="west"} 0.0' in samples
    assert sum(name.startswith("cpu_seconds_total") for name in names) == 1
    assert [row["api"] for row in rows] == ["Metadata"]


def _rows(text: str) -> list[tuple[str, dict[str, Any]]]:
    return [(row["cluster"], row) for row in json.loads(text)]


def test_it_is_ready_while_one_cluster_is_and_each_has_a_page(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    ports = free_ports(2)
    with ExitStack() as stack:
        gateways = {
            name: stack.enter_context(gateway(port, refresh_seconds=0.1))
            for name, port in zip(("east", "west"), ports, strict=True)
        }
        page = stack.enter_context(Observation(gateways, ANY_PORT))
        code, message = state(page.address, "/readyz")
        assert code == 503
        assert [line.split(":")[0] for line in message.splitlines()] == [
            "cluster east",
            "cluster west",
        ]
        with cluster(tmp_path / "log", "t", port=ports[0]):
            wait_for(lambda: state(page.address, "/readyz") == (200, "ok\n"))
            assert state(page.address, "/readyz/east") == (200, "ok\n")
            code, message = state(page.address, "/readyz/west")
            assert code == 503
            assert f"{LOOPBACK}:{ports[1]}" in message
            assert state(page.address, "/readyz/north")[0] == 404
        assert state(page.address, "/healthz") == (200, "ok\n")
        gateways["west"].stop()
        assert state(page.address, "/healthz") == (503, "cluster west: it is not running\n")
