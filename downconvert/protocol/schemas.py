"""The fields of every request and response, version by version.

They come from kafka-python's copy of Kafka's message definitions, which still has the versions that
Kafka 4.0 dropped. Only the definitions are used. They are read as files, because importing
kafka-python would load its whole client, which takes longer than importing all of this package.
Bytes are read and written here (decoder.py, encoder.py), because they may be hostile, and because
records are streamed."""

import json
import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Literal

Kind = Literal["Request", "Response"]
ALWAYS: Final = range(1 << 15)
NEVER: Final = range(0)


class ApiKey(IntEnum):
    """The API of a request. The names are those of Kafka's message definitions."""

    Produce = 0
    Fetch = 1
    ListOffsets = 2
    Metadata = 3
    OffsetCommit = 8
    OffsetFetch = 9
    FindCoordinator = 10
    JoinGroup = 11
    Heartbeat = 12
    LeaveGroup = 13
    SyncGroup = 14
    DescribeGroups = 15
    ListGroups = 16
    SaslHandshake = 17
    ApiVersions = 18
    CreateTopics = 19
    DeleteTopics = 20
    DeleteRecords = 21
    InitProducerId = 22
    OffsetForLeaderEpoch = 23
    AddPartitionsToTxn = 24
    AddOffsetsToTxn = 25
    EndTxn = 26
    TxnOffsetCommit = 28
    DescribeAcls = 29
    CreateAcls = 30
    DeleteAcls = 31
    DescribeConfigs = 32
    AlterConfigs = 33
    DescribeLogDirs = 35
    SaslAuthenticate = 36
    CreatePartitions = 37
    DeleteGroups = 42
    IncrementalAlterConfigs = 44
    OffsetDelete = 47
    DescribeCluster = 60
    DescribeProducers = 61
    DescribeTransactions = 65
    ListTransactions = 66
    DescribeTopicPartitions = 75


class Message(SimpleNamespace):
    """A request, a response, or a structure in one. Its fields have snake_case names.

    A decoded message has the fields of all versions. Fields of other versions have their defaults.
    A message to encode needs only the fields that differ from their defaults."""


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A field of a message, from its definition."""

    name: str
    type: str  # of the element, if it is an array
    is_array: bool
    versions: range
    nullable: range
    tagged: range
    tag: int
    default: Any
    fields: tuple["Field", ...]  # of a structure
    never_compact: bool  # the client id of a request's header


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A message's definition."""

    name: str
    fields: tuple[Field, ...]
    flexible: range  # the versions with compact lengths and tagged fields
    newest: int


@cache
def schema(name: str) -> Schema:
    """The schema of a name, like `FetchRequest`. Raises KeyError if there is no such message."""
    try:
        definition = _definition(name)
    except FileNotFoundError:
        raise KeyError(name) from None
    newest = _versions(definition["validVersions"]).stop - 1
    common = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", ())}
    fields = _fields(definition, common)
    return Schema(name, fields, _versions(definition["flexibleVersions"]), newest)


def _definition(name: str) -> dict[str, Any]:
    """Kafka's message definition: JSON with comment lines. Raises FileNotFoundError if missing."""
    text = (_definitions() / f"{name}.json").read_text()
    definition: dict[str, Any] = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    return definition


@cache
def _definitions() -> Path:
    """Where kafka-python keeps them. Raises ModuleNotFoundError if it is not installed."""
    package = find_spec("kafka")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("No module named 'kafka'", name="kafka")
    return Path(package.origin).parent / "protocol" / "schemas" / "resources"


_definitions()  # if it is missing, importing this module fails with that error


def is_flexible(api: ApiKey, version: int) -> bool:
    """Whether a request of this version has the header with tagged fields."""
    return version in flexible_versions(api)


@cache
def flexible_versions(api: ApiKey) -> range:
    """The versions for which `is_flexible` is true."""
    return schema(f"{api.name}Request").flexible


def _fields(about: dict[str, Any], common: dict[str, Any]) -> tuple[Field, ...]:
    """The fields of a message or structure. `common`: structures that several fields share."""
    fields = about.get("fields") or common.get(about.get("type", "").removeprefix("[]"), ())
    return tuple(_field(field, common) for field in fields)


def _field(about: dict[str, Any], common: dict[str, Any]) -> Field:
    type_ = about["type"].removeprefix("[]")
    is_array = about["type"] != type_
    fields = _fields(about, common)
    return Field(
        name=re.sub(r"(?<!^)(?=[A-Z])", "_", about["name"]).lower(),
        type="struct" if fields else type_,
        is_array=is_array,
        versions=_versions(about["versions"]),
        nullable=_versions(about.get("nullableVersions")),
        tagged=_versions(about.get("taggedVersions")),
        tag=about.get("tag", -1),
        default=_default(about, is_array, fields),
        fields=fields,
        never_compact=about.get("flexibleVersions") == "none",
    )


def _default(about: dict[str, Any], is_array: bool, fields: tuple[Field, ...]) -> Any:
    default = about.get("default")
    if default == "null":
        return None
    if is_array:
        return ()
    if fields:
        return Message(**{field.name: field.default for field in fields})
    match about["type"]:
        case "string":
            return default or ""
        case "bool":
            return str(default).lower() == "true"
        case "bytes" | "records":
            return b""
        case "uuid":
            return bytes(16)
        case "float64":
            return float(default or 0)
        case _:
            return int(str(default or 0), 0)


def _versions(text: str | None) -> range:
    """Parses a version range: `2+`, `0-3`, `1`, `none`."""
    if text is None or text == "none":
        return NEVER
    first, plus, _ = text.partition("+")
    first, _, last = first.partition("-")
    return range(int(first), ALWAYS.stop if plus else int(last or first) + 1)
