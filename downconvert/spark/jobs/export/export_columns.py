"""The bounds of columns in the metadata of a Parquet file. Readers of tables skip files by them.

Not here: writing files (export_stored.py), the bounds in a table's commit (export_delta.py)."""

from datetime import date
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow.parquet as pq

# The columns of which tables have statistics.
COLUMNS: Final = ("partition", "offset", "timestamp", "timestampType")
DAYS: Final = (date.min - date(1970, 1, 1)).days, (date.max - date(1970, 1, 1)).days
MICROSECONDS_OF_DAY: Final = 86_400_000_000


class Column(NamedTuple):
    """The lowest and the highest value of a column in a file (None: there is no value), and the
    number of nulls. Timestamps are in microseconds."""

    low: int | None
    high: int | None
    nulls: int


def column_of(path: Path, name: str) -> Column:
    """The values of a column from a file's metadata. The column has integers, or timestamps in
    their stored form."""
    footer = pq.read_metadata(path)
    number = footer.schema.to_arrow_schema().get_field_index(name)
    parts = [
        footer.row_group(group).column(number).statistics for group in range(footer.num_row_groups)
    ]
    known = [part for part in parts if part.has_min_max]
    low = min((part.min_raw for part in known), default=None)
    high = max((part.max_raw for part in known), default=None)
    return Column(low, high, sum(part.null_count for part in parts))


def are_dates(column: Column) -> bool:
    """Whether Python's dates can represent all timestamps."""
    return all(at is None or DAYS[0] <= at // MICROSECONDS_OF_DAY <= DAYS[1] for at in column[:2])
