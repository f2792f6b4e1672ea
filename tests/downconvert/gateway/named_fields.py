"""Each field of a request that names something a list is about, and a cluster that hides names.

The fields are those of Kafka's own message definitions: none can be forgotten here. The cluster is
made of the definitions, too. It answers everything that it is asked with a name that nobody may
know of, in every field that has one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final

from kafka.protocol.schemas import load_json

from downconvert.access.rights import Access
from downconvert.gateway.advertised import Advertised
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.session.census import ClientCensus
from downconvert.gateway.session.exchanges import Ask, Reply, Response, Whole
from downconvert.gateway.session.producing import FIRST_WITH_V2
from downconvert.gateway.session.session import Session
from downconvert.gateway.session.shared import Shared
from downconvert.gateway.session.spool import Spool
from downconvert.gateway.session.versions import Versions
from downconvert.gateway.topology import Address, Ports, Topology
from downconvert.protocol.encoder import encode
from downconvert.protocol.schemas import ApiKey, Field, Message, is_flexible, schema
from tests.downconvert.broker.asking import CORRELATION_ID, frame

from .talk import message_set

ALLOWED, FORBIDDEN, HIDDEN = "ok-1", "no-1", "no-2"
ALLOWED_ID, FORBIDDEN_ID, HIDDEN_ID, UNKNOWN_ID = (bytes([n]) * 16 for n in (65, 66, 67, 68))
NAMES: Final = {ALLOWED_ID: ALLOWED, FORBIDDEN_ID: FORBIDDEN, HIDDEN_ID: HIDDEN}
ACCESS: Final = Access(topics=("ok-*",), groups=("ok-*",), transactional_ids=("ok-*",))
CONFIG: Final = GatewayConfig(bootstrap=(Address("cluster.test", 9092),), access=ACCESS)

NAMED: Final = re.compile("topic|group|transactional|resourcename|^key$|coordinatorkeys", re.I)
NO_NAMES: Final = {"GroupInstanceId", "GroupState", "GroupType"}  # of members, and of states
TOPIC_TYPE, GROUP_TYPE, BROKER_TYPE = 2, 32, 4  # of resources


@dataclass(frozen=True)
class Place:
    """A field of a request that has a name, or a topic's id."""

    api: ApiKey
    version: int
    path: tuple[str, ...]
    is_id: bool
    kind: int = 0  # of a coordinator, or of a resource

    def __str__(self) -> str:
        return f"{self.api.name}-v{self.version}-{'.'.join(self.path)}-{self.kind}"


def everything() -> Message:
    """The ApiVersions response of a cluster that has all APIs in all versions."""
    keys = [
        Message(
            api_key=key,
            min_version=0,
            max_version=schema(f"{ApiKey(key).name}Request").newest if key in [*ApiKey] else 9,
        )
        for key in range(100)
    ]
    return Message(error_code=0, api_keys=keys)


EVERYTHING: Final = everything()
OFFERED: Final = Versions.of(
    EVERYTHING, is_read_only=False, has_lists=True, hides_sasl=False
).offered


def entities(fields: tuple[Field, ...], definitions: Any) -> Iterator[Field]:
    """The fields that lists are about, by their definitions or their names."""
    for one, definition in zip(fields, definitions, strict=True):
        name, is_text = definition["name"], one.type in ("string", "uuid")
        is_told = definition.get("entityType") in ("topicName", "groupId", "transactionalId")
        if is_text and name not in NO_NAMES and (is_told or NAMED.search(name)):
            yield one
        yield from entities(one.fields, definition.get("fields", ()))


ENTITIES: Final = {
    field
    for api in ApiKey
    for name in (f"{api.name}Request", f"{api.name}Response")
    for field in entities(schema(name).fields, load_json(name).get("fields", ()))
}


def is_named(field: Field) -> bool:
    """Whether a field holds a name of something that lists are about."""
    return field in ENTITIES


def named(fields: tuple[Field, ...], version: int) -> Iterator[tuple[tuple[str, ...], Field]]:
    for one in fields:
        if version in one.versions:
            if is_named(one):
                yield (one.name,), one
            for path, inner in named(one.fields, version):
                yield (one.name, *path), inner


def places() -> Iterator[Place]:
    for key, versions in OFFERED.items():
        api = ApiKey(key)
        kinds = {ApiKey.FindCoordinator: (0, 1, 2)}.get(api, (0,))
        if "resources" in {one.name for one in schema(f"{api.name}Request").fields}:
            kinds = (TOPIC_TYPE, GROUP_TYPE, BROKER_TYPE)
        for version in versions:
            for path, one in named(schema(f"{api.name}Request").fields, version):
                for kind in kinds if version or api is not ApiKey.FindCoordinator else (0,):
                    yield Place(api, version, path, one.type == "uuid", kind)


