"""A worker of Spark does little beside its tasks."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from downconvert.spark.jobs.jobs import run_tasks
from downconvert.spark.read.workers import spare_what_is_loaded

ROOT: Final = Path(__file__).parents[4]


def spared(_task: int) -> Iterator[dict[str, Any]]:
    yield {"spared": gc.get_freeze_count(), "loaded": len(gc.get_objects())}


def test_collections_in_a_worker_leave_out_what_it_has_loaded(spark: SparkSession) -> None:
    schema = pa.schema([("spared", pa.int64()), ("loaded", pa.int64())])
    for row in run_tasks(spark, [1, 2], spared, schema).collect():
        assert row["spared"] > 10_000
        assert row["loaded"] < row["spared"]


def test_collections_elsewhere_are_left_alone() -> None:
    before = gc.get_freeze_count()
    spare_what_is_loaded()
    assert gc.get_freeze_count() == before


def test_a_worker_that_reads_records_does_not_load_pandas() -> None:
    """Pandas is half of all that there would be, and a third of a second of each process."""
    code = (
        "import sys, pyspark.worker, downconvert.spark.source, downconvert.spark.jobs.jobs; "
        "print('pandas' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert ran.stdout == "False\n", ran.stderr
