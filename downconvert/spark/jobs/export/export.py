"""Records as Parquet, in folders by topic and date, or as tables, for SQL engines.

The layout is the one that Hive, Spark, Trino and Iceberg's `add_files` read: `topic=.../date=...`,
with the columns of Spark's Kafka source in the files. A run adds the missing records and removes
nothing: records stay after retention has deleted them from the logs. Runs are idempotent, even
after a run that was killed.

Not here: what a run adds (export_plan.py), and the kinds of targets: a directory
(export_directory.py), stores and tables (export_noted.py)."""

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import SparkSession

from downconvert.spark.jobs.jobs import JobError, chosen
from downconvert.spark.jobs.progress import Step, no_step
from downconvert.spark.stores.stores import is_stored, pinned

from .export_directory import add_to, directory_of
from .export_noted import Target, add
from .export_plan import Settings
from .export_result import Result, counts
from .export_stored import archive
from .export_stored_notes import StoredNotes

EVERYTHING: Final[Mapping[str, str]] = {}


def run(
    session: SparkSession,
    paths: Sequence[str],
    target: str | Target,
    *,
    topics: Sequence[str] = (),
    committed: bool = False,
    skip_damaged: bool = False,
    past_high_watermark: bool = False,
    repair: bool = False,
    between: Mapping[str, str] = EVERYTHING,
    step: Step = no_step,
) -> Result:
    """Adds the records below the paths to `target`: a directory, a URI, or a table.

    The column `date` is the day of the record's timestamp in UTC, or null. `committed` leaves out
    aborted records. `skip_damaged` leaves out damaged and missing records. Without `skip_damaged`
    these end the run, and none of its files is added. A run ends at the high watermark, if it is
    known, unless `past_high_watermark` is set. `repair` replaces exported records that a later
    leader has truncated, and corrects epochs in the notes that are later than the logs'. Without
    `repair` either ends the run. `between` has options of the data source, such as
    `startingOffsets`. A run adds only the records that they select, and another run may add the
    rest. Only one run at a time may write to a target.

    JobError: there is nothing below the paths, their cluster or topic is not the target's, or Spark
    fails."""
    logs = chosen(paths, topics)
    try:
        settings = Settings(
            committed, skip_damaged, past_high_watermark, repair, tuple(sorted(between.items()))
        )
    except ValueError as error:
        raise JobError(str(error)) from error
    if isinstance(target, str) and not is_stored(target):
        return add_to(session, logs, directory_of(target), settings, step)
    if isinstance(target, str):
        notes = StoredNotes(pinned(target))
        contents, written = add(session, logs, notes, settings=settings, step=step)
        return Result(counts(session, written), archive(session, notes.location, contents.files))
    _, written = add(session, logs, target, settings=settings, step=step)
    return Result(counts(session, written))
