"""Lists of names hide topics, groups and transactional ids, API by API and field by field.

Not here: which fields those are, and the cluster (named_fields.py), our own broker behind the lists
(test_session.py)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from downconvert.access.names import RULES
from downconvert.access.permissions import METADATA_BY_ID, Permission
from downconvert.gateway.advertised import Advertised
from downconvert.gateway.session.census import ClientCensus
from downconvert.gateway.session.exchanges import Forward, HangUp, Response
from downconvert.gateway.session.session import Session
from downconvert.gateway.session.shared import Shared
from downconvert.gateway.topology import Ports, Topology
from downconvert.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    write_assignment,
    write_subscription,
)
from downconvert.protocol.schemas import ApiKey, Message, schema
from tests.downconvert.broker.asking import parsed

from .named_fields import (
    ACCESS,
    ALLOWED,
    ALLOWED_ID,
    BROKER_TYPE,
    CONFIG,
    EVERYTHING,
    FORBIDDEN,
    FORBIDDEN_ID,
    HIDDEN,
    NAMES,
    OFFERED,
    TOPIC_TYPE,
    UNKNOWN_ID,
    Cluster,
    Place,
    filled,
    places,
    requested,
)


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
APIS: Final = sorted({place.api for place in PLACES})


@pytest.mark.parametrize("api", APIS)
def test_names_that_are_not_on_a_list_reach_no_cluster_and_get_an_error(api: ApiKey) -> None:
    for place in (one for one in PLACES if one.api is api):
        check_forbidden(place)


@pytest.mark.parametrize("api", APIS)
def test_names_that_are_on_a_list_reach_the_cluster(api: ApiKey) -> None:
    for place in (one for one in PLACES if one.api is api):
        check_allowed(place)


def check_forbidden(place: Place) -> None:
    cluster = Cluster()
    body = requested(place, FORBIDDEN, FORBIDDEN_ID)
    reply, response = cluster.ask(place.api, place.version, body)
    for asked in cluster.asked:
        assert FORBIDDEN.encode() not in asked
        if FORBIDDEN_ID in asked:  # looked up, and by what only reads
            assert int.from_bytes(asked[:2]) == ApiKey.Metadata
    assert isinstance(reply, Response)
    assert HIDDEN.encode() not in response
    if place.is_id:
        assert FORBIDDEN.encode() not in response
    silent = {ApiKey.DescribeLogDirs, ApiKey.Fetch} if "topics" not in place.path else set()
    silent |= {ApiKey.DescribeLogDirs}  # before version 3 its responses have no error
    is_passed_over = place.path[0] in ("cursor", "forgotten_topics_data") or place.api in silent
    assert any(codes(parsed(place.api, place.version, response))) or is_passed_over, place


def check_allowed(place: Place) -> None:
    cluster = Cluster()
    reply, response = cluster.ask(place.api, place.version, requested(place, ALLOWED, ALLOWED_ID))
    assert isinstance(reply, Response)
    assert HIDDEN.encode() not in response
    is_other = place.kind == BROKER_TYPE or (place.api is ApiKey.FindCoordinator and place.kind > 1)
    is_other = is_other or place.api is ApiKey.DescribeLogDirs
    has_no_ids = place.api is ApiKey.Metadata and place.is_id and place.version < METADATA_BY_ID
    if is_other or has_no_ids:  # the cluster, brokers' settings and share groups: no list has them
        assert cluster.asked == []
        return
    assert any(int.from_bytes(asked[:2]) == place.api for asked in cluster.asked)
    wanted = ALLOWED_ID if place.is_id else ALLOWED.encode()
    is_dropped = place.path[0] == "forgotten_topics_data"
    assert any(wanted in asked for asked in cluster.asked) or is_dropped, place


@pytest.mark.parametrize("api", OFFERED)
def test_requests_for_everything_show_allowed_names_only(api: ApiKey) -> None:
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
            _, response = Cluster().ask(ApiKey(api), version, body)
            assert HIDDEN.encode() not in response
            assert FORBIDDEN.encode() not in response


@pytest.mark.parametrize("key", [key for key in range(100) if key not in RULES])
def test_requests_that_are_not_understood_are_refused(key: int) -> None:
    request = key.to_bytes(2) + bytes.fromhex("0000 00000007 ffff")
    shared = Shared(CONFIG, Topology(CONFIG.bootstrap, Ports(20_000, {})), ClientCensus())
    steps = Session(shared, "10.0.0.7", Advertised("g")).exchange(
        memoryview(request), len(request), 0.0
    )
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(EVERYTHING)
    assert isinstance(end.value.value, HangUp)


def test_the_allowed_part_of_a_request_is_kept() -> None:
    topics = [
        Message(name=name, partitions=[Message(partition_index=3)]) for name in (FORBIDDEN, ALLOWED)
    ]
    body = Message(group_id=ALLOWED, topics=topics)
    permission = Permission(ACCESS, ApiKey.OffsetCommit, 2, body)
    assert permission.refusal is None
    assert [topic.name for topic in body.topics] == [ALLOWED]
    response = Message(topics=[Message(name=ALLOWED, partitions=[])])
    permission.complete(response)
    assert [topic.name for topic in response.topics] == [ALLOWED, FORBIDDEN]
    assert response.topics[1].partitions == [Message(partition_index=3, error_code=29)]


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
def test_metadata_of_members_is_shown_if_it_names_allowed_topics(
    topics: tuple[str, ...], user_data: bytes | None, is_shown: bool
) -> None:
    member = Message(
        member_metadata=write_subscription(Subscription(topics, user_data)),
        member_assignment=write_assignment(
            Assignment(frozenset((topic, 0) for topic in topics), user_data)
        ),
    )
    group = Message(group_id=ALLOWED, protocol_type="consumer", members=[member])
    response = Message(groups=[group])
    Permission(ACCESS, ApiKey.DescribeGroups, 5, Message(groups=[ALLOWED])).complete(response)
    assert bool(member.member_metadata) == bool(member.member_assignment) == is_shown


def test_without_lists_everything_passes() -> None:
    access = replace(ACCESS, topics=(), groups=(), transactional_ids=())
    assert not access.has_lists
    assert access.allows("a")
    assert access.allows_group("b")
    assert not isinstance(Cluster().ask(ApiKey.Heartbeat, 0, Message())[0], Forward)
