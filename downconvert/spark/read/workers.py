"""Settings of the Python processes that run Spark's tasks, one task after the other.

Not here: the tasks (reader.py, jobs.py)."""

import gc
from functools import cache

from pyspark import TaskContext


def spare_what_is_loaded() -> None:
    """Excludes this worker's loaded modules from garbage collection, from the first task on.

    Spark collects after each task. Scanning all objects of the loaded modules takes longer than
    reading 20 MB of log, and frees nothing. It has no effect outside a task."""
    if TaskContext.get() is not None:
        _freeze()


@cache
def _freeze() -> None:
    gc.freeze()
