"""A client of Spark Connect that sends this package to the server, and then reads with it.

`python -m tests.downconvert.spark.artifact_client URL DIRECTORY ARCHIVE` prints, as JSON, which
kernel the server's workers have and where from, the offsets that were read, and what an audit
counts."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from downconvert.spark import register
from downconvert.spark.jobs.audit.audit import audit
from downconvert.spark.jobs.shipping import write_archive


def imported(_batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    import records
    from records import backend

    yield pa.RecordBatch.from_pylist([{"kernel": backend.NAME, "file": records.__file__}])


def main(url: str, directory: str, archive: str) -> None:
    spark = SparkSession.builder.remote(url).getOrCreate()
    spark.addArtifacts(str(write_archive(Path(archive))), pyfile=True)
    register(spark)
    where = spark.range(1).coalesce(1).mapInArrow(imported, "kernel string, file string").first()
    rows = spark.read.format("kafka-segments").load(directory).select("offset").collect()
    counts = audit(spark, [directory]).select("records").collect()
    offsets = [row.offset for row in rows]
    print(json.dumps([where.kernel, where.file, offsets, [row.records for row in counts]]))


if __name__ == "__main__":
    main(*sys.argv[1:])
