"""The simulated controller: leaders, replicas in sync, and eligible replicas."""

import pytest

from downconvert.broker.replication.replica import IsrChange
from downconvert.storage import TopicPartition
from simulator.cluster.controller import SESSION_TIMEOUT, Controller

NAME = TopicPartition("t", 0)


def started(isr_min: int = 2, lost: bool = False) -> tuple[Controller, dict[int, int]]:
    """Three brokers, with their epochs; the first leads, and all are in sync."""
    controller = Controller({NAME: (0, 1, 2)}, isr_min)
    epochs = {node: controller.register(node, 0.0, lost=lost, incarnation=1) for node in (0, 1, 2)}
    take_in(controller, epochs, 0, 1, 2)
    controller.move_leader(NAME, 0)
    assert controller.leadership(NAME).leader == 0
    return controller, epochs


def take_in(controller: Controller, epochs: dict[int, int], *isr: int) -> bool:
    output = controller.leadership(NAME)
    assert output.leader is not None
    lives = tuple((node, epochs[node]) for node in isr if node != output.leader)
    change = IsrChange(output.leader_epoch, output.version, frozenset(isr), lives)
    return controller.change_isr(output.leader, epochs[output.leader], NAME, change)


def heartbeats(controller: Controller, epochs: dict[int, int], now: float, *nodes: int) -> None:
    for node in nodes:
        assert controller.heartbeat(node, epochs[node], {}, now) is not None
    controller.check(now)


def test_a_silent_broker_is_fenced_and_another_in_sync_leads() -> None:
    controller, epochs = started()
    before = controller.leadership(NAME)
    heartbeats(controller, epochs, SESSION_TIMEOUT + 1, 1, 2)
    output = controller.leadership(NAME)
    assert (before.leader, output.leader) == (0, 1)
    assert output.leader_epoch == before.leader_epoch + 1
    assert output.isr == output.alive == {1, 2}


def test_below_the_minimum_removed_replicas_may_still_lead() -> None:
    controller, epochs = started()
    heartbeats(controller, epochs, 3.0, 0, 1)
    heartbeats(controller, epochs, 6.0, 0)
    assert controller.leadership(NAME).isr == {0}
    heartbeats(controller, epochs, 6.1, 0, 1)
    heartbeats(controller, epochs, 8.5, 1)
    output = controller.leadership(NAME)
    assert output.leader == 1
    assert output.isr == {1}


def test_above_the_minimum_a_removed_replica_may_not_lead() -> None:
    controller, epochs = started(isr_min=1)
    heartbeats(controller, epochs, 3.0, 0)
    assert controller.leadership(NAME).isr == {0}
    heartbeats(controller, epochs, 3.1, 0, 1)
    heartbeats(controller, epochs, 6.0, 1)
    assert controller.leadership(NAME).leader is None
    heartbeats(controller, epochs, 6.1, 0, 1)
    assert controller.leadership(NAME).leader == 0


def test_a_broker_that_lost_unflushed_data_is_neither_in_sync_nor_may_lead() -> None:
    controller, epochs = started()
    heartbeats(controller, epochs, 3.0, 0, 1)
    epochs[1] = controller.register(1, 3.0, lost=True, incarnation=2)
    assert controller.leadership(NAME).isr == {0}
    heartbeats(controller, epochs, 6.0, 1)
    assert controller.leadership(NAME).leader is None


def test_a_repeated_registration_does_not_count_as_another_loss() -> None:
    controller, epochs = started()
    for _ in range(2):
        epochs[1] = controller.register(1, 0.0, lost=True, incarnation=2)
        heartbeats(controller, epochs, 0.0, 0, 1, 2)
        assert 1 not in controller.leadership(NAME).isr
        take_in(controller, epochs, 0, 1, 2)
    for node in (2, 0):
        controller.register(node, 0.0, lost=True, incarnation=2)
    assert controller.leadership(NAME).leader == 1
    controller.register(1, 0.0, lost=True, incarnation=2)
    assert controller.leadership(NAME).leader == 1


def test_a_replica_in_sync_before_its_restart_does_not_join_the_isr() -> None:
    controller, epochs = started()
    earlier = dict(epochs)
    epochs[2] = controller.register(2, 0.0, lost=True, incarnation=2)
    assert not take_in(controller, {**earlier, 0: epochs[0]}, 0, 1, 2)
    assert controller.leadership(NAME).isr == {0, 1}
    assert take_in(controller, epochs, 0, 1, 2)
    assert controller.leadership(NAME).isr == {0, 1, 2}


@pytest.mark.parametrize("stale", ["epoch", "version"])
def test_a_leader_with_an_old_epoch_changes_nothing(stale: str) -> None:
    controller, epochs = started()
    output = controller.leadership(NAME)
    change = IsrChange(
        output.leader_epoch - (stale == "epoch"),
        output.version - (stale == "version"),
        frozenset(),
        (),
    )
    assert controller.change_isr(0, epochs[0], NAME, change)  # it hears of them
    assert controller.leadership(NAME) == output
