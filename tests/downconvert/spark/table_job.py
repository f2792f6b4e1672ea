"""An export to a table, in one process without Spark, which may die at any of its steps.

    python -m tests.downconvert.spark.table_job delta|iceberg SOURCE HOME STEP

kills itself in place of the step with that number, or of the one that is called so."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from downconvert.spark.jobs.export import export, export_stored
from downconvert.spark.jobs.export.export_delta import DeltaTarget
from downconvert.spark.jobs.export.export_iceberg import IcebergTarget
from downconvert.spark.jobs.export.export_noted import Target
from downconvert.spark.jobs.export.export_stored import Written

from .in_process import in_process

Kind: TypeAlias = Literal["delta", "iceberg"]
KINDS: Final = get_args(Kind)
Patch: TypeAlias = Callable[[Any, str, Any], None]


def properties_of(home: Path) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{home / 'catalog.db'}",
        "warehouse": f"file://{home / 'warehouse'}",
    }


def catalog_of(home: Path) -> Any:
    from pyiceberg.catalog import load_catalog

    return load_catalog("tests", **properties_of(home))


def opened(kind: Kind, home: Path) -> Target:
    home.mkdir(exist_ok=True)
    if kind == "delta":
        return DeltaTarget(str(home / "table"))
    return IcebergTarget("lake.events", "tests", properties_of(home))


def run(
    kind: Kind, source: Path, home: Path, *, table: Target | None = None, committed: bool = False
) -> list[Written]:
    """The files that it has added."""
    into = opened(kind, home) if table is None else table
    session: Any = None
    found: Any = export.run(session, [str(source)], into, committed=committed).added
    return list(found)


def without_spark(patch: Patch) -> None:
    """Has tasks run in this process."""
    patch(export_stored, "run_tasks", in_process)
    patch(export_stored, "watched", lambda *_, **__: nullcontext())
    patch(export, "counts", lambda _, written: written)


def count_steps(patch: Patch, dies_at: int | str, dying: Callable[[], Any]) -> list[str]:
    """Has what writes call or raise `dying` in place of a step. Returns those that are taken, as
    they are."""
    from pyiceberg.io.pyarrow import PyArrowFile

    taken: list[str] = []

    def step(name: str) -> None:
        if dies_at in (len(taken), name):
            raise dying()
        taken.append(name)

    def counted(owner: Any, name: str, before: str, after: str | None = None) -> None:
        whole = getattr(owner, name)

        def call(*given: Any, **named: Any) -> Any:
            step(before)
            found = whole(*given, **named)
            if after is not None:
                step(after)
            return found

        patch(owner, name, call)

    counted(export_stored, "place", "file")
    counted(PyArrowFile, "create", "metadata")  # manifests and metadata of Iceberg's
    counted(DeltaTarget, "write", "commit", "committed")
    counted(IcebergTarget, "write", "commit", "committed")
    return taken


def main(kind: Kind, source: str, home: str, number: str) -> None:
    without_spark(setattr)

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    count_steps(setattr, int(number) if number.isdigit() else number, die)
    run(kind, Path(source), Path(home))


if __name__ == "__main__":
    main(sys.argv[1], *sys.argv[2:])  # type: ignore[arg-type]