def filled(
    fields: tuple[Field, ...],
    version: int,
    name: str,
    topic_id: bytes,
    kind: int,
    at: tuple[str, ...] = (),
    there: Any = None,
) -> Message:
    """A message with something in each of its fields, and `there` at one place."""
    message = Message()
    for one in fields:
        if version not in one.versions:
            continue
        inner = at[1:] if at[:1] == (one.name,) else ()
        value: Any
        if at == (one.name,):
            value = there
        elif one.fields:
            value = filled(one.fields, version, name, topic_id, kind, inner, there)
        elif is_named(one):
            # By a name, not by an id, unless that is what is asked for.
            value = topic_id if one.type == "uuid" else name
            if at[-1:] == ("topic_id",) and one.name == "name":
                value = None
        else:
            value = {"string": "x", "bytes": b"", "records": b"", "uuid": bytes(16)}.get(
                one.type, 0
            )
            value = kind if one.name in ("key_type", "resource_type") else value
            value = {"acks": 1, "replica_id": -1}.get(one.name, value)
        setattr(message, one.name, [value] if one.is_array else value)
    return message


def response_of(api: ApiKey, version: int, body: Message) -> Message:
    """A cluster's response: of Metadata what is asked for, of all else what nobody may know of."""
    fields = schema(f"{api.name}Response").fields
    response = filled(fields, version, HIDDEN, HIDDEN_ID, TOPIC_TYPE)
    if api is ApiKey.Metadata:
        asked = (
            body.topics
            if body.topics is not None
            else [Message(name=one) for one in NAMES.values()]
        )
        ids = {name: topic_id for topic_id, name in NAMES.items()}
        response.topics = [
            Message(name=name, topic_id=ids.get(name or "", bytes(16)))
            for one in asked
            for name in [one.name or NAMES.get(one.__dict__.get("topic_id", b""))]
        ]
    return response


@dataclass
class Cluster:
    """The requests that reach it, and the fate of a client's request."""

    asked: list[bytes] = field(default_factory=list)

    def ask(self, api: ApiKey, version: int, body: Message) -> tuple[Reply, bytes]:
        """The fate of the request, and the bytes of its response, if there is one."""
        ports = Ports(20_000, {})
        shared = Shared(CONFIG, Topology(CONFIG.bootstrap, ports), ClientCensus())
        request = frame(api, version, body)
        steps = Session(shared, "10.0.0.7", Advertised("gateway.test")).exchange(
            memoryview(request), len(request), 1_000.0
        )
        result: Any = None
        while True:
            try:
                asked = steps.send(result)
            except StopIteration as end:
                reply: Reply = end.value
                break
            if isinstance(asked, Ask):
                result = self._answer(asked)
            elif isinstance(asked, Whole):
                result = memoryview(request)
        channel = BytesIO()
        while isinstance(reply, Response) and not reply.send.completed:
            reply.send.write_to(channel)
        return reply, channel.getvalue()

    def _answer(self, asked: Ask) -> Message:
        if asked.api is ApiKey.ApiVersions:
            return EVERYTHING
        assert asked.body is not None, "nothing goes on unread"
        self.asked.append(asked.frame(CORRELATION_ID, "gateway"))
        body = response_of(asked.api, asked.version, asked.body)
        flexible = is_flexible(asked.api, asked.version)
        header = encode("ResponseHeader", int(flexible), Message(correlation_id=CORRELATION_ID))
        response = header + encode(f"{asked.api.name}Response", asked.version, body)
        spool = Spool(len(response))
        spool.write(memoryview(response))
        return asked.response(spool, CORRELATION_ID)


def requested(place: Place, name: str, topic_id: bytes) -> Message:
    """A request that names this at the place, and what is allowed everywhere else."""
    fields = schema(f"{place.api.name}Request").fields
    there = topic_id if place.is_id else name
    body = filled(fields, place.version, ALLOWED, bytes(16), place.kind, place.path, there)
    if place.api is ApiKey.DescribeTopicPartitions and "cursor" not in place.path:
        body.cursor = None
    if place.api is ApiKey.Produce and place.version < FIRST_WITH_V2:
        records = message_set(int(place.version == 2), b"a")
        body.topic_data[0].partition_data[0].records = records
    if place.api is ApiKey.Fetch:
        body.session_id = 0
    return body
