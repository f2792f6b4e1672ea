"""The Python processes that Spark runs tasks in, one task after the other.

Not here: what tasks do (reader.py, jobs.py)."""

import gc
from functools import cache

from pyspark import TaskContext


def spare_what_is_loaded() -> None:
    """Leaves what this worker has loaded out of its garbage collections, from the first task on.

    Spark collects after each task. To look at all objects of the modules that are loaded takes
    longer than to read 20 MB of log, and finds nothing. Without effect outside of a task."""
    if TaskContext.get() is not None:
        _freeze()


@cache
def _freeze() -> None:
    gc.freeze()
