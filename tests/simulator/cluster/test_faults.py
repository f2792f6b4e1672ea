"""Faults of a simulated cluster: which happen, and what they leave when they end.

The brokers here do nothing but note what is done to them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from downconvert.storage import TopicPartition
from simulator.cluster.faults import DOWN, Faults
from simulator.cluster.membership import CONTROLLER
from simulator.cluster.network import Network
from simulator.cluster.options import options_for
from simulator.cluster.timeline import Timeline

START = 1000.0  # seconds
SECONDS = 60.0


@dataclass
class Disk:
    is_full: bool = False
    may_die: bool = False

    def fill(self, *, is_full: bool) -> None:
        self.is_full = is_full

    def dies_never(self) -> None:
        self.may_die = False


@dataclass
class Node:
    """A machine that stays down, and does nothing on its disk. Its death during an operation
    remains due until the test ends."""

    id: int
    disk: Disk | None = field(default_factory=Disk)
    is_up: bool = True
    has_lost: bool = False
    may_lose: bool = False
    paused: float = 0.0
    flushed: int = 0
    connections: set[Any] = field(default_factory=set)

    @property
    def host(self) -> str:
        return f"broker-{self.id}"

    def die(self, *, power: bool) -> None:
        assert self.is_up
        self.is_up, self.has_lost, self.disk = False, self.has_lost or power, None

    def die_in(self, operations: int, *, power: bool) -> None:
        assert operations > 0
        assert self.disk is not None
        self.disk.may_die, self.may_lose = True, power

    def pause(self, seconds: float) -> None:
        self.paused = seconds

    def flush(self) -> None:
        self.flushed += 1


class Run:
    """Faults among machines, for a while."""

    def __init__(self, seed: int, *kinds: str, brokers: int = 5, min_insync: int = 3) -> None:
        self.timeline = Timeline(START)
        self.nodes = [Node(number) for number in range(brokers)]
        self.dead: list[Node] = []
        self.moved: list[TopicPartition] = []
        options = options_for(seed, brokers=brokers)
        context: Any = SimpleNamespace(
            options=replace(options, faults=kinds, min_insync=min_insync, fault_every=0.5),
            timeline=self.timeline,
            network=Network(self.timeline, Random(seed)),
            controller=SimpleNamespace(move_leader=lambda name, _: self.moved.append(name)),
            assignment={TopicPartition("t", number): (0, 1) for number in range(2)},
        )
        self.context = context
        nodes: Any = self.nodes
        on_death: Any = self.dead.append
        self.faults = Faults(context, nodes, ["client"], on_death)

    def pass_by(self, check: Callable[[], None] = lambda: None) -> None:
        for _ in range(int(SECONDS)):
            self.timeline.run_until(self.timeline.now + 1)
            check()


@pytest.mark.parametrize("min_insync", [1, 2, 3])
def test_fewer_machines_than_hold_a_record_have_lost_data_or_are_about_to(min_insync: int) -> None:
    for seed in range(10):
        run = Run(seed, "torn-disks", min_insync=min_insync)
        run.pass_by()
        lost = [node.id for node in run.nodes if node.has_lost or node.may_lose]
        assert len(lost) == min_insync - 1
        happened = run.faults.happened.get("torn-disks", 0)
        assert happened >= len(lost)  # one that has lost data may lose it again
        assert bool(happened) == bool(lost)


def test_machines_without_power_are_chosen_again_when_they_have_caught_up() -> None:
    run = Run(1, "torn-disks", min_insync=2)
    chosen: set[int] = set()

    def catch_up() -> None:
        for node in run.nodes:
            if node.has_lost or node.may_lose:
                chosen.add(node.id)
                node.is_up, node.has_lost, node.may_lose, node.disk = True, False, False, Disk()

    run.pass_by(catch_up)
    assert chosen == set(range(5))


def test_a_broker_that_is_down_is_not_killed_again() -> None:
    for seed in range(10):
        run = Run(seed, "kills")
        run.pass_by()
        assert run.dead
        assert len(run.dead) == len({node.id for node in run.dead})
        assert not any(node.has_lost or node.may_lose for node in run.nodes)


def test_a_full_disk_has_room_again_after_a_while() -> None:
    run = Run(3, "full-disks")
    seen: set[int] = set()
    run.pass_by(
        lambda: seen.update(node.id for node in run.nodes if node.disk and node.disk.is_full)
    )
    assert len(seen) > 1
    run.faults.stop()
    run.timeline.run_until(run.timeline.now + 2)
    assert not any(node.disk and node.disk.is_full for node in run.nodes)


def test_only_the_chosen_kinds_happen_and_all_of_them() -> None:
    kinds = ("full-disks", "elections", "stalls", "delays")
    run = Run(4, *kinds)
    run.pass_by()
    assert set(run.faults.happened) == set(kinds)
    assert set(run.moved) == set(run.context.assignment)
    assert any(node.paused for node in run.nodes)
    assert run.context.network.stalls > 0
    assert not run.context.network.is_uneven
    assert not run.dead


def test_a_reset_without_connections_did_not_happen() -> None:
    run = Run(5, "resets")
    run.pass_by()
    assert run.faults.happened == {}


def test_no_fault_outlasts_the_end_of_all() -> None:
    for seed in range(5):
        run = Run(seed, "full-disks", "stalls", "kills")
        run.pass_by()
        for node in run.nodes:
            if node.disk is not None:
                node.disk = Disk(is_full=True, may_die=True)
        assert DOWN[0] <= run.faults.down_time() <= DOWN[1]
        run.faults.stop()
        happened, flushed = dict(run.faults.happened), [node.flushed for node in run.nodes]
        run.pass_by()
        assert run.faults.happened == happened
        assert [node.flushed for node in run.nodes] == flushed
        assert all(node.disk in (None, Disk()) for node in run.nodes)
        assert not any(node.paused for node in run.nodes)
        assert run.faults.down_time() == 0.1
        assert len(run.timeline) == 0


def test_links_are_cut_for_a_while_and_heal_at_the_end() -> None:
    hosts = ["client", CONTROLLER, *(f"broker-{number}" for number in range(5))]
    run, seen = Run(7, "drops"), set[tuple[str, str]]()

    def cut() -> list[tuple[str, str]]:
        is_cut = run.context.network.is_cut
        return [pair for pair in combinations(hosts, 2) if is_cut(*pair)]

    run.pass_by(lambda: seen.update(cut()))
    assert {host for pair in seen for host in pair} == set(hosts)
    assert 0 < len(cut()) < len(seen)
    run.faults.stop()
    assert cut() == []


def test_machines_write_back_now_and_then_without_any_fault() -> None:
    run = Run(6)
    run.pass_by()
    assert all(node.flushed for node in run.nodes)
    assert 10 < sum(node.flushed for node in run.nodes) < 90  # every two seconds
