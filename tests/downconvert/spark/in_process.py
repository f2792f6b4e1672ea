"""Runs the tasks of jobs in this process, without Spark, for tests of what tasks do."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, Final

import pytest

from downconvert.spark.jobs.convert import convert
from downconvert.spark.jobs.export import export, export_stored

SESSION: Final[Any] = None


def without_spark(patch: pytest.MonkeyPatch) -> None:
    """Lets `convert.run` and `export.run` to a store do without a session."""
    modules: Any = (convert, export_stored)
    for module in modules:
        patch.setattr(module, "run_tasks", in_process)
        patch.setattr(module, "watched", lambda *_, **__: nullcontext())
    patch.setattr(convert, "summary_of", summed)
    patch.setattr(export, "archive", lambda *_: None)
    patch.setattr(export, "counts", lambda _, written: written)


def summed(found: Any) -> Any:
    """As `convert.summary_of`: its rows, and how many of them have failed."""
    rows = found.collect()
    return SimpleNamespace(rows=rows, failed=sum(row.status == "failed" for row in rows))


class Row(SimpleNamespace):
    """A row of a job's result."""

    def asDict(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return dict(vars(self))


def in_process(_session: Any, tasks: Any, work: Any, _schema: Any) -> Any:
    """As `run_tasks`, in this process."""
    rows = [Row(**row) for task in tasks for row in work(task)]
    return SimpleNamespace(collect=lambda: rows, sparkSession=SESSION)
