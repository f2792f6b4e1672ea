"""Adds records to a target that has notes: a directory, a store, or a table. A table's commits are
its notes.

A note makes all files of a step valid at once. If another copy of the logs was exported before, a
run has two steps, each with a note: the offsets before the exported records, and the offsets after
them. Notes do not contain unreadable offsets, so a later run tries them again.

Not here: which offsets are new (export_plan.py), writing files (export_stored.py), the notes of a
directory (export_directory.py), of a store (export_stored.py) and of tables (export_delta.py,
export_iceberg.py)."""

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import uuid4

from pyspark.sql import SparkSession

from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.jobs.progress import Step
from downconvert.spark.logs.segment_files import PartitionLog, are_mounted
from downconvert.spark.options.options import Options
from downconvert.spark.stores.parallel import in_parallel
from downconvert.storage.names import TopicPartition

from .export_epochs import UNKNOWN, Facts, epoch_to_note, known_epoch
from .export_manifest import Exported
from .export_plan import (
    Settings,
    all_facts,
    as_json,
    bounds_of,
    changes,
    check_same,
    given_options,
    identity_of,
    plan_of,
    without,
)
from .export_stored import Written, write_records
from .export_unnoted import Unnoted


class Target(Protocol):
    """Where records go, with notes of what is there. `write` makes the files of a run valid: all of
    them, or none."""

    name: str  # in messages
    location: str  # of new files: a URI, or a directory that all executors have
    is_complete: bool  # whether files have all columns

    def read(self, isolation: str, partitions: Sequence[TopicPartition], /) -> Exported:
        """The contents, at least of these partitions."""

    def begin(self, run_id: str, /) -> None:
        """Begins a run. Its files have this id in their names. If the run dies, the next run
        removes them."""

    def remove_lost(self) -> None:
        """Removes the files of killed runs, unless other tools do."""

    def unnoted(self, exported: Exported, /) -> Unnoted:
        """The files that readers may see and `exported` does not name. JobError: a file cannot be
        read."""

    def remove(self, name: TopicPartition, start: int, end: int, /) -> None:
        """Removes the records of a partition from an offset up to another one, which a later leader
        has truncated. Idempotent."""

    def write(self, exported: Exported, files: Sequence[Written], /) -> None:
        """Notes the new contents, with the files of this run."""


def add(
    session: SparkSession,
    logs: Sequence[PartitionLog],
    target: Target,
    *,
    settings: Settings,
    step: Step,
) -> tuple[Exported, list[Written]]:
    """Adds files to a target; returns its contents, and the files of this run. JobError."""
    facts = all_facts(logs)
    contents = _known(logs, facts, target, settings)
    unnoted = target.unnoted(contents)
    held = unnoted.held()
    bounds = bounds_of(logs, settings)
    tried = contents.copy()  # includes unreadable offsets
    added: list[Written] = []
    before = None
    while True:
        plan = plan_of(logs, bounds, tried)
        if not plan.ranges:
            return contents, added
        if plan == before:
            damaged = ", ".join(map(str, sorted(plan.ranges)))
            raise JobError(
                f"the end of {damaged} is damaged: run it "
                "with skip_damaged (--skip-damaged), which leaves that out"
            )
        before = plan
        # A step ends where the target has records of another copy. The next step begins after them.
        wholes = {
            log: (start, min(end, tried.start_after(log, start)))
            for log, (start, end) in plan.ranges.items()
        }
        until = {log: end for log, (_, end) in wholes.items()}
        named = [log for log in logs if log.topic_partition in wholes]
        epochs = _epochs_before(named, facts, until)
        run_id = uuid4().hex
        target.begin(run_id)
        written, lost = write_records(
            session,
            named,
            _options(wholes, target, settings, is_bounded=plan.is_bounded),
            target.location,
            step,
            run_id=run_id,
            held=held,
            is_complete=target.is_complete,
        )
        _check_unchanged(named, facts, contents, until, epochs)
        tried.add(Exported(contents.isolation, ranges={log: [one] for log, one in wholes.items()}))
        ranges = {log: without(one, lost.get(log, ())) for log, one in wholes.items()}
        if any(ranges.values()):
            contents.files |= {one.file for one in written}
            contents.add(identity_of(logs, facts, contents.isolation))
            contents.add(Exported(contents.isolation, ranges=ranges))
            read = {(log, until[log]): epoch for log, epoch in epochs.items()}
            ends = _epochs(named, facts, contents, read)
            contents.add(Exported(contents.isolation, epochs=ends))
            contents.files |= unnoted.within(contents)
            target.write(contents, written)
            added += written


