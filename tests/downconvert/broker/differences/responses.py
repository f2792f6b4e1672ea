"""Responses as they are compared: ids by their tokens, records by what they say, lists in any
order.

Not here: what may differ all the same (may_differ.py)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from downconvert.protocol.schemas import ApiKey, Message
from records import MemoryRecords, RecordsError, read_batch

from .identities import Identities
from .operations import Operation

# Fields that do not depend on the request: the broker, the time, the place, and the wording.
SKIPPED: Final = {
    "batch_index_error_message",
    "cluster_id",
    "client_host",
    "documentation",
    "error_message",
    "host",
    "last_timestamp",
    "log_append_time_ms",
    "log_dir",
    "port",
    "throttle_time_ms",
    "total_bytes",
    "transaction_start_time_ms",
    "usable_bytes",
}
NOTHING: Final = {"member": (None, ""), "producer": (None, -1), "session": (None, 0)}
OF_BLOCK: Final = re.compile(r"b[0-9]+-|warm$")
KEYS: Final = (
    *("name", "topic", "topic_id", "partition", "partition_index", "index", "group_id"),
    *("transactional_id", "resource_type", "resource_name", "member_id", "key", "producer_id"),
)
ENDED: Final = "the connection ends"  # in place of an answer
TOPIC_CONFIG: Final = 1  # where a setting comes from


def plain(value: Any, side: int, identities: Identities, name: str = "") -> Any:
    """A value without what is skipped: dictionaries, sorted lists, tokens."""
    if isinstance(value, Message):
        fields = vars(value)
        if fields.get("name") == "retention.ms" and fields.get("config_source", 1) != TOPIC_CONFIG:
            return {"name": "retention.ms"}  # which the tests' Kafka has of its own
        if fields.get("name") == "retention.ms":
            fields = fields | {"synonyms": []}
        return {
            field: plain(one, side, identities, field)
            for field, one in fields.items()
            if field not in SKIPPED
        }
    if name == "records":
        return _records(value, side, identities)
    if isinstance(value, memoryview):
        value = bytes(value)
    if isinstance(value, list):
        there = [one for one in value if not _is_of_others(one, identities.prefix)]
        made = [plain(one, side, identities, name) for one in there]
        return _by_key(made)
    return identities.token(name, value, side)


def _by_key(values: list[Any]) -> Any:
    """Elements by what they are about, where they say it; sorted, where they do not. A topic that
    comes twice, as Kafka answers of partitions that have an error, is one. So is an element that
    comes twice and is the same, where a request names it twice."""
    found: dict[str, Any] = {}
    if not all(map(_key, values)):
        return sorted(values, key=repr)
    for value in values:
        key = _key(value)
        before = found.get(key)
        if before is not None and before != value:
            value = _merged(before, value)
            if value is None:
                return sorted(values, key=repr)
        found[key] = value
    return found


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any] | None:
    """A topic with the partitions of both. None: they say different things."""
    differing = [name for name in first if first[name] != second.get(name)]
    for name in differing:
        if not isinstance(first[name], dict) or not isinstance(second.get(name), dict):
            return None
        common = first[name].keys() & second[name].keys()
        if any(first[name][one] != second[name][one] for one in common):
            return None
    return first | {name: first[name] | second[name] for name in differing}


def _key(value: Any) -> str:
    """The subject of an element, if it names one: two responses are compared element by element."""
    if not isinstance(value, dict):
        return ""
    if value.get("name") or value.get("topic"):
        value = {**value, "topic_id": None}
    named = (value[name] for name in KEYS if value.get(name) is not None)
    return " ".join("''" if one == "" else str(one) for one in named)


def _is_of_others(value: Any, prefix: str) -> bool:
    """Whether it was made in another block of operations."""
    if not isinstance(value, Message):
        return False
    fields = vars(value)
    names = [fields.get(name) for name in ("group_id", "transactional_id", "name", "topic")]
    return any(name and OF_BLOCK.match(name) and not name.startswith(prefix) for name in names)


def _records(data: Any, side: int, identities: Identities) -> Any:
    if not data:
        return []
    found: list[Any] = []
    source = MemoryRecords(bytes(data))
    try:
        for header in source.batches():
            producer = identities.token("producer_id", header.producer_id, side)
            records: list[tuple[Any, ...]] = [
                (one.offset, one.key, one.value, one.headers) for one in read_batch(source, header)
            ]
            if header.is_control:
                records = [(one[0], one[1]) for one in records]
            found.append(
                (
                    (header.magic, header.codec, header.timestamp_type, header.base_offset),
                    (producer, header.producer_epoch, header.base_sequence, header.leader_epoch),
                    records,
                )
            )
    except RecordsError as error:
        found.append(str(error))
    return found


@dataclass(frozen=True, slots=True)
class Place:
    """Where two responses differ: the names of the fields down to it, and what each has there.

    around: the structures that it is a field of."""

    path: str
    kafka: Any
    ours: Any
    around: tuple[dict[str, Any], dict[str, Any]]

    def is_in(self, field: str) -> bool:
        return self.path.rpartition(".")[2] == field


def differences(kafkas: Any, ours: Any, path: str = "", around: Any = ({}, {})) -> Iterator[Place]:
    """Every place where two plain responses differ."""
    if isinstance(kafkas, dict) and isinstance(ours, dict):
        for name in sorted(kafkas.keys() | ours.keys()):
            at = f"{path}.{name}" if path else name
            yield from differences(kafkas.get(name), ours.get(name), at, (kafkas, ours))
    elif isinstance(kafkas, list) and isinstance(ours, list) and len(kafkas) == len(ours):
        for theirs, own in zip(kafkas, ours, strict=True):
            yield from differences(theirs, own, path, around)
    elif kafkas != ours:
        yield Place(path, kafkas, ours, around)


def learn(
    operation: Operation, responses: tuple[Message, Message], identities: Identities
) -> dict[str, Any]:
    """Learns the ids of a response: of the member, the producer or the session."""
    known: dict[str, Any] = {}
    kafkas, ours = responses
    if hasattr(kafkas, "unreadable") or hasattr(ours, "unreadable"):
        return known

    def both(kind: str, name: str) -> None:
        values = [vars(one).get(name) for one in responses]
        if all(value not in NOTHING[kind] for value in values):
            known[kind] = identities.learn(kind, *values)

    match operation.api:
        case ApiKey.CreateTopics if not getattr(operation.body, "validate_only", False):
            own = {one.name: getattr(one, "topic_id", b"") for one in ours.topics}
            for one in kafkas.topics:
                ids = bytes(getattr(one, "topic_id", b"")), bytes(own.get(one.name, b""))
                if all(any(id_) for id_ in ids):
                    identities.learn("topic", *ids)
        case ApiKey.JoinGroup:
            both("member", "member_id")
        case ApiKey.InitProducerId if not kafkas.error_code and not ours.error_code:
            both("producer", "producer_id")
        case ApiKey.Fetch:
            both("session", "session_id")
    return known
