"""What sends hold, at a small size."""

import subprocess
import sys
from pathlib import Path


def test_every_case_ends_and_says_what_it_held():
    done = subprocess.run(
        (sys.executable, "-m", "bench.memory", "--smoke"),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1 + 6 + 4 + 5
    assert "needs more than" not in done.stdout
