"""The parent of several processes asks its children, and adds up their responses."""

import socket
import time
from dataclasses import replace
from typing import Any

import pytest

from downconvert.access.rights import Access, ConfigError
from downconvert.gateway import processes
from downconvert.gateway.config import GatewayConfig, Limits
from downconvert.gateway.figures import Figures
from downconvert.gateway.identity import ClientRule, Identities
from downconvert.gateway.processes import Processes
from downconvert.gateway.topology import BOOTSTRAP, Address
from tests.ports import LOOPBACK, free_ports
from tests.waiting import wait_for

from .children import Child, Children, is_free

NODE = 5
CONFIG = GatewayConfig(bootstrap=(Address(LOOPBACK, 1),), listen=Address(LOOPBACK, 0))
LIMITS = Limits(
    connections=5,
    connections_per_address=4,
    memory=7,
    requests_memory=9,
    request_size=1001,
    drain_timeout=0.1,
)


def rules(*connections: int | None) -> Identities:
    made = [Access(connections=one) for one in connections]
    hosts = ("a", "b")
    return Identities(
        rules=tuple(
            ClientRule(access=one, credentials=None, user=name)
            for one, name in zip(made, hosts, strict=False)
        )
    )


def limits_of(config: GatewayConfig) -> tuple[Any, ...]:
    limits = config.limits
    sizes = limits.connections, limits.connections_per_address, limits.memory
    connections = [rule.access.connections for rule in config.identities.rules]
    others = limits.requests_memory, limits.request_size
    return *sizes, *others, config.access.connections, connections


def test_limits_are_shared_between_all_and_rounded_up(children: Children) -> None:
    access = Access(connections=3)
    config = replace(CONFIG, limits=LIMITS, access=access, identities=rules(5, None))
    shared = (3, 2, 4, 5, 1001, 2, [3, None])
    with Processes(config, 2) as running:
        assert [limits_of(one) for one in children.configs()] == [shared] * 2
        assert running.config is config
        later = replace(config, limits=replace(LIMITS, connections=8), identities=rules(1, 2))
        running.reload(later)
        for child in children.started:
            assert [what for what, _ in child.asked] == ["ready", "reload"]
            assert limits_of(child.asked[-1][1]) == (4, 2, 4, 5, 1001, 2, [1, 1])
        assert running.config == later


def test_settings_that_wait_for_a_restart_stay(children: Children) -> None:
    with Processes(CONFIG, 2) as running:
        (port,) = free_ports(1)
        moved = replace(CONFIG, listen=Address(LOOPBACK, port), access=Access(is_read_only=True))
        running.reload(moved)
        assert running.config == replace(moved, listen=CONFIG.listen)
        children.started[0].responses["reload"] = ConfigError("refused")
        with pytest.raises(ConfigError, match="refused"):
            running.reload(CONFIG)
        assert [what for what, _ in children.started[1].asked] == ["ready", "reload"]
        assert running.config.access.is_read_only


def test_each_ledger_is_one_of_its_own_and_all_children_have_the_same(children: Children) -> None:
    with Processes(CONFIG, 3):
        first, *others = [child.ledgers for child in children.started]
        assert all(one is first for one in others)
        quotas, failed = first.quotas, first.failed_logins
        assert quotas is not failed
        assert len({id(one) for one in vars_of(first)}) == 3


def vars_of(ledgers: Any) -> list[object]:
    names = getattr(ledgers, "__slots__", None) or vars(ledgers)
    return [getattr(ledgers, name) for name in names]


def test_a_child_that_cannot_serve_ends_the_start_and_the_others(children: Children) -> None:
    def prepare(child: Child) -> None:
        if child.number == 1:
            child.responses["ready"] = ConfigError("no such file")

    children.prepare = prepare
    (port,) = free_ports(1)
    running = Processes(replace(CONFIG, listen=Address(LOOPBACK, port)), 2)
    with pytest.raises(ConfigError, match="no such file"):
        running.start()
    assert not any(child.is_alive() for child in children.started)
    assert is_free(port)
    assert not running.is_alive


def test_an_invalid_setting_starts_no_child(children: Children) -> None:
    with pytest.raises(ConfigError):
        Processes(replace(CONFIG, tls_cert="/no", tls_key="/no"), 2).start()
    assert not children.started


@pytest.mark.parametrize("is_slow", [False, True])
def test_children_have_time_to_end_and_are_killed_after_it(
    children: Children, is_slow: bool
) -> None:
    def prepare(child: Child) -> None:
        child.stops = not is_slow

    children.prepare = prepare
    (port,) = free_ports(1)
    running = Processes(replace(CONFIG, limits=LIMITS, listen=Address(LOOPBACK, port)), 2)
    running.start()
    assert running.is_alive
    assert not is_free(port)
    started = time.monotonic()
    running.stop()
    took = time.monotonic() - started
    assert [child.asked[-1][0] for child in children.started] == ["stop"] * 2
    assert [child.is_killed for child in children.started] == [is_slow] * 2
    given = LIMITS.drain_timeout + processes.RESPONSE_SECONDS
    assert took > (given if is_slow else 0.0)
    assert not running.is_alive
    assert is_free(port)


