"""Log directories of real brokers, and what a real consumer read from each.

`data/real.zip` holds them by the broker's version, as `<version>/log` (after a clean shutdown),
`log-running` (copied while the broker ran) and `log-killed` (after kill -9; some partitions of
each). Beside them lies what consumers of the same version got, as JSON lines."""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from downconvert.storage import TopicPartition
from records.formats import TIMESTAMP_TYPE_NAMES
from records.record import Record
from tests import corpus

ARCHIVE: Final = corpus.DATA / "real.zip"
READ_BY_CONSUMERS: Final = {
    "log": "records",
    "log-running": "records",
    "log-killed": "records-killed",
}


@dataclass(frozen=True, slots=True)
class Dump:
    """The records that a consumer read from a topic."""

    version: str
    directory: str  # log, log-running or log-killed
    topic: str
    committed: bool

    def __str__(self) -> str:
        return f"{self.version}/{self.directory}/{self.topic}" + "-committed" * self.committed

    @property
    def isolation(self) -> Any:
        return "read_committed" if self.committed else "read_uncommitted"

    def expected(self) -> dict[TopicPartition, list[dict[str, Any]]]:
        """The lines of each partition whose directory is there."""
        suffix = ".read_committed.jsonl" if self.committed else ".jsonl"
        name = f"{self.version}/{READ_BY_CONSUMERS[self.directory]}/{self.topic}{suffix}"
        found: dict[TopicPartition, list[dict[str, Any]]] = {
            partition: []
            for partition in _partitions(self.version, self.directory)
            if partition.topic == self.topic
        }
        for line in _archive().read(name).decode().splitlines():
            record = json.loads(line)
            partition = TopicPartition(self.topic, record.pop("p"))
            if partition in found:
                found[partition].append(record)
        return found


def unpack(path: Path) -> None:
    """Writes all directories below `path`."""
    _archive().extractall(path)


@cache
def directories() -> list[str]:
    """Each directory: `3.9.1/log-killed`."""
    return sorted({f"{v}/{d}" for v, d, *_ in _names() if d in READ_BY_CONSUMERS})


@cache
def dumps() -> list[Dump]:
    """The dumps of consumers, for topics with a partition here."""
    return [
        Dump(version, directory, topic, committed)
        for version, directory in (name.split("/") for name in directories())
        for topic in sorted({p.topic for p in _partitions(version, directory)})
        for committed in (False, True)
        if (version, READ_BY_CONSUMERS[directory], _file_name(topic, committed)) in _names()
    ]


def read_from(directory: str) -> Iterator[tuple[Dump, TopicPartition, list[dict[str, Any]]]]:
    """The records that consumers read from each partition in a directory."""
    for dump in dumps():
        if directory == f"{dump.version}/{dump.directory}":
            for partition, expected in dump.expected().items():
                yield dump, partition, expected


def line(record: Record) -> dict[str, Any]:
    """A record as the consumers' dumps have it."""
    return {
        "o": record.offset,
        "t": record.timestamp,
        "tt": TIMESTAMP_TYPE_NAMES[record.timestamp_type],
        "k": _text(record.key),
        "v": _text(record.value),
        "h": [[key, _text(value)] for key, value in record.headers],
    }


def _text(data: bytes | None) -> str | dict[str, Any] | None:
    if data is None:
        return None
    if len(data) > 300:
        return {"sha256": hashlib.sha256(data).hexdigest(), "len": len(data)}
    return data.hex()


def _file_name(topic: str, committed: bool) -> str:
    return f"{topic}.read_committed.jsonl" if committed else f"{topic}.jsonl"


@cache
def _partitions(version: str, directory: str) -> list[TopicPartition]:
    found = {n[2] for n in _names() if n[:2] == (version, directory) and len(n) > 3}
    names = (name.rpartition("-") for name in sorted(found))
    return [TopicPartition(topic, int(partition)) for topic, _, partition in names]


@cache
def _names() -> set[tuple[str, ...]]:
    return {tuple(name.split("/")) for name in _archive().namelist()}


@cache
def _archive() -> zipfile.ZipFile:
    # Files are stored in an archive that is compressed as a whole, since much repeats among them.
    with zipfile.ZipFile(ARCHIVE) as archive:
        return zipfile.ZipFile(io.BytesIO(archive.read("real.zip")))
