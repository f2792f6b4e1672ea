"""Reads the offsets of files that no note names, and removes offsets from files.

A file without a note comes from a run that died, or from another program. Records with its offsets
are not added again. A note names such a file as soon as all of its offsets are exported.

Not here: the notes (export_manifest.py), the tasks that leave offsets out (export_stored.py)."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.stores.parallel import in_parallel
from downconvert.storage.names import TopicPartition

from .export_manifest import Exported

IN_TOPIC: Final = re.compile(r"topic=([^/]+)/.+")

# Rows of a first offset and the offset after the last, in order and disjoint.
Runs: TypeAlias = NDArray[np.int64]


class Unnoted:
    """The offsets of files that no note names, by file and partition."""

    def __init__(self, names: Iterable[str], read: Callable[[str], bytes]) -> None:
        """`names`: of files below the target. JobError: a file cannot be read."""
        names = list(names)
        found = in_parallel(lambda name: _runs_in(name, read(name)), names)
        self._files = dict(zip(names, found, strict=True))

    def held(self) -> Mapping[TopicPartition, Runs]:
        """The offsets of all files."""
        of_log: dict[TopicPartition, list[Runs]] = {}
        for found in self._files.values():
            for name, runs in found.items():
                of_log.setdefault(name, []).append(runs)
        return {name: _joined(np.concatenate(runs)) for name, runs in of_log.items()}

    def within(self, exported: Exported) -> set[str]:
        """The files whose offsets are all exported."""
        return {
            file
            for file, found in self._files.items()
            if all(
                exported.end_from(name, int(runs[0, 0])) >= int(runs[-1, 1])
                for name, runs in found.items()
            )
        }


def is_seen(name: str) -> bool:
    """Whether readers of Parquet read a file of the target, by its name below that."""
    is_skipped = any(part.startswith(("_", ".")) for part in name.split("/"))
    return IN_TOPIC.fullmatch(name) is not None and not is_skipped


def without_held(batch: Any, held: Runs | None) -> Any:
    """The records of a batch whose offsets are not held."""
    if held is None:
        return batch
    offsets = batch.column("offset").to_numpy()
    at = np.searchsorted(held[:, 0], offsets, side="right") - 1
    is_held = (at >= 0) & (offsets < held[at, 1])
    return batch.filter(pa.array(~is_held)) if is_held.any() else batch


def without_offsets(data: bytes, partition: int, start: int, end: int) -> bytes | None:
    """A Parquet file without the records of a partition from an offset up to another one; None: it
    has no such records."""
    table = pq.ParquetFile(pa.BufferReader(data)).read()
    of_log = pc.equal(table.column("partition"), partition)
    offset = table.column("offset")
    within = pc.and_(pc.greater_equal(offset, start), pc.less(offset, end))
    left = table.filter(pc.invert(pc.and_(of_log, within)))
    if len(left) == len(table):
        return None
    out = pa.BufferOutputStream()
    pq.write_table(left, out)
    return bytes(out.getvalue())


def _runs_in(name: str, data: bytes) -> dict[TopicPartition, Runs]:
    in_topic = IN_TOPIC.fullmatch(name)
    assert in_topic is not None
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read(["partition", "offset"])
        partitions = pc.unique(table.column("partition")).to_pylist()
        return {
            TopicPartition(in_topic[1], int(number)): _runs(
                table.filter(pc.equal(table.column("partition"), number)).column("offset")
            )
            for number in partitions
        }
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise JobError(
            f"{name} is not a file of an export, and no note names it: move it elsewhere ({error})"
        ) from error


def _runs(offsets: Any) -> Runs:
    found = np.unique(offsets.to_numpy().astype(np.int64))
    return _joined(np.stack([found, found + 1], axis=1))


def _joined(runs: Runs) -> Runs:
    """Runs in order. Those that overlap or are adjacent are joined."""
    runs = runs[np.argsort(runs[:, 0], kind="stable")]
    reach = np.maximum.accumulate(runs[:, 1])
    first = np.flatnonzero(np.concatenate([[True], runs[1:, 0] > reach[:-1]]))
    last = np.concatenate([first[1:] - 1, [len(runs) - 1]])
    return np.stack([runs[first, 0], reach[last]], axis=1)
