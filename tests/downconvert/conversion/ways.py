"""The mark of tests that run once.

All other tests of this folder run for records in memory and for records in a file (conftest.py)."""

from typing import Final

import pytest

# These tests convert no records in memory, or they start a process of their own.
RUNS_ONCE: Final = pytest.mark.parametrize("way", ["read"], indirect=True)
