"""The broker or topic of a directory: `meta.properties` and `partition.metadata`.

`meta.properties` is a Java properties file (since 0.9): version 0 has broker.id and, in later
releases, cluster.id. Version 1 (KRaft) has node.id, cluster.id and directory.id.
`partition.metadata` (since 2.8) has the topic's id, in two lines without a line feed at the end."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

from downconvert.storage.disk.files import Files, read_file, replace_file
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.names import META_PROPERTIES, PARTITION_METADATA

TOPIC_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
METADATA: Final = re.compile(r"version: ([0-9]+)\r?\ntopic_id: (\S+)\s*")
PROPERTY: Final = re.compile(r"([^=:\s]+)\s*[=:\s]\s*(.*)")


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The broker and cluster that write to a directory."""

    version: int = 0
    node_id: int | None = None
    cluster_id: str | None = None
    directory_id: str | None = None
    others: Mapping[str, str] = field(default_factory=dict)


def read_meta_properties(directory: Path) -> MetaProperties | None:
    """Reads the file. None if it does not exist: brokers before 0.9 wrote none."""
    path = directory / META_PROPERTIES
    try:
        text = read_file(path).decode("latin-1")  # as Java reads properties
    except FileNotFoundError:
        return None
    values = {}
    for line in text.splitlines():
        if (line := line.strip()) and line[0] not in "#!":
            found = PROPERTY.fullmatch(line)
            if found is None:
                raise CorruptFileError(f"malformed line {line[:80]!r}", str(path))
            values[found[1]] = found[2]
    try:
        version = int(values.pop("version", "0"))
        broker, node = values.pop("broker.id", None), values.pop("node.id", None)
        number = broker if node is None else node
        node_id = None if number is None else int(number)
    except ValueError as error:
        raise CorruptFileError("version and id must be numbers", str(path)) from error
    cluster, identity = values.pop("cluster.id", None), values.pop("directory.id", None)
    return MetaProperties(version, node_id, cluster, identity, values)


def read_topic_id(partition: Path) -> UUID | None:
    """The topic id of the partition in this directory. None if there is no file."""
    path = partition / PARTITION_METADATA
    try:
        text = read_file(path).decode("latin-1")
    except FileNotFoundError:
        return None
    found = METADATA.fullmatch(text)
    if found is None:
        raise CorruptFileError("is not partition metadata", str(path))
    if found[1] != "0":
        raise CorruptFileError(f"version {found[1][:20]} is not known", str(path))
    if not TOPIC_ID.fullmatch(found[2]):
        raise CorruptFileError(f"{found[2][:40]!r} is not a topic id", str(path))
    return UUID(bytes=urlsafe_b64decode(found[2] + "=="))


def write_topic_id(files: Files, partition: Path, topic_id: UUID) -> None:
    """Replaces the file. Returns when that is synced."""
    text = f"version: 0\ntopic_id: {topic_id_text(topic_id)}"
    replace_file(files, partition / PARTITION_METADATA, text.encode())


def topic_id_text(topic_id: UUID) -> str:
    """An id in the form that Kafka prints."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
