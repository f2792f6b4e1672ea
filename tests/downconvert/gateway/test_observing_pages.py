"""The HTTP pages of one cluster and of several, whose states and figures the test decides."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from downconvert.gateway.figures import Figures
from downconvert.gateway.observing import Observation, last_old
from downconvert.gateway.topology import Address
from tests.ports import LOOPBACK, free_ports

from .serving import TIMEOUT


@dataclass
class Cluster:
    """A gateway of one cluster."""

    is_alive: bool = True
    unready: list[str] = field(default_factory=list)
    clients: list[dict[str, Any]] = field(default_factory=list)
    last_old: list[Any] = field(default_factory=list)

    def figures(self) -> Figures:
        return Figures(unready=self.unready, clients=self.clients, last_old=self.last_old)


@contextmanager
def pages(observed: Any, **options: Any) -> Iterator[Address]:
    observation = Observation(observed, Address(LOOPBACK, 0), **options)
    try:
        yield observation.address
    finally:
        observation.close()


def got(address: Address, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://{address}{path}", timeout=TIMEOUT) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize("is_alive", [True, False])
@pytest.mark.parametrize("is_ready", [True, False])
def test_a_gateway_may_be_alive_and_not_ready(is_alive: bool, is_ready: bool) -> None:
    one = Cluster(is_alive, [] if is_ready else ["no broker answers"])
    with pages(one) as address:
        alive = (200, "ok\n") if is_alive else (503, "it is not running\n")
        assert got(address, "/healthz") == alive
        ready = (200, "ok\n") if is_ready else (503, "no broker answers\n")
        assert got(address, "/readyz") == ready
        assert got(address, "/readyz/")[0] == 404


@pytest.mark.parametrize(("states", "code"), [("rr", 200), ("ru", 200), ("ur", 200), ("uu", 503)])
def test_a_gateway_of_several_is_ready_while_it_serves_any_of_them(states: str, code: int) -> None:
    named = {
        name: Cluster(unready=[] if state == "r" else [f"{name} is silent", "and slow"])
        for name, state in zip(("north", "south"), states, strict=True)
    }
    with pages(MappingProxyType(named)) as address:
        found, text = got(address, "/readyz")
        assert found == code
        if code == 503:
            assert text.splitlines() == [
                *["cluster north: north is silent", "cluster north: and slow"],
                *["cluster south: south is silent", "cluster south: and slow"],
            ]
        for name, state in zip(("north", "south"), states, strict=True):
            silent = (503, f"{name} is silent\nand slow\n")
            assert got(address, f"/readyz/{name}") == ((200, "ok\n") if state == "r" else silent)


def test_every_cluster_has_to_run() -> None:
    named = {"north": Cluster(), "south": Cluster(is_alive=False), "west": Cluster()}
    with pages(MappingProxyType(named)) as address:
        assert got(address, "/healthz") == (503, "cluster south: it is not running\n")
        named["south"].is_alive = True
        assert got(address, "/healthz") == (200, "ok\n")


def test_rows_of_several_clusters_say_which_is_theirs() -> None:
    north, south = Cluster(clients=[{"api": "a"}]), Cluster(clients=[{"api": "b"}, {"api": "c"}])
    with pages(MappingProxyType({"north": north, "south": south})) as address:
        assert json.loads(got(address, "/clients")[1]) == [
            {"cluster": "north", "api": "a"},
            {"cluster": "south", "api": "b"},
            {"cluster": "south", "api": "c"},
        ]
    with pages(south) as address:
        assert json.loads(got(address, "/clients")[1]) == [{"api": "b"}, {"api": "c"}]


def test_the_history_is_made_of_what_was_seen_of_each_cluster() -> None:
    named: Any = {"north": Cluster(last_old=[("t", "p", 5.0)]), "south": Cluster()}
    assert last_old(named) == {"north": [("t", "p", 5.0)], "south": []}
    with pages(MappingProxyType(named), history=lambda rows: {"seen": rows}) as address:
        shown = json.loads(got(address, "/history")[1])
    assert shown == {"seen": {"north": [["t", "p", 5.0]], "south": []}}


def test_the_pages_are_at_the_port_that_was_asked_for() -> None:
    (port,) = free_ports(1)
    one: Any = Cluster()
    observation = Observation(one, Address(LOOPBACK, port))
    try:
        assert observation.address == Address(LOOPBACK, port)
    finally:
        observation.close()
