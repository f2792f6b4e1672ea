"""Each response is as promised, for any actions of clients and any cache."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from records.backend import NAME, NATIVE

from .world import World, run_case

RUNS = 30 if NAME == NATIVE else 5  # the reference takes its time


class Clients(RuleBasedStateMachine):
    """One log, and what happens to its clients, a step at a time."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self._directory = TemporaryDirectory()
        self.world = World(Random(seed), Path(self._directory.name))

    @rule(seed=st.integers(0, 2**32), steps=st.integers(1, 20))
    def go_on(self, seed: int, steps: int) -> None:
        random = Random(seed)
        for _ in range(steps):
            self.world.step(random)

    @rule(seed=st.integers(0, 2**32))
    def come_to_the_end(self, seed: int) -> None:
        self.world.run(Random(seed))
        self.world.clients = self.world.clients[:1]

    def teardown(self) -> None:
        self.world.close()
        self._directory.cleanup()


def test_whatever_is_under_way_responses_are_what_was_promised() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Clients,
        settings=settings(
            max_examples=10,
            stateful_step_count=8,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("block", range(4))
def test_every_client_comes_to_the_end_of_its_log(block: int, tmp_path: Path) -> None:
    for number in range(block * RUNS, (block + 1) * RUNS):
        assert run_case(1, number, tmp_path) >= 0
