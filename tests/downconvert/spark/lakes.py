"""A target of an export: a directory, or a table of Delta Lake or Iceberg."""

from pathlib import Path
from typing import Any

from downconvert.spark.jobs.export.export_delta import DeltaTarget
from downconvert.spark.jobs.export.export_iceberg import IcebergTarget

from .exporting import archived


class Lake:
    """A target of any kind, and its records."""

    def __init__(self, path: Path, kind: str) -> None:
        self._path, self._kind = path, kind

    @property
    def target(self) -> Any:
        if self._kind == "parquet":
            return self._path / "lake"
        if self._kind == "delta":
            return DeltaTarget(str(self._path / "lake"))
        properties = {
            "type": "sql",
            "uri": f"sqlite:///{self._path}/catalog.db",
            "warehouse": f"file://{self._path}/warehouse",
        }
        return IcebergTarget("lake.events", None, properties)

    def records(self) -> list[tuple[int, bytes]]:
        """Offsets and values, as its own reader says."""
        if self._kind == "parquet":
            return [(row[2], row[3]) for row in archived(self.target)]
        table: Any = self.target._table
        found = table.scan().to_arrow() if self._kind == "iceberg" else table.to_pyarrow_table()
        return sorted((row["offset"], row["value"]) for row in found.to_pylist())
