"""Exports on Spark, and exports in this process to a directory of this machine."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

from downconvert.spark.jobs.export.export import run
from downconvert.spark.jobs.export.export_directory import DirectoryNotes
from downconvert.spark.jobs.export.export_manifest import Exported
from downconvert.spark.jobs.export.export_noted import Target, add
from downconvert.spark.jobs.export.export_plan import Settings
from downconvert.spark.jobs.export.export_stored import Written
from downconvert.spark.jobs.jobs import chosen
from downconvert.spark.jobs.progress import no_step

from .in_process import SESSION, without_spark


def exported_archive(*given: Any, **options: Any) -> DataFrame:
    """Runs an export on Spark; all records of the target."""
    archive = run(*given, **options).archive
    assert archive is not None
    return archive


def exported(
    patch: pytest.MonkeyPatch, source: Path | str, target: Path | Target, **settings: Any
) -> Exported:
    """The state of an export after a run."""
    return added(patch, source, target, **settings)[0]


def added(
    patch: pytest.MonkeyPatch, source: Path | str, target: Path | Target, **settings: Any
) -> tuple[Exported, list[Written]]:
    """All records after a run, and the files that it has added. In a directory, the notes say the
    same when they are read again."""
    logs = chosen([str(source)], ())
    with patch.context() as patched:
        without_spark(patched)
        given: Any = {"settings": Settings(**settings), "step": no_step}
        if not isinstance(target, Path):
            return add(SESSION, logs, target, **given)
        notes = DirectoryNotes(target)
        try:
            contents, files = add(SESSION, logs, notes, **given)
            assert notes.read(contents.isolation) == contents
            return contents, files
        finally:
            notes.close()


def archived(target: Path) -> list[tuple[str, int, int, bytes]]:
    """The records that are there: topic, partition, offset, value."""
    found = []
    for path in sorted(target.glob("topic=*/date=*/*.parquet")):
        table = pq.ParquetFile(path).read(["partition", "offset", "value"])
        topic = path.parent.parent.name.removeprefix("topic=")
        found += [(topic, *row.values()) for row in table.to_pylist()]
    return sorted(found)