def test_figures_are_added_up_and_the_silent_are_named(children: Children) -> None:
    with Processes(CONFIG, 2) as running:
        figures = running.figures()
        assert (figures.processes, figures.connections, figures.unready) == (2, 21, [])
        each = {n: (one.connections, one.resident_bytes) for n, one in figures.each.items()}
        assert each == {0: (10, 100), 1: (11, 101)}
        children.started[1].figures = Figures(connections=50, cpu_seconds=4.0, restarted=1)
        assert running.figures().connections == 60
        children.started[1].responses["figures"] = OSError("it is ill")
        figures = running.figures()
        assert figures.unready == ["1 of 2 processes do not answer"]
        assert (figures.processes, figures.connections) == (1, 10)
        assert (figures.cpu_seconds, figures.restarted) == (4.0, 1)  # they only grow
        children.started[0].responses["figures"] = ConfigError("it cannot serve")
        assert running.figures().unready == ["2 of 2 processes do not answer"]


def test_a_child_that_dies_is_replaced_and_stays_counted(
    children: Children, caplog: pytest.LogCaptureFixture
) -> None:
    with Processes(replace(CONFIG, limits=LIMITS), 2) as running:
        children.started[0].figures = Figures(connections=7, cpu_seconds=4.0)
        running.figures()
        for count in (1, 2):
            children.started[-1 if count > 1 else 0].die()
            assert running.is_alive  # the other one serves
            wait_for(lambda: running.figures().restarted == count)  # noqa: B023
        figures = running.figures()
        assert (figures.processes, figures.unready, figures.cpu_seconds) == (2, [], 4.0)
        assert sorted(figures.each) == [0, 1]
        assert len(children.started) == 4
        assert limits_of(children.started[-1].config) == limits_of(children.started[0].config)
    lines = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert lines == ["process 77 of the gateway died (-9): it is restarted"] * 2


def test_it_is_tried_again_if_the_system_cannot_start_a_process(
    children: Children, caplog: pytest.LogCaptureFixture
) -> None:
    """It may have no memory for one. Otherwise nobody would take the place of the dead."""
    tried: list[int] = []

    def prepare(child: Child) -> None:
        tried.append(child.number)
        if len(tried) in (2, 3):
            raise OSError("there is no memory")

    with Processes(CONFIG, 1) as running:
        children.prepare = prepare
        tried.append(0)
        started = time.monotonic()
        children.started[0].die()
        wait_for(lambda: running.figures().restarted == 1)
        assert len(tried) == 4
        assert time.monotonic() - started > 3 * processes.RESTART_SECONDS  # not at once
        assert running.figures().unready == []
    lines = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert lines.count("no process can be started in its place: there is no memory") == 2


def test_a_port_is_open_until_the_last_child_that_listens_has_gone(children: Children) -> None:
    (port,) = free_ports(1)
    with Processes(CONFIG, 3) as running:
        first, second, third = [child.listeners for child in children.started]
        for one in (first, second):
            for copy in one.copies(NODE, port):
                assert copy.getsockname()[1] == port
                copy.close()
        for copy in first.copies(BOOTSTRAP, running.address.port):
            copy.close()
        assert not is_free(port)
        first.close(NODE)
        first.close(BOOTSTRAP)
        time.sleep(0.05)
        assert not is_free(running.address.port)  # clients find the gateway there
        assert settled(third, running)
        assert not is_free(port)
        second.close(NODE)
        wait_for(lambda: is_free(port))
        assert not is_free(running.address.port)
        for copy in second.copies(NODE, port):  # it may be opened again
            copy.close()
        children.started[1].die()
        wait_for(lambda: is_free(port))


def settled(listeners: Any, running: Processes) -> bool:
    """After a response to a later request. The parent has handled the earlier ones."""
    time.sleep(0.05)
    for copy in listeners.copies(BOOTSTRAP, running.address.port):
        copy.close()
    return True


@pytest.mark.parametrize("shares", [True, False])
def test_ports_are_shared_with_other_gateways_only_if_that_is_wanted(
    children: Children, shares: bool
) -> None:
    with Processes(replace(CONFIG, shares_ports=shares), 2) as running, socket.socket() as other:
        assert children.started
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if shares:
            other.bind(running.address)
        else:
            with pytest.raises(OSError, match="in use"):
                other.bind(running.address)


def test_a_port_that_cannot_be_opened_is_reported_to_the_child(children: Children) -> None:
    with Processes(CONFIG, 2) as running:
        one = children.started[0].listeners
        with pytest.raises(OSError, match="in use"):
            one.copies(NODE, running.address.port)
        (port,) = free_ports(1)
        for copy in one.copies(NODE, port):  # others can be
            copy.close()