def _options(
    ranges: Mapping[TopicPartition, tuple[int, int]],
    target: Target,
    settings: Settings,
    *,
    is_bounded: bool,
) -> Options:
    """The options that read these offsets. Unless `is_bounded`, damage at the end of a log ends the
    run."""
    given = given_options({log: start for log, (start, _) in ranges.items()}, settings)
    if is_bounded:
        given["endingOffsets"] = as_json({log: end for log, (_, end) in ranges.items()})
    return Options.parse({"path": target.location, **given}, streaming=False)


def _known(
    logs: Sequence[PartitionLog],
    facts: Mapping[TopicPartition, Facts],
    target: Target,
    settings: Settings,
) -> Exported:
    """The target's contents for the current logs. A repair is noted at once. JobError: the contents
    are of other logs, or a later leader has truncated some of them and `repair` is not set, or the
    logs are of an earlier epoch and `repair` is not set."""
    contents = target.read(settings.isolation, [log.topic_partition for log in logs])
    check_same(contents, identity_of(logs, facts, settings.isolation), target.name)
    target.remove_lost()
    removed: set[TopicPartition] = set()
    noted = contents.copy().epochs
    for log, start, end, epoch in changes(logs, facts, contents, corrects=settings.repair):
        if not settings.repair:
            raise JobError(
                f"{target.name} has offsets {start} up to {end} of {log} as they were in leader "
                f"epoch {epoch}; a later leader has truncated them: run it with repair (--repair), "
                "which replaces them, or name another target"
            )
        target.remove(log, start, end)
        contents.remove(log, start)
        removed.add(log)
    if removed or contents.copy().epochs != noted:  # whether or not there is something new to add
        of_logs = [log for log in logs if log.topic_partition in removed]
        contents.add(Exported(contents.isolation, epochs=_epochs(of_logs, facts, contents, {})))
        target.write(contents, ())
    return contents


def _epochs_before(
    logs: Sequence[PartitionLog],
    facts: Mapping[TopicPartition, Facts],
    offsets: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The leader epochs of the records before these offsets, for logs that state them."""
    names = [log.topic_partition for log in logs]
    found = in_parallel(
        lambda log: known_epoch(log, facts[log.topic_partition], offsets[log.topic_partition]),
        logs,
        is_mounted=are_mounted(logs),
    )
    return {name: epoch for name, epoch in zip(names, found, strict=True) if epoch != UNKNOWN}


def _check_unchanged(
    logs: Sequence[PartitionLog],
    facts: Mapping[TopicPartition, Facts],
    contents: Exported,
    until: Mapping[TopicPartition, int],
    epochs: Mapping[TopicPartition, int],
) -> None:
    """JobError: a later leader has truncated a log since the run began. `until`: the end offsets of
    this run. `epochs`: the leader epochs of its last records, found before they were read."""
    now = _epochs_before(logs, facts, until)
    changed = {one.name for one in changes(logs, facts, contents)}
    changed |= {name for name, epoch in now.items() if epochs.get(name, epoch) != epoch}
    if changed:
        names = ", ".join(map(str, sorted(changed)))
        raise JobError(
            f"{names}: a later leader has truncated them during the run, so it has added "
            "nothing; run it again"
        )


def _epochs(
    logs: Sequence[PartitionLog],
    facts: Mapping[TopicPartition, Facts],
    contents: Exported,
    read: Mapping[tuple[TopicPartition, int], int],
) -> dict[TopicPartition, dict[int, int]]:
    """The leader epochs to note of the last records of the exported ranges. `read`: some of them,
    by the end of the range, as they were before the records were read."""
    found: dict[TopicPartition, dict[int, int]] = {}
    for log in logs:
        name = log.topic_partition
        known = contents.epochs.get(name, {})
        for _, end in contents.ranges.get(name, ()):
            if end in known:
                continue
            epoch = read.get((name, end), UNKNOWN)
            epoch = known_epoch(log, facts[name], end) if epoch == UNKNOWN else epoch
            epoch = epoch_to_note(log, facts[name], end, epoch) if epoch >= 0 else epoch
            if epoch >= 0:
                found.setdefault(name, {})[end] = epoch
    return found
