"""Reads directories as Spark's workers do, without Spark; and what is expected of it."""

import tarfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from downconvert.spark.logs import trees
from downconvert.spark.logs.splits import Split
from downconvert.spark.options.options import Options
from downconvert.spark.options.schemas import arrow_schema, schema_of
from downconvert.spark.read.reader import SegmentReader, Task
from downconvert.storage.names import Kind, TopicPartition, file_name, parse_partition
from records import Record, build
from records.formats import V2

TIMESTAMPS: Final = ("timestamp", "baseTimestamp", "maxTimestamp")
MILLISECONDS_MAX: Final = (2**63 - 1) // 1000
Row = dict[str, Any]


def parsed(path: Path | str, **options: Any) -> Options:
    """Options; `maxPartitionBytes` may be less than users can ask for, so that a small segment is
    cut."""
    size = options.pop("maxPartitionBytes", None)
    given = Options.parse({"path": str(path)} | _texts(options), streaming=False)
    return given if size is None else replace(given, max_partition_bytes=size)


def reader(path: Path | str, **options: Any) -> SegmentReader:
    given = parsed(path, **options)
    return SegmentReader(given, schema_of(given))


def splits(path: Path | str, **options: Any) -> list[Split]:
    """The planned splits of all tasks."""
    tasks = reader(path, **options).partitions()
    return [split for task in tasks if isinstance(task, Task) for split in task.splits]


def rows(path: Path | str, **options: Any) -> list[Row]:
    """The rows, in the order of the tasks; timestamps in microseconds."""
    given = parsed(path, **options)
    schema = arrow_schema(schema_of(given))
    source = reader(path, **options)
    found: list[Row] = []
    for task in source.partitions():
        for batch in source.read(task):
            assert batch.schema.equals(schema)
            batch.validate(full=True)
            found += _plain(batch)
    return found


def record_of(row: Row) -> Row:
    """The columns that say something of the record alone, without those of its place."""
    without = ("topic", "partition", "_corrupt")
    return {name: value for name, value in row.items() if name not in without}


def expected(records: Iterable[Record]) -> list[Row]:
    """The rows of records, headers included."""
    return [
        {
            "key": record.key,
            "value": record.value,
            "offset": record.offset,
            "timestamp": 1000 * record.timestamp
            if abs(record.timestamp) <= MILLISECONDS_MAX
            else None,
            "timestampType": int(record.timestamp_type),
            "headers": [{"key": _as_java(k), "value": v} for k, v in record.headers] or None,
        }
        for record in records
    ]


def partition(path: Path, data: bytes, name: str = "topic-0", base_offset: int = 0) -> Path:
    """A partition's directory with one segment and no index."""
    directory = path / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / file_name(base_offset, Kind.LOG)).write_bytes(data)
    return directory


def packed(logs: Path) -> Path:
    """A tar of a directory, beside it; rewritten if it is there."""
    target = logs.with_name(f"{logs.name}.tar")
    with tarfile.open(target, "w") as tar:
        tar.add(logs, logs.name)
    return target


def _plain(batch: Any) -> list[Row]:
    for name in TIMESTAMPS:
        at = batch.schema.get_field_index(name)
        if at >= 0:
            batch = batch.set_column(at, name, batch.column(at).cast(pa.int64()))
    found: list[Row] = batch.to_pylist()
    return found


def _as_java(key: str) -> str:
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _texts(options: dict[str, Any]) -> dict[str, str]:
    """Options as Spark hands them on: texts, whose names are in lower case."""
    return {name.lower(): str(value) for name, value in options.items()}


def kept(path: Path, *records: tuple[bytes | None, bytes | None]) -> None:
    """A partition with these keys and values."""
    path.mkdir()
    found = [Record(n, 0, key=key, value=value) for n, (key, value) in enumerate(records)]
    (path / "00000000000000000000.log").write_bytes(build(found, magic=V2))


def delete_when_seen(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next search for partitions finds the directory's name. Then its topic is deleted: Kafka
    first renames the directory, before the search looks at it."""
    seen = []

    def parsed(name: str) -> TopicPartition | None:
        if not seen:
            deleted = f"{directory.name}.0123456789abcdef0123456789abcdef-delete"
            directory.rename(directory.with_name(deleted))
        seen.append(name)
        return parse_partition(name)

    monkeypatch.setattr(trees, "parse_partition", parsed)
