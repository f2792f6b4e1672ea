"""Records as a table of Delta Lake.

The metadata of each commit says which offsets are in the table. Each commit also has a transaction
of the application `kafka-segments`, so Delta refuses one of two concurrent exports. A further
transaction for each partition has the offset after its last record as its version. Checkpoints keep
these transactions when old commits are cleaned up. `RESTORE` also restores the offsets, as long as
the log has the restored commit.

Not here: which offsets are new (export.py), writing files (export_stored.py)."""

import json
import time
import warnings
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.options.schemas import EXPORTED, arrow_schema
from downconvert.spark.stores.stores import is_stored, local_path, pinned, shown
from downconvert.storage.names import TopicPartition

from .export_manifest import Exported
from .export_stored import Written
from .export_table import PROPERTY, Table, exported_of, foreign, outpaced, text_of, uncertain

APPLICATION: Final = "kafka-segments"
RECORDS: Final = f"{APPLICATION}.records"  # its version is the table's number of records
HISTORY: Final = (10, 1_000, None)  # commits requested, step by step
FOLDERS: Final = ["topic", "date"]


class DeltaTarget(Table):
    """A table, which is created if it does not exist."""

    is_complete = False  # Delta's layout: folder names are columns

    def __init__(self, uri: str) -> None:
        """`uri`: a directory that all executors have, or a folder of an object store.
        ModuleNotFoundError: deltalake is not installed. JobError: the place holds something else
        than a table."""
        from deltalake import DeltaTable, Schema
        from deltalake.exceptions import DeltaError

        if is_stored(uri):
            self.location = pinned(uri)
            self.name = shown(self.location)
        else:
            self.location = self.name = str(Path(local_path(uri)).absolute())
        self._schema = Schema.from_arrow(arrow_schema(EXPORTED))
        try:
            if not DeltaTable.is_deltatable(self.name):
                DeltaTable.create(self.name, self._schema, partition_by=FOLDERS, mode="ignore")
            self._table: Any = DeltaTable(self.name)
        except (DeltaError, OSError) as error:
            raise JobError(f"{self.name}: {error}") from error
        if self._table.schema() != self._schema:
            raise foreign(self.name)

    def read(self, isolation: str, partitions: Sequence[TopicPartition]) -> Exported:
        """The offsets in the last commit of an export, or in its transactions if that commit was
        cleaned up. JobError: there is neither, or another program made the table."""
        restored: int | None = None
        oldest = 0
        for commit in self._commits():
            oldest = commit["version"]
            if restored is not None and commit["version"] > restored:
                continue
            if PROPERTY in commit:
                return exported_of(commit[PROPERTY], isolation, self.name)
            if commit["operation"] == "RESTORE":
                restored = self._restored(commit)
        if self._table.transaction_version(APPLICATION) is None and self._table.file_uris():
            raise foreign(self.name)
        found = Exported(isolation)
        if restored is not None:  # restored to before the first export; transactions are unchanged
            if oldest > 0:
                raise JobError(
                    f"{self.name} was restored to version {restored}, and its log no longer says "
                    "which offsets that has: name another table"
                )
            return found
        self._warn_of_fewer()
        for name in partitions:
            end = self._table.transaction_version(f"{APPLICATION}/{name}")
            if end:
                found.ranges[name] = [(0, end)]
        return found

    def remove(self, name: TopicPartition, start: int, end: int) -> None:
        """Commits a deletion. JobError: it failed."""
        from deltalake.exceptions import DeltaError

        of_log = f"topic = '{name.topic}' AND \"partition\" = {name.partition}"
        try:
            self._table.delete(f'{of_log} AND "offset" >= {start} AND "offset" < {end}')
            self._table.update_incremental()
        except (DeltaError, OSError) as error:
            raise uncertain(self.name, error) from error

    def write(self, exported: Exported, files: Sequence[Written]) -> None:
        """Commits the files. JobError: another export has committed meanwhile."""
        from deltalake import CommitProperties
        from deltalake.exceptions import CommitFailedError, DeltaError
        from deltalake.transaction import AddAction, Transaction

        now = int(time.time() * 1000)
        number = self._table.transaction_version(APPLICATION) or 0
        ends = [
            Transaction(f"{APPLICATION}/{name}", ranges[-1][1] if ranges else 0, now)
            for name, ranges in exported.ranges.items()
        ]
        actions = [
            AddAction(
                path=one.file,
                size=one.size,
                partition_values={
                    "topic": one.topic,
                    "date": None if one.day is None else one.day.isoformat(),
                },
                modification_time=now,
                data_change=True,
                stats=json.dumps(_statistics(one)),
            )
            for one in files
        ]
        properties = CommitProperties(
            custom_metadata={PROPERTY: text_of(exported)},
            app_transactions=[
                Transaction(APPLICATION, number + 1, now),
                Transaction(RECORDS, self._records() + sum(one.records for one in files), now),
                *ends,
            ],
        )
        try:
            self._table.create_write_transaction(
                actions, "append", self._schema, FOLDERS, commit_properties=properties
            )
        except CommitFailedError as error:
            raise outpaced(self.name, error) from error
        except (DeltaError, OSError) as error:
            raise uncertain(self.name, error) from error
        self._table.update_incremental()

    def _commits(self) -> Iterator[dict[str, Any]]:
        """The commits, latest first. The history is read in large steps, as far as needed."""
        seen = 0
        for limit in HISTORY:
            found = self._table.history(limit)
            yield from found[seen:]
            if limit is None or len(found) < limit:
                return
            seen = len(found)

    def _records(self) -> int:
        """The table's number of records, from its files' statistics."""
        counts = pa.table(self._table.get_add_actions(flatten=True)).column("num_records")
        return sum(count for count in counts.to_pylist() if count is not None)

    def _warn_of_fewer(self) -> None:
        """Warns if there are fewer records than expected. If no commit of an export is left, a
        RESTORE does not show in any other way."""
        noted, count = self._table.transaction_version(RECORDS), self._records()
        if noted is not None and count < noted:
            warnings.warn(
                f"{self.name} has {count} records, the last export left {noted}, and its log goes "
                "back no further: if it was restored since, and they were not deleted, they are "
                "missing; name another table then",
                RuntimeWarning,
                stacklevel=2,
            )

    def _restored(self, commit: dict[str, Any]) -> int:
        """The version that the table was restored to."""
        try:
            return int(commit["operationParameters"]["version"])
        except (KeyError, TypeError, ValueError):
            raise JobError(
                f"{self.name} was restored to a time, and its log does not say to which version: "
                "restore it to that version by its number"
            ) from None


def _statistics(file: Written) -> dict[str, Any]:
    """The statistics by which readers skip a file.

    Either all columns have bounds or none. If only some have, deltalake's reader takes a missing
    bound for null, and finds nothing in the file. If a column's number of nulls is missing, the
    reader assumes that there are none."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    for name, column in file.columns.items():
        if column.low is not None and column.high is not None:
            low[name], high[name] = column.low, column.high
    try:
        if "timestamp" in low:
            low["timestamp"], high["timestamp"] = _time(low["timestamp"]), _time(high["timestamp"])
    except OverflowError:  # years outside the range of dates
        return {"numRecords": file.records}
    nulls = {name: column.nulls for name, column in file.columns.items()}
    return {"numRecords": file.records, "minValues": low, "maxValues": high, "nullCount": nulls}


def _time(microseconds: int) -> str:
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")
