"""A target of an export: a directory, or a table of Delta Lake or Iceberg."""

from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from downconvert.spark.jobs.export.export_delta import DeltaTarget
from downconvert.spark.jobs.export.export_iceberg import IcebergTarget

from .exporting import archived


class Lake:
    """A target of any kind, and its records."""

    def __init__(self, path: Path, kind: str) -> None:
        self._path, self._kind = path, kind
        self._catalog = {
            "type": "sql",
            "uri": f"sqlite:///{path}/catalog.db",
            "warehouse": f"file://{path}/warehouse",
        }

    @property
    def target(self) -> Any:
        if self._kind == "parquet":
            return self._path / "lake"
        if self._kind == "delta":
            return DeltaTarget(str(self._path / "lake"))
        return IcebergTarget("lake.events", None, self._catalog)

    def table(self) -> Any:
        """The table as its own library opens it. None: there is none."""
        if self._kind == "delta":
            path = str(self._path / "lake")
            return DeltaTable(path) if DeltaTable.is_deltatable(path) else None
        catalog = load_catalog(None, **self._catalog)
        return catalog.load_table("lake.events") if catalog.table_exists("lake.events") else None

    def records(self) -> list[tuple[int, bytes]]:
        """Offsets and values, as its own reader says. There are none without a table."""
        if self._kind == "parquet":
            return [(row[2], row[3]) for row in archived(self.target)]
        table = self.table()
        if table is None:
            return []
        found = table.to_pyarrow_table() if self._kind == "delta" else table.scan().to_arrow()
        return sorted((row["offset"], row["value"]) for row in found.to_pylist())
