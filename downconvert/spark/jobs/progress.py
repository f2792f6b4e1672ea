"""The progress of a session's jobs: how many of their tasks have ended.

A session in this process is polled. One behind Spark Connect reports its progress itself.

Not here: showing it (downconvert/cli/terminal.py)."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from pyspark.sql import SparkSession

Step: TypeAlias = Callable[[str, float, float], None]  # activity, progress, total

POLL_SECONDS: Final = 0.2


def no_step(_what: str, _done: float, _total: float) -> None:
    """For callers that do not show progress."""


def is_remote(session: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


@contextmanager
def polled(session: SparkSession, what: str, step: Step) -> Iterator[None]:
    """Calls `step` with the number of finished tasks, and of all tasks in the stages known so far,
    while jobs run in the block."""
    step(what, 0, 1)
    with (_registered if is_remote(session) else _polled_status)(session, what, step):
        yield


@contextmanager
def _registered(session: SparkSession, what: str, step: Step) -> Iterator[None]:
    def tell(stages: Any, **_: Any) -> None:
        total = sum(stage.num_tasks for stage in stages or ())
        if total:
            step(what, sum(stage.num_completed_tasks for stage in stages), total)

    handler: Any = tell
    session.registerProgressHandler(handler)
    try:
        yield
    finally:
        session.removeProgressHandler(handler)


@contextmanager
def _polled_status(session: SparkSession, what: str, step: Step) -> Iterator[None]:
    tracker = session.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup())
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(POLL_SECONDS):
            done = total = 0
            for job in set(tracker.getJobIdsForGroup()) - before:
                found = tracker.getJobInfo(job)
                for stage in map(tracker.getStageInfo, found.stageIds if found else ()):
                    if stage is not None:
                        done, total = done + stage.numCompletedTasks, total + stage.numTasks
            if total:
                step(what, done, total)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
