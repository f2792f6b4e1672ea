"""What lists of topics, groups and transactional ids keep from whom, API by API and field by field.

The fields are those of Kafka's own message definitions: none can be forgotten here. The cluster is
made of the definitions, too. It answers everything that it is asked with a name that nobody may
know of, in every field that has one.

Not here: our own broker behind the lists (test_session.py)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any, Final

import pytest
from kafka.protocol.schemas import load_json

from downconvert.broker.access.names import RULES
from downconvert.broker.access.permissions import METADATA_BY_ID, Permission
from downconvert.broker.access.rights import Access
from downconvert.broker.groups.consumer_protocol import (
    Assignment,
    Subscription,
    write_assignment,
    write_subscription,
)
from downconvert.broker.wire.encoder import encode
from downconvert.broker.wire.schemas import ApiKey, Field, Message, is_flexible, schema
from downconvert.gateway.advertised import Advertised
from downconvert.gateway.census import ClientCensus
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.exchanges import Answer, Ask, Forward, HangUp, Reply, Whole
from downconvert.gateway.producing import FIRST_WITH_V2
from downconvert.gateway.session import Session
from downconvert.gateway.shared import Shared
from downconvert.gateway.spool import Spool
from downconvert.gateway.topology import Address, Ports, Topology
from downconvert.gateway.versions import Versions
from tests.downconvert.broker.asking import CORRELATION_ID, frame, parsed

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
    """What a cluster says that has all APIs in all versions."""
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
    """The fields of which the definitions say, or their names tell, that lists are about them."""
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
            value = 1 if one.name == "acks" else value
        setattr(message, one.name, [value] if one.is_array else value)
    return message


def answer_of(api: ApiKey, version: int, body: Message) -> Message:
    """A cluster's answer: of Metadata what is asked for, of all else what nobody may know of."""
    fields = schema(f"{api.name}Response").fields
    answer = filled(fields, version, HIDDEN, HIDDEN_ID, TOPIC_TYPE)
    if api is ApiKey.Metadata:
        asked = (
            body.topics
            if body.topics is not None
            else [Message(name=one) for one in NAMES.values()]
        )
        ids = {name: topic_id for topic_id, name in NAMES.items()}
        answer.topics = [
            Message(name=name, topic_id=ids.get(name or "", bytes(16)))
            for one in asked
            for name in [one.name or NAMES.get(one.__dict__.get("topic_id", b""))]
        ]
    return answer


@dataclass
class Cluster:
    """What reaches it, and what becomes of a client's request."""

    asked: list[bytes] = field(default_factory=list)

    def ask(self, api: ApiKey, version: int, body: Message) -> tuple[Reply, bytes]:
        """What becomes of the request, and the bytes of the answer, if there is one."""
        ports = Ports(20_000, {})
        shared = Shared(CONFIG, Topology(CONFIG.bootstrap, ports), ClientCensus())
        request = frame(api, version, body)
        steps = Session(shared, "10.0.0.7", Advertised("gateway.test")).exchange(
            memoryview(request), len(request), 1_000.0
        )
        said: Any = None
        while True:
            try:
                asked = steps.send(said)
            except StopIteration as end:
                reply: Reply = end.value
                break
            if isinstance(asked, Ask):
                said = self._answer(asked)
            elif isinstance(asked, Whole):
                said = memoryview(request)
        channel = BytesIO()
        while isinstance(reply, Answer) and not reply.send.completed:
            reply.send.write_to(channel)
        return reply, channel.getvalue()

    def _answer(self, asked: Ask) -> Message:
        if asked.api is ApiKey.ApiVersions:
            return EVERYTHING
        assert asked.body is not None, "nothing goes on unread"
        self.asked.append(asked.frame(CORRELATION_ID, "gateway"))
        body = answer_of(asked.api, asked.version, asked.body)
        flexible = is_flexible(asked.api, asked.version)
        header = encode("ResponseHeader", int(flexible), Message(correlation_id=CORRELATION_ID))
        answer = header + encode(f"{asked.api.name}Response", asked.version, body)
        spool = Spool(len(answer))
        spool.write(memoryview(answer))
        return asked.answer(spool, CORRELATION_ID)


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


