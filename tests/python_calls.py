"""How many functions of Python something calls. The reference is written in Python: with it, none
are counted."""

import gc
import sys
from collections.abc import Callable
from typing import Any

from records.backend import NAME, NATIVE


def python_calls(what: Callable[[], object]) -> int:
    """No collection of garbage runs meanwhile: what it calls belongs to other tests."""
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    gc.collect()
    gc.disable()
    sys.setprofile(count if NAME == NATIVE else None)
    try:
        what()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls
