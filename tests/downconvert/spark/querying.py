"""A streaming query of Spark's that runs until it has read all that is there."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECONDS: Final = 600
OFFSETS_MAX: Final = 3  # in a micro-batch


def read_on(
    spark: "SparkSession", logs: str, checkpoint: Path, seen: list[tuple[int, int]]
) -> None:
    """Adds the micro-batch and the offset of each record since the last run."""

    def note(rows: "DataFrame", number: int) -> None:
        seen.extend((number, row.offset) for row in rows.select("offset").collect())

    stream = spark.readStream.format("kafka-segments").option("startingOffsets", "earliest")
    query = (
        stream.option("maxOffsetsPerTrigger", OFFSETS_MAX)
        .load(logs)
        .writeStream.foreachBatch(note)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(SECONDS)
    finally:
        query.stop()