def codes(message: Any) -> Iterator[int]:
    """All error codes in a message."""
    match message:
        case Message():
            for name, value in message.__dict__.items():
                if name.endswith("error_code"):
                    yield value
                else:
                    yield from codes(value)
        case list():
            for one in message:
                yield from codes(one)


PLACES: Final = sorted(places(), key=str)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_what_is_not_on_a_list_reaches_no_cluster_and_is_answered_with_an_error(
    place: Place,
) -> None:
    cluster = Cluster()
    body = requested(place, FORBIDDEN, FORBIDDEN_ID)
    reply, answer = cluster.ask(place.api, place.version, body)
    for asked in cluster.asked:
        assert FORBIDDEN.encode() not in asked
        if FORBIDDEN_ID in asked:  # looked up, and by what only reads
            assert int.from_bytes(asked[:2]) == ApiKey.Metadata
    assert isinstance(reply, Answer)
    assert HIDDEN.encode() not in answer
    if place.is_id:
        assert FORBIDDEN.encode() not in answer
    silent = {ApiKey.DescribeLogDirs, ApiKey.Fetch} if "topics" not in place.path else set()
    silent |= {ApiKey.DescribeLogDirs}  # its answers have no place for an error of a topic
    if place.api is ApiKey.Metadata and place.is_id and place.version < METADATA_BY_ID:
        silent.add(place.api)  # no client asks so
    is_passed_over = place.path[0] in ("cursor", "forgotten_topics_data") or place.api in silent
    assert any(codes(parsed(place.api, place.version, answer))) or is_passed_over


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_what_is_on_a_list_reaches_the_cluster(place: Place) -> None:
    cluster = Cluster()
    reply, answer = cluster.ask(place.api, place.version, requested(place, ALLOWED, ALLOWED_ID))
    assert isinstance(reply, Answer)
    assert HIDDEN.encode() not in answer
    is_other = place.kind == BROKER_TYPE or (place.api is ApiKey.FindCoordinator and place.kind > 1)
    if is_other:  # brokers' settings and share groups: no list is about them
        assert cluster.asked == []
        return
    assert any(int.from_bytes(asked[:2]) == place.api for asked in cluster.asked)
    wanted = ALLOWED_ID if place.is_id else ALLOWED.encode()
    is_dropped = place.path[0] == "forgotten_topics_data"
    assert any(wanted in asked for asked in cluster.asked) or is_dropped


@pytest.mark.parametrize("api", OFFERED)
def test_what_nobody_named_is_not_told(api: ApiKey) -> None:
    """Requests that mean all that there is: empty lists, or none."""
    for version in OFFERED[api]:
        for is_null in (True, False):
            fields = schema(f"{ApiKey(api).name}Request").fields
            body = filled(fields, version, ALLOWED, bytes(16), TOPIC_TYPE)
            for one in fields:
                if one.is_array and version in one.versions:
                    setattr(body, one.name, None if is_null and version in one.nullable else [])
            for one in fields:
                if one.type == "struct" and not one.is_array and version in one.nullable:
                    setattr(body, one.name, None)
            body.__dict__.pop("session_id", None)
            _, answer = Cluster().ask(ApiKey(api), version, body)
            assert HIDDEN.encode() not in answer
            assert FORBIDDEN.encode() not in answer


@pytest.mark.parametrize("key", [key for key in range(100) if key not in RULES])
def test_what_is_not_understood_is_refused(key: int) -> None:
    request = key.to_bytes(2) + bytes.fromhex("0000 00000007 ffff")
    shared = Shared(CONFIG, Topology(CONFIG.bootstrap, Ports(20_000, {})), ClientCensus())
    steps = Session(shared, "10.0.0.7", Advertised("g")).exchange(
        memoryview(request), len(request), 0.0
    )
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(EVERYTHING)
    assert isinstance(end.value.value, HangUp)


