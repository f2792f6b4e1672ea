"""Replicated brokers under faults: promises hold, and a simulation detects broken ones."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import cluster_seeds, cluster_soak
from downconvert.broker.handlers import produce
from downconvert.broker.partition import Partition
from downconvert.broker.replication.replica import Replicas
from downconvert.broker.replication.replica_manager import Replication
from downconvert.storage.checkpoints.leader_epochs import LeaderEpochs
from simulator.cluster.cluster import SETTLES, simulate_cluster
from simulator.cluster.options import FAULTS, options_for
from simulator.cluster.truth import InvariantError


def test_promises_hold_under_every_kind_of_fault() -> None:
    runs = [cluster_seeds.run(seed) for seed in range(10)]
    assert {run.seed: run.problem for run in runs if run.problem} == {}
    happened = {name for run in runs if run.outcome for name in run.outcome.faults}
    assert happened == set(FAULTS) - {"reorders"}  # which is no event, but how connections are
    assert max(run.outcome.epochs for run in runs if run.outcome) >= 5


def test_promises_hold_in_a_cluster_of_five_and_for_a_lone_broker() -> None:
    for brokers in (1, 5):
        outcome = simulate_cluster(replace(options_for(7, brokers=brokers), seconds=3.0))
        assert outcome.committed > 0


@pytest.mark.timeout(600)
def test_a_broker_with_a_full_disk_does_not_repeat_requests() -> None:
    """Each response brought all its requests again, and each of those a response: it never
    ended."""
    assert cluster_seeds.run(22186).problem == ""


def test_followers_agree_with_a_leader_that_led_before_without_records() -> None:
    """It took the epoch for that of what it was given later: its followers truncated, for ever."""
    assert cluster_seeds.run(6854).problem == ""


def test_a_seed_determines_the_run() -> None:
    options = replace(options_for(9), seconds=4.0)
    assert simulate_cluster(options) == simulate_cluster(options)


def test_without_faults_no_record_is_repeated_and_no_leader_changes() -> None:
    outcome = simulate_cluster(replace(options_for(5, faults=()), seconds=4.0))
    assert (outcome.written, outcome.epochs) == (outcome.committed, 1)
    assert outcome.faults == {}


def test_remaining_records_are_written_after_the_faults() -> None:
    options = options_for(325)  # batches of one record pile up behind a very slow connection
    outcome = simulate_cluster(options)
    assert outcome.seconds - options.seconds < SETTLES / 2


# Bugs, and a seed that finds each: who has it, what has it, what it does instead, what is seen.
PLANTED: dict[str, tuple[Any, str, Callable[..., Any], int, str]] = {
    "acknowledged before it is replicated": (
        produce.Written,
        "is_replicated",
        lambda _self: True,
        5,
        "gets an acknowledgement: offset 0 of t-0, which 1 brokers hold",
    ),
    "given to consumers before it is replicated": (
        Replicas,
        "high_watermark",
        lambda _self, _known, leader_end, _now, _isr_min: leader_end,
        28,
        "where before there was",
    ),
    "not truncated when the leader changes": (
        Partition,
        "truncate",
        lambda self, _diverging: self.end_offset,
        0,
        "not settled",
    ),
    "leading after a start, before the controller says so": (
        Partition,
        "await_controller",
        lambda _self, _high_watermark: None,
        15,
        "where before there was",
    ),
    "fetching as an earlier life of the broker": (
        Replication,
        "register",
        lambda self, epoch: setattr(self, "broker_epoch", epoch),
        40,
        "not settled",
    ),
    "keeping an epoch that had no records": (
        LeaderEpochs,
        "truncate_from_end",
        lambda _self, _end_offset: None,
        6,
        "not settled",
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_seen(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, instead, seed, seen = PLANTED[bug]
    monkeypatch.setattr(owner, name, instead)
    with pytest.raises(InvariantError, match=seen):
        simulate_cluster(options_for(seed))


@pytest.mark.slow
def test_an_hour_holds_no_more_files_and_objects_than_its_first_minutes(tmp_path: Path) -> None:
    samples = cluster_soak.soak(tmp_path, seconds=18.0, every=1.5, seed=1)
    assert cluster_soak.growth(samples) == []


def test_growth_is_seen() -> None:
    steady = cluster_soak.Sample(0.0, files=20, objects=50_000, events=30, connections=9, waiting=4)
    growing = [replace(steady, seconds=float(at), files=20 + 9 * at) for at in range(20)]
    (output,) = cluster_soak.growth(growing)
    assert output.startswith("files: ")
