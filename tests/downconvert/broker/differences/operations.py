"""Requests of every API and version that both servers have, made from the definitions.

Each is of a seed and a number, and of what the responses before it have said.

Not here: what fields are given (values.py), what is around a request (envelope.py)."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from downconvert.protocol.schemas import ApiKey, Field, Message, schema

from .envelope import PLAIN, Envelope, envelope
from .values import Focus, Known

# How often each is asked, of those that are not asked once; what changes nothing is quick.
WEIGHTS: Final[dict[ApiKey, int]] = {
    ApiKey.Produce: 12,
    ApiKey.Fetch: 8,
    ApiKey.ListOffsets: 4,
    ApiKey.Metadata: 3,
    ApiKey.OffsetCommit: 4,
    ApiKey.OffsetFetch: 4,
    ApiKey.FindCoordinator: 1,
    ApiKey.JoinGroup: 4,
    ApiKey.SyncGroup: 4,
    ApiKey.Heartbeat: 2,
    ApiKey.LeaveGroup: 3,
    ApiKey.DescribeGroups: 3,
    ApiKey.ListGroups: 2,
    ApiKey.DeleteGroups: 1,
    ApiKey.OffsetDelete: 2,
    ApiKey.OffsetForLeaderEpoch: 2,
    ApiKey.CreateTopics: 4,
    ApiKey.DeleteTopics: 1,
    ApiKey.DeleteRecords: 2,
    ApiKey.InitProducerId: 4,
    ApiKey.AddPartitionsToTxn: 6,
    ApiKey.AddOffsetsToTxn: 2,
    ApiKey.EndTxn: 5,
    ApiKey.TxnOffsetCommit: 2,
    ApiKey.DescribeConfigs: 3,
    ApiKey.AlterConfigs: 2,
    ApiKey.IncrementalAlterConfigs: 6,
    ApiKey.CreatePartitions: 2,
    ApiKey.DescribeCluster: 1,
    ApiKey.DescribeLogDirs: 1,
    ApiKey.DescribeProducers: 2,
    ApiKey.DescribeTransactions: 2,
    ApiKey.ListTransactions: 1,
    ApiKey.DescribeAcls: 1,
    ApiKey.CreateAcls: 1,
    ApiKey.DeleteAcls: 1,
    ApiKey.ApiVersions: 1,
    ApiKey.SaslHandshake: 1,
    ApiKey.SaslAuthenticate: 1,
}
GROWING: Final = (ApiKey.DeleteTopics, ApiKey.CreatePartitions, ApiKey.CreateTopics)
SUBJECTS: Final = {"name", "topic", "topic_id", "group_id", "resource_name"}  # of an element
TWICE: Final = 0.1  # of the lists may name something twice
UNANSWERED: Final = ("protocols", "resources")  # twice: Kafka never answers (AlterConfigs)
NO_ACKS: Final = 0
# One replica has the records at once. To others, Kafka says 7, REQUEST_TIMED_OUT, by chance.
WAITING_FOR_NOBODY: Final = (ApiKey.Produce, ApiKey.DeleteRecords)
TIMEOUTS: Final = (10_000, 10_000, 0, -1, 2**31 - 1)
ALONE: Final = ("replica_state", "transactions")  # of brokers that are no clients


@dataclass(frozen=True, slots=True)
class Operation:
    """A request; which client of several sends it, and as which user (empty: any may do it)."""

    api: ApiKey
    version: int
    body: Message
    client: int
    envelope: Envelope = PLAIN
    user: str = ""

    @property
    def is_unanswered(self) -> bool:
        """Whether only the end of the connection says that something is wrong."""
        return self.api is ApiKey.Produce and self.body.acks == NO_ACKS

    def __str__(self) -> str:
        user = f" by {self.user}" if self.user else ""
        return f"{self.api.name} v{self.version}{user} {self.body}{self.envelope}"


def operation(random: Random, known: Known, versions: Mapping[ApiKey, range]) -> Operation:
    """The next one. `versions`: those that both servers have."""
    apis = [api for api in WEIGHTS if versions.get(api)]
    (api,) = random.choices(apis, [WEIGHTS[one] for one in apis])
    version = random.choice(versions[api])
    focus = Focus(random, known, spares_internal=api in GROWING)
    body = _message(schema(f"{api.name}Request").fields, version, focus)
    if api in WAITING_FOR_NOBODY:
        vars(body)["timeout_ms"] = random.choice(TIMEOUTS)
    client = random.randrange(3)
    return Operation(api, version, body, client, envelope(random, api, version))


def creation(topic: str, partitions: int) -> Operation:
    """A topic is made."""
    asked = Message(
        name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    body = Message(topics=[asked], timeout_ms=10_000, validate_only=False)
    return Operation(ApiKey.CreateTopics, 4, body, 0)


def _message(fields: tuple[Field, ...], version: int, focus: Focus) -> Message:
    names = {field.name for field in fields if version in field.versions}
    made = {
        field.name: _value(field, version, focus)
        for field in fields
        if version in field.versions and field.name not in ALONE
    }
    if {"config_operation", "value"} & names and "name" in names:
        made["name"], made["value"] = focus.config()
    if "metadata" in names and "name" in names:
        made["name"] = focus.value("protocol_name", "string")
    if "resource_name" in names and "resource_type" in names:
        # The settings of Kafka's own broker stay as they are.
        broker = "7" if "configs" in names else "0"
        others = {2: made.get("resource_name"), 4: broker}
        made["resource_name"] = others.get(made["resource_type"], "m")
    if {"topic_id", "name"} <= names and focus.random.random() < 0.5:
        made["name"] = None  # by its id
    elif {"topic_id", "name"} <= names and made["name"] is not None:
        made["topic_id"] = bytes(16)
    return Message(**made)


def _distinct(values: list[Any]) -> list[Any]:
    """Nothing twice: what Kafka makes of that is another for each request."""
    names = ("name", "topic", "partition", "partition_index", "index", "group_id", "resource_name")
    found: dict[Any, Any] = {}
    for value in values:
        fields = vars(value) if isinstance(value, Message) else {}
        named = tuple(fields[name] for name in names if fields.get(name) is not None)
        key = named or repr(fields.get("topic_id", value))
        found.setdefault(key, value)
    return list(found.values())


def _value(field: Field, version: int, focus: Focus) -> Any:
    random = focus.random
    # Kafka never answers a request for no group's offsets, nor one to write null.
    is_nullable = version in field.nullable and field.type != "records"
    if field.is_array:
        if is_nullable and random.random() < 0.1:
            return None
        if field.name in ("assignments", "configuration_keys") and random.random() < 0.8:
            return None if is_nullable else []
        # Mostly no topic is without partitions: that is nothing.
        has_parts = "partition" in field.name and random.random() < 0.95
        least = has_parts or field.name == "groups"
        count = max(int(least), random.choice((1, 1, 1, 0, 2, 3)))
        made = []
        for number in range(count):
            if number and SUBJECTS & {one.name for one in field.fields}:
                focus.turn()
            made.append(_element(field, version, focus))
        has_twice = field.name == "topic_names" or random.random() < TWICE
        has_twice = has_twice and field.name not in UNANSWERED
        return made if has_twice else _distinct(made)
    if is_nullable and field.name not in ("transactional_id",) and random.random() < 0.05:
        return None
    return _element(field, version, focus)


def _element(field: Field, version: int, focus: Focus) -> Any:
    if field.type == "struct":
        return _message(field.fields, version, focus)
    if field.type == "records":
        return focus.records(version)
    value = focus.value("topic" if field.name == "resource_name" else field.name, field.type)
    if value is not None or field.name in ("group_instance_id", "committed_metadata"):
        return value if version in field.nullable or value is not None else ""
    match field.type:
        case "string":
            return None if version in field.nullable else ""
        case "bool":
            return focus.random.random() < 0.3
        case "bytes":
            return b""
        case "uuid":
            return bytes(16)
        case _:
            return focus.random.choice((0, 0, 1, -1))
