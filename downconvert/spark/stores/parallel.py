"""Makes many requests to a store at once, because each takes milliseconds and little CPU time.

Not here: blocks that a task reads ahead (range_records.py)."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

THREADS: Final = 16  # requests at a time

Given = TypeVar("Given")
Made = TypeVar("Made")


def in_parallel(
    ask: Callable[[Given], Made], given: Iterable[Given], *, is_mounted: bool = False
) -> list[Made]:
    """Calls `ask` for each of `given`, and returns the results in the same order. If no store is
    needed (`is_mounted`), calls are made one after the other. Raises the error of the first failed
    call."""
    all_given = list(given)
    if is_mounted or len(all_given) < 2:  # a thread for one call would only cost its start
        return list(map(ask, all_given))
    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(ask, all_given))
