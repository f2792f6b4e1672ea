"""Tests that run once, and tests that see both ways of a conversion in one run.

All other tests of this folder run for records in memory and for records in a file (conftest.py)."""

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec

import pytest
from hypothesis import note

from records import MemoryRecords

# These tests convert no records in memory, or they start a process of their own.
RUNS_ONCE: Final = pytest.mark.parametrize("way", ["read"], indirect=True)

VIEWS: Final = {"held": MemoryRecords.view, "read": None}

Given = ParamSpec("Given")


def in_both_ways(test: Callable[Given, None]) -> Callable[Given, None]:
    """A generated test that converts each case in both ways. Hypothesis takes longer to generate a
    case than the conversion takes."""

    @wraps(test)
    def run(*arguments: Given.args, **options: Given.kwargs) -> None:
        for way, view in VIEWS.items():
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(MemoryRecords, "view", view)
                note(f"records are {way}")
                test(*arguments, **options)

    return RUNS_ONCE(run)