def test_the_rest_of_a_request_still_works() -> None:
    topics = [
        Message(name=name, partitions=[Message(partition_index=3)]) for name in (FORBIDDEN, ALLOWED)
    ]
    body = Message(group_id=ALLOWED, topics=topics)
    permission = Permission(ACCESS, ApiKey.OffsetCommit, 2, body)
    assert permission.refusal is None
    assert [topic.name for topic in body.topics] == [ALLOWED]
    answer = Message(topics=[Message(name=ALLOWED, partitions=[])])
    permission.complete(answer)
    assert [topic.name for topic in answer.topics] == [ALLOWED, FORBIDDEN]
    assert answer.topics[1].partitions == [Message(partition_index=3, error_code=29)]


def test_partitions_join_a_transaction_together_or_not_at_all() -> None:
    topics = [Message(name=name, partitions=[0]) for name in (FORBIDDEN, ALLOWED)]
    body = Message(v3_and_below_transactional_id=ALLOWED, v3_and_below_topics=topics)
    refusal = Permission(ACCESS, ApiKey.AddPartitionsToTxn, 3, body).refusal
    assert refusal is not None
    found = {
        topic.name: topic.results_by_partition[0].partition_error_code
        for topic in refusal.results_by_topic_v3_and_below
    }
    assert found == {FORBIDDEN: 29, ALLOWED: 55}


@pytest.mark.parametrize(
    ("topic", "is_allowed"),
    [
        (Message(name=None, topic_id=ALLOWED_ID), True),
        (Message(name=None, topic_id=FORBIDDEN_ID), False),
        (Message(name=None, topic_id=UNKNOWN_ID), False),
        (Message(name=ALLOWED, topic_id=FORBIDDEN_ID), False),
        (Message(name=ALLOWED, topic_id=ALLOWED_ID), False),  # Kafka refuses this, too
        (Message(name=ALLOWED, topic_id=bytes(16)), True),
        (Message(name=FORBIDDEN, topic_id=bytes(16)), False),
    ],
)
def test_a_topic_is_deleted_by_an_id_only_if_its_name_is_allowed(
    topic: Message, is_allowed: bool
) -> None:
    known = [Message(name=name, topic_id=topic_id) for topic_id, name in NAMES.items()]
    body = Message(topics=[topic])
    permission = Permission(ACCESS, ApiKey.DeleteTopics, 6, body, known)
    assert (permission.refusal is None) == is_allowed


def test_pages_of_all_topics_go_on_behind_what_may_not_be_known() -> None:
    known = [Message(name=name) for name in ("ok-1", "ok-3", "no-1")]
    body = Message(topics=[], cursor=Message(topic_name="ok-2", partition_index=5))
    body.cursor.topic_name = "ok!"  # not on the list, and before ok-1
    permission = Permission(ACCESS, ApiKey.DescribeTopicPartitions, 0, body, known)
    assert permission.refusal is None
    assert [topic.name for topic in body.topics] == ["ok-1", "ok-3"]
    assert (body.cursor.topic_name, body.cursor.partition_index) == ("ok-1", 0)


@pytest.mark.parametrize(
    ("topics", "user_data", "is_shown"),
    [
        ((ALLOWED,), None, True),
        ((ALLOWED, HIDDEN), None, False),
        ((ALLOWED,), HIDDEN.encode(), False),
    ],
)
def test_what_members_of_a_group_said_is_shown_where_it_names_what_may_be_known(
    topics: tuple[str, ...], user_data: bytes | None, is_shown: bool
) -> None:
    member = Message(
        member_metadata=write_subscription(Subscription(topics, user_data)),
        member_assignment=write_assignment(
            Assignment(frozenset((topic, 0) for topic in topics), user_data)
        ),
    )
    group = Message(group_id=ALLOWED, protocol_type="consumer", members=[member])
    answer = Message(groups=[group])
    Permission(ACCESS, ApiKey.DescribeGroups, 5, Message(groups=[ALLOWED])).complete(answer)
    assert bool(member.member_metadata) == bool(member.member_assignment) == is_shown


def test_without_lists_everything_passes() -> None:
    access = replace(ACCESS, topics=(), groups=(), transactional_ids=())
    assert not access.has_lists
    assert access.allows("a")
    assert access.allows_group("b")
    assert access.allows_transactional_id("c")
    assert not isinstance(Cluster().ask(ApiKey.Heartbeat, 0, Message())[0], Forward)
