"""Many clients at a time get right responses and leave nothing behind: a generator and its model.

Not here: longer runs (crowd.py)."""

from pathlib import Path

import pytest

from .crowd import run


@pytest.mark.parametrize("seed", range(4))
def test_clients_that_do_as_they_like_get_right_responses_and_leave_nothing(
    tmp_path: Path, certificate: tuple[Path, Path], seed: int
) -> None:
    run(tmp_path, seed, 10, 6, certificate if seed == 0 else None)
