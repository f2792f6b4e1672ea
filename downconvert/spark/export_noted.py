"""Adds records to a target that goes by notes: a store, or a table, whose commits are its notes.

What a run has written counts when it is noted, all at once. Up to what is there already, of another
copy of the logs, is one step with a note of its own; what is after that another.

Not here: which offsets are new (export_plan.py), writing files (export_stored.py), the notes of a
store (export_stored.py) and of tables (export_delta.py, export_iceberg.py)."""

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql import SparkSession

from downconvert.storage.names import TopicPartition

from .export_manifest import Exported
from .export_plan import as_json, check_same, given_options, identity_of, plan_of
from .export_stored import Written, write_records
from .options import Options
from .progress import Step
from .segment_files import PartitionLog
from .stores import shown


class Notebook(Protocol):
    """Where it is kept what a target has. `write` is what makes the files of a run count: all of
    them, or none."""

    def read(self, isolation: str, partitions: Sequence[TopicPartition], /) -> Exported:
        """What is there, at least of these partitions."""

    def remove_lost(self) -> None:
        """Removes what runs that died have left, where nothing else does."""

    def write(self, exported: Exported, files: Sequence[Written], /) -> None:
        """Notes all that is there from now on, with the files of this run."""


class Table(Notebook, Protocol):
    """A table in an open format."""

    name: str
    location: str  # where its files go: a URI, or a directory
    is_complete: bool  # whether files have all columns


def add(
    session: SparkSession,
    logs: Sequence[PartitionLog],
    notes: Notebook,
    target: str,
    *,
    name: str | None = None,
    is_complete: bool = False,
    committed: bool,
    skip_damaged: bool,
    step: Step,
) -> tuple[Exported, list[Written]]:
    """Adds files to a store or a table; returns all that is there, and the files of this run.

    Of what is damaged nothing is looked at again. `name`: what the target is called in errors."""
    isolation = "read_committed" if committed else "read_uncommitted"
    there = notes.read(isolation, [log.topic_partition for log in logs])
    identity = identity_of(logs, isolation)
    check_same(there, identity, name or shown(target))
    notes.remove_lost()
    added: list[Written] = []
    while True:
        plan = plan_of(logs, there, committed=committed, skip_damaged=skip_damaged)
        # Up to what is there already, of another copy of the logs; then on after that.
        ends = {
            log: min(end, there.start_after(log, start))
            for log, (start, end) in plan.ranges.items()
        }
        if not plan.ranges:
            return there, added
        named = [log for log in logs if log.topic_partition in plan.ranges]
        starts = {name: start for name, (start, _) in plan.ranges.items()}
        given = given_options(starts, committed=committed, skip_damaged=skip_damaged)
        if plan.is_bounded or skip_damaged:  # else what is damaged ends the run
            given["endingOffsets"] = as_json(ends)
        options = Options.parse({"path": target, **given}, streaming=False)
        written = write_records(session, named, options, target, step, is_complete=is_complete)
        there.files |= {one.file for one in written}
        there.add(identity)
        ranges = {log: [(starts[log], end)] for log, end in ends.items()}
        there.add(Exported(isolation, ranges=ranges))
        notes.write(there, written)
        added += written
        if all(end >= plan.ranges[log][1] for log, end in ends.items()):
            return there, added
