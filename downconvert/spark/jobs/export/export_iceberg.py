"""Records as a table of Iceberg, in any catalog of pyiceberg.

The summary of each snapshot says which offsets are in the table. The current snapshot counts: after
a rollback, an export continues where that snapshot ends. Each commit also stores the same text as a
property of the table, because snapshots expire.

Not here: which offsets are new (export.py), writing files (export_stored.py)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.options.schemas import EXPORTED, arrow_schema
from downconvert.spark.stores.stores import is_stored, local_path, pinned
from downconvert.storage.names import TopicPartition

from .export_columns import are_dates
from .export_manifest import Exported
from .export_stored import Written
from .export_table import PROPERTY, Table, exported_of, foreign, outpaced, text_of, uncertain

FOLDERS: Final = ("topic", "date")
DATA: Final = "data"  # the folder of a table's files
# No retries: pyiceberg would commit the same files on top of another export's commit.
RETRIES: Final = "commit.retry.num-retries"
# "counts": no bounds of timestamps in a commit. pyiceberg makes dates of them, and would fail.
BOUNDS: Final = "write.metadata.metrics.column.timestamp"
TRIES: Final = 10


class IcebergTarget(Table):
    """A table, which is created if it does not exist."""

    is_complete = True  # Iceberg's readers look for all columns in the files

    def __init__(self, name: str, catalog: str | None, properties: Mapping[str, str]) -> None:
        """`name`: with its namespace, `lake.events`. `catalog`, `properties`: as for pyiceberg's
        load_catalog, which also reads its own configuration. ModuleNotFoundError: pyiceberg is not
        installed. JobError: there is no such catalog, or something else."""
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError

        self.name = name
        namespace, _, _ = name.rpartition(".")
        if not namespace:
            raise JobError(f"{name}: a table's name has a namespace: {name}.{name}, say")
        try:
            self._catalog: Any = load_catalog(catalog, **properties)
            try:
                self._table: Any = self._catalog.load_table(name)
            except NoSuchTableError:
                self._catalog.create_namespace_if_not_exists(namespace)
                self._table = self._created()
        except Exception as error:  # catalogs raise errors of any kind
            raise JobError(f"{name}: {type(error).__name__}: {error}") from error
        if [field.name for field in self._table.schema().fields] != EXPORTED.names:
            raise foreign(name)
        place = f"{self._table.location()}/{DATA}"
        self.location = pinned(place) if is_stored(place) else local_path(place)

    def _created(self) -> Any:
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

        try:
            with (
                self._catalog.create_table_transaction(self.name, arrow_schema(EXPORTED)) as made,
                made.update_spec() as spec,
            ):
                for column in FOLDERS:
                    spec.add_identity(column)
        except (TableAlreadyExistsError, CommitFailedException):
            pass  # another program has created it a moment ago
        return self._catalog.load_table(self.name)

    def read(self, isolation: str, _partitions: Sequence[TopicPartition] = ()) -> Exported:
        """The offsets in the last snapshot that an export has made, up to the current one.

        JobError: that snapshot is gone and the table was rolled back since, or another program
        made the table."""
        table = self._table
        snapshot = table.current_snapshot()
        if snapshot is None:
            return Exported(isolation)
        while snapshot is not None:
            noted = _noted(snapshot)
            if noted is not None:
                return exported_of(noted, isolation, self.name)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else table.snapshot_by_id(parent)
        if PROPERTY not in table.properties:
            raise foreign(self.name)
        # A later snapshot has these offsets: the table was rolled back.
        if table.properties[PROPERTY] in map(_noted, table.snapshots()):
            raise JobError(
                f"{self.name} was rolled back to a snapshot whose offsets are not known any more: "
                "name another table"
            )
        return exported_of(table.properties[PROPERTY], isolation, self.name)

    def remove(self, name: TopicPartition, start: int, end: int) -> None:
        """Commits a deletion. JobError: it failed."""
        of_log = f"topic == '{name.topic}' and partition == {name.partition}"
        rows = f"{of_log} and offset >= {start} and offset < {end}"
        try:
            try:
                self._table.delete(rows)
            except OverflowError:  # a file has timestamps beyond Python's dates
                self._set(BOUNDS, "counts")
                self._table.delete(rows)
        except Exception as error:  # catalogs raise errors of any kind
            raise uncertain(self.name, error) from error

    def write(self, exported: Exported, files: Sequence[Written]) -> None:
        """Commits the files. JobError: another export has committed meanwhile."""
        from pyiceberg.exceptions import CommitFailedException

        text = text_of(exported)
        paths = [f"{self._table.location()}/{DATA}/{one.file}" for one in files]
        before = text_of(self.read(exported.isolation))
        for tries in range(TRIES):
            self._set(RETRIES, "0")
            if not all(are_dates(one.columns["timestamp"]) for one in files):
                self._set(BOUNDS, "counts")
            try:
                with self._table.transaction() as change:
                    change.set_properties({PROPERTY: text})
                    change.add_files(
                        paths, snapshot_properties={PROPERTY: text}, check_duplicate_files=False
                    )
                return
            except CommitFailedException as error:
                self._table = self._catalog.load_table(self.name)
                # The conflict may be with maintenance: only another export changes the offsets.
                if text_of(self.read(exported.isolation)) != before or tries == TRIES - 1:
                    raise outpaced(self.name, error) from error
            except Exception as error:  # catalogs raise errors of any kind
                raise uncertain(self.name, error) from error

    def _set(self, name: str, value: str) -> None:
        """Sets a property in this object, and not in the table."""
        self._table.metadata.properties[name] = value


def _noted(snapshot: Any) -> str | None:
    """The offsets that an export has noted in a snapshot."""
    properties = snapshot.summary.additional_properties if snapshot.summary else {}
    found: str | None = properties.get(PROPERTY)
    return found
