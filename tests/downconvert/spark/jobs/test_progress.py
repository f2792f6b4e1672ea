"""The progress of a job is reported while it runs, and not afterwards."""

import threading
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from downconvert.spark.jobs import progress
from downconvert.spark.jobs.progress import polled


class Tracker:
    """Two jobs, of which the first was there before; the stages of the second are counted."""

    def __init__(self) -> None:
        self.jobs = [1]
        self.asked = threading.Semaphore(0)

    def getJobIdsForGroup(self) -> list[int]:  # noqa: N802 - Spark's name
        self.asked.release()
        return self.jobs

    def getJobInfo(self, job: int) -> Any:  # noqa: N802
        return {1: SimpleNamespace(stageIds=[10]), 2: SimpleNamespace(stageIds=[20, 21, 22])}[job]

    def getStageInfo(self, stage: int) -> Any:  # noqa: N802
        done, total = {10: (7, 7), 20: (2, 3), 21: (1, 5)}.get(stage, (0, 0))
        if not total:
            return None  # it has not begun
        return SimpleNamespace(numCompletedTasks=done, numTasks=total)


def test_tasks_of_the_jobs_in_the_block_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.001)
    tracker, steps = Tracker(), []
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    threads = set(threading.enumerate())
    with polled(session, "audit", lambda *step: steps.append(step)):
        assert steps == [("audit", 0, 1)]
        for _ in range(3):  # there is none of its own yet
            assert tracker.asked.acquire(timeout=60)
        assert steps == [("audit", 0, 1)]
        tracker.jobs = [1, 2]
        for _ in range(3):
            assert tracker.asked.acquire(timeout=60)
    assert set(steps[1:]) == {("audit", 3, 8)}
    assert set(threading.enumerate()) <= threads  # those of earlier tests may have ended


@pytest.mark.parametrize("fails", [False, True])
def test_a_session_behind_spark_connect_tells_its_progress_until_the_block_ends(
    fails: bool,
) -> None:
    handlers: list[Any] = []

    class Session:
        """A session of Spark Connect."""

        __module__ = "pyspark.sql.connect.session"
        registerProgressHandler = staticmethod(handlers.append)  # noqa: N815 - Spark's names
        removeProgressHandler = staticmethod(handlers.remove)  # noqa: N815

    steps: list[tuple[str, float, float]] = []
    session: Any = Session()
    with suppress(KeyError), polled(session, "audit", lambda *step: steps.append(step)):
        (tell,) = handlers
        for stages in (None, [], [(0, 0)], [(2, 3), (1, 5)]):
            found = stages and [
                SimpleNamespace(num_completed_tasks=done, num_tasks=total) for done, total in stages
            ]
            tell(found, inflight_tasks=1, operation_id="x", done=False)
        if fails:
            raise KeyError("x")
    assert steps == [("audit", 0, 1), ("audit", 3, 8)]
    assert handlers == []
