"""A simulated broker and the controller: it is known again, whatever was lost on the way."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.cluster.cluster import Cluster
from simulator.cluster.controller import SESSION_TIMEOUT
from simulator.cluster.membership import CONTROLLER
from simulator.cluster.options import options_for


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three brokers that all have registered, and no faults."""
    cluster = Cluster(options_for(5, faults=()), tmp_path)
    wait(cluster, 1.0)
    assert [node.is_registered for node in cluster.nodes] == [True] * 3
    yield cluster
    cluster.close()


def wait(cluster: Cluster, seconds: float) -> None:
    """In steps, as the controller looks who was heard of."""
    end = cluster.timeline.now + seconds
    while cluster.timeline.now < end:
        cluster.timeline.run_until(cluster.timeline.now + 0.25)
        cluster.controller.check(cluster.timeline.now)


def test_messages_lost_on_the_way_to_the_controller_are_repeated(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    node.die()
    cluster.network.cut(node.host, CONTROLLER, SESSION_TIMEOUT)
    node.start()
    wait(cluster, SESSION_TIMEOUT - 0.25)
    assert not node.is_registered
    wait(cluster, 1.0)
    assert node.is_registered


def test_a_restarted_broker_follows_the_leaders_and_is_in_sync_again(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    node.die()
    wait(cluster, SESSION_TIMEOUT + 1.0)
    partitions = cluster.controller.partitions.values()
    assert all(one.leader != node.id and node.id not in one.isr for one in partitions)
    node.start()
    wait(cluster, 5.0)
    assert node.replication is not None
    assert set(node.replication.followers) == {one.leader for one in partitions}
    assert all(node.id in one.isr for one in partitions)


def test_a_crashed_machine_reports_its_loss_until_it_is_acknowledged(cluster: Cluster) -> None:
    node, others = cluster.nodes[1], (cluster.nodes[0], cluster.nodes[2])
    for other in others:
        other.die()
    wait(cluster, SESSION_TIMEOUT + 1.0)
    node.die(power=True)
    cluster.network.cut(node.host, CONTROLLER, 1.0)
    for _ in range(2):  # the second life of the broker has lost nothing itself
        node.start()
        wait(cluster, 0.25)
        node.die()
    wait(cluster, 1.0)
    node.start()
    wait(cluster, 2.0)
    assert node.is_registered
    assert all(one.leader is None for one in cluster.controller.partitions.values())
