"""Each response is as promised, with any cache and any other clients."""

from pathlib import Path
from random import Random

import pytest

from records.backend import NAME, NATIVE

from .serving import serving

RUNS = 15 if NAME == NATIVE else 3  # the reference takes its time


@pytest.mark.parametrize("block", range(4))
def test_clients_of_a_broker_get_what_is_promised(block: int, tmp_path: Path) -> None:
    for number in range(block * RUNS, (block + 1) * RUNS):
        random = Random(f"1/{number}")
        with serving(random, tmp_path / str(number), is_large=number == 0) as world:
            world.run(random)
