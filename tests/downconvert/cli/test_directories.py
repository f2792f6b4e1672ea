"""Commands on any directory change nothing outside of it, lose no whole batch, and report their
changes."""

from pathlib import Path

import pytest

from .directory_commands import check_case

# `python -m bench.directories` runs as many as one likes.
CASES = range(16)


@pytest.mark.parametrize("seed", CASES)
def test_no_command_changes_what_is_outside_or_loses_a_batch(tmp_path: Path, seed: int) -> None:
    check_case(tmp_path, seed)
