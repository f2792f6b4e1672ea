"""A job whose tasks fail at damage names the file, and the option that leaves the damage out."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from downconvert.spark.errors import MODES
from downconvert.spark.jobs import find, gap_report, state
from downconvert.spark.jobs.audit import audit
from downconvert.spark.jobs.export import export, export_stored
from downconvert.spark.jobs.jobs import SKIPS, JobError
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch


class Failing:
    """A frame whose tasks fail at damage."""

    def __init__(self, session: Any) -> None:
        self.sparkSession = session

    def limit(self, _: int) -> "Failing":
        return self

    def orderBy(self, *_: str) -> "Failing":  # noqa: N802 - Spark's name
        return self

    def collect(self) -> Any:
        of_worker = f"Traceback (most recent call last):\n  x\nrecords.E: /a-0/0.log: bad{MODES}\n"
        raise PySparkException(of_worker)


@pytest.mark.parametrize(
    ("what", "skips", "run"),
    [
        ("find", True, lambda session, path: find.run(find.find(session, [path], [b"k"]), 3)),
        ("audit", False, lambda session, path: audit.run(audit.audit(session, [path]))),
        ("gaps", False, lambda session, path: gap_report.run(gap_report.gaps(session, [path]))),
        (
            "read __consumer_offsets",
            True,
            lambda session, path: state.run(session, [path], "offset", order=["group"], limit=3),
        ),
        ("export", True, lambda session, path: export.run(session, [path], f"{path}/../lake")),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_damage_is_said_with_the_option_that_leaves_it_out_by_jobs_that_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, skips: bool, run: Callable[..., Any]
) -> None:
    partition(tmp_path / "logs", batch(0), "a-0")
    for module in (find, audit, gap_report, export_stored):
        monkeypatch.setattr(module, "run_tasks", lambda session, *_: Failing(session))
    monkeypatch.setattr(audit, "added_up", lambda frame: frame)
    monkeypatch.setattr(state, "state", lambda session, *_, **__: Failing(session))
    tracker = SimpleNamespace(getJobIdsForGroup=list)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    with pytest.raises(JobError) as caught:
        run(session, str(tmp_path / "logs"))
    assert str(caught.value) == f"{what}: /a-0/0.log: bad{SKIPS if skips else ''}"
