"""A request's way into a broker: what is served, to whom, and how it is counted.

Not here: what happens after it was handled (test_broker_turns.py), what is answered (handlers/),
which requests are parsed once (protocol/test_known_requests.py), rights
(access/test_guard.py)."""

from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from downconvert.access.credentials import Proved
from downconvert.access.guard import Guard
from downconvert.access.identity import ClientRule, Identities
from downconvert.access.rights import Access
from downconvert.broker import BadRequestError, Broker, Client, ErrorCode, Exchange
from downconvert.broker.broker import LARGE_SIZE
from downconvert.broker.handlers.apis import APIS, Api
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ExpiredSessionError, FailedLoginError
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.storage.logs import batch

from .asking import ask, begin, frame, response_of, sent, someone
from .guarding import guard_of
from .writable import writable_broker

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
HEARTBEAT = Message(group_id="g", generation_id=1, member_id="m")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "events") as made:
        yield made


def handled_by(broker: Broker, api: ApiKey, handler: Any, versions: range | None = None) -> None:
    """Requests of this kind are handled so from now on."""
    before = broker.apis[api]
    broker.apis = {**broker.apis, api: Api(handler, versions or before.versions)}


def wait(_broker: BrokerState, _exchange: Exchange, _now: float) -> None:
    """Answers nothing yet."""


# --- clients


def test_a_client_has_the_name_of_its_last_request_and_the_number_of_all(broker: Broker) -> None:
    client = someone()
    for count, client_id in enumerate(("first", "second", None, "", "last"), 1):
        data = frame(ApiKey.Heartbeat, 0, HEARTBEAT, client_id)
        broker.handle(client, memoryview(data), 0.0)
        assert (client.client_id, client.requests) == (client_id or "", count)


def test_a_token_without_a_header_counts_as_a_request(broker: Broker) -> None:
    broker.guard = guard_of({"ann": "secret"})
    client = someone()
    ask(broker, ApiKey.SaslHandshake, 0, Message(mechanism="PLAIN"), client=client)
    broker.handle(client, memoryview(b"\0ann\0secret"), 0.0)
    assert (client.principal, client.requests) == ("User:ann", 2)


# --- what is served


@pytest.mark.parametrize("version", [0, 3, 100])
def test_versions_below_and_above_those_that_are_served_end_the_connection(
    broker: Broker, version: int
) -> None:
    handled_by(broker, ApiKey.Heartbeat, APIS[ApiKey.Heartbeat].handler, range(1, 3))
    for served in (1, 2):
        assert ask(broker, ApiKey.Heartbeat, served, HEARTBEAT).error_code
    header = int(ApiKey.Heartbeat).to_bytes(2) + version.to_bytes(2) + bytes(4) + b"\0\0"
    with pytest.raises(BadRequestError, match=f"Heartbeat v{version} is not"):
        broker.handle(someone(), memoryview(header + bytes(20)), 0.0)


def test_an_api_that_is_not_served_ends_the_connection(broker: Broker) -> None:
    broker.apis = {api: one for api, one in broker.apis.items() if api is not ApiKey.Heartbeat}
    assert ApiKey.Heartbeat not in broker.versions
    with pytest.raises(BadRequestError, match="Heartbeat is not served"):
        ask(broker, ApiKey.Heartbeat, 0, HEARTBEAT)


def test_the_versions_of_a_new_handler_are_offered(broker: Broker) -> None:
    handled_by(broker, ApiKey.Heartbeat, wait, range(2, 4))
    assert broker.versions[ApiKey.Heartbeat] == range(2, 4)
    found = ask(broker, ApiKey.ApiVersions, 0, Message())
    (one,) = [one for one in found.api_keys if one.api_key == ApiKey.Heartbeat]
    assert (one.min_version, one.max_version) == (2, 3)


def test_a_version_of_api_versions_from_the_future_is_answered_with_those_that_are_served(
    broker: Broker,
) -> None:
    """In version 0, and the connection goes on."""
    header = int(ApiKey.ApiVersions).to_bytes(2) + (99).to_bytes(2) + (7).to_bytes(4)
    exchange = broker.handle(someone(), memoryview(header + b"\xff\xff\0"), 0.0)
    found = response_of(exchange, version=0)
    assert found.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert not exchange.close_after_reply


# --- rights


@pytest.mark.parametrize("api", [ApiKey.Metadata, ApiKey.FindCoordinator])
def test_a_limited_client_takes_nothing_out_of_the_requests_of_others(
    broker: Broker, api: ApiKey
) -> None:
    """The same bytes are parsed once, and a part is removed for one of the clients."""
    topics = [Message(name="events"), Message(name="more")]
    body = Message(topics=topics, allow_auto_topic_creation=False, coordinator_keys=["a", "b"])
    version = {ApiKey.Metadata: 4, ApiKey.FindCoordinator: 4}[api]
    everything = sent(begin(broker, api, version, body))
    for options in ({"topics": ("events",)}, {"topics": ("events",), "is_read_only": True}):
        broker.guard = guard_of(None, Access(**options))
        assert sent(begin(broker, api, version, body)) != everything
        broker.guard = guard_of(None)
        assert sent(begin(broker, api, version, body)) == everything


@pytest.mark.parametrize(("version", "listed"), [(0, ["events", "more"]), (1, []), (4, [])])
def test_only_the_first_metadata_request_means_all_topics_by_an_empty_list(
    broker: Broker, version: int, listed: list[str]
) -> None:
    broker.topics.create("more", 1, {}, 0)
    for access in (Access(), Access(topics=("events", "more")), Access(is_read_only=True)):
        client = someone(access=access)
        found = ask(broker, ApiKey.Metadata, version, Message(topics=[]), client=client)
        assert sorted(one.name for one in found.topics) == listed


def test_a_write_that_is_refused_is_answered_if_it_waits_for_a_response(broker: Broker) -> None:
    client = someone(access=Access(topics=("other",)))
    for acks in (1, -1, 0):
        data = Message(index=0, records=batch(0))
        topics = [Message(name="events", partition_data=[data])]
        body = Message(acks=acks, timeout_ms=0, topic_data=topics)
        exchange = begin(broker, ApiKey.Produce, 9, body, client=client)
        assert exchange.is_done
        assert exchange.errors == {ErrorCode.TOPIC_AUTHORIZATION_FAILED: 1}
        assert (exchange.send is None, exchange.close_after_reply) == (acks == 0, acks == 0)


@pytest.mark.parametrize(
    ("replica_id", "code"), [(-2, 0), (-1, 0), (3, 0), (4, DENIED), (-3, DENIED)]
)
def test_a_client_fetches_only_as_the_brokers_that_it_may_be(
    broker: Broker, replica_id: int, code: int
) -> None:
    client = someone(access=Access(follower_ids=frozenset({3})))
    partition = Message(partition_index=0, timestamp=-1)
    topics = [Message(name="events", partitions=[partition])]
    body = Message(replica_id=replica_id, topics=topics)
    (topic,) = ask(broker, ApiKey.ListOffsets, 1, body, client=client).topics
    assert topic.partitions[0].error_code == code


def test_a_client_is_known_by_its_address_and_not_by_ours(broker: Broker) -> None:
    rules = [
        ClientRule(access=Access(topics=(name,)), credentials=None, networks=(ip_network(network),))
        for name, network in (("a", "10.0.0.6"), ("b", "10.0.0.7"))
    ]
    broker.guard = Guard(identities=Identities(rules=tuple(rules)))
    client, other = (someone("10.0.0.7", host="10.0.0.6") for _ in range(2))
    ask(broker, ApiKey.ApiVersions, 0, Message(), client=other)
    assert other.access is None
    ask(broker, ApiKey.Metadata, 1, Message(topics=[]), client=client)
    assert (client.access, client.rule) == (rules[1].access, 2)
    stranger = someone("10.0.0.8", host="10.0.0.7")
    with pytest.raises(FailedLoginError, match="Metadata before authentication"):
        ask(broker, ApiKey.Metadata, 1, Message(topics=[]), client=stranger)


@pytest.mark.parametrize("access", [Access(topics=("a",)), Access(is_read_only=True)])
def test_a_limited_client_may_always_ask_for_versions_and_log_in(
    broker: Broker, access: Access
) -> None:
    """It may do so again before its session ends."""
    broker.guard = guard_of({"ann": "secret"}, ann=access)
    client = someone()
    for _ in range(2):
        assert ask(broker, ApiKey.ApiVersions, 0, Message(), client=client).api_keys
        chosen = Message(mechanism="PLAIN")
        assert not ask(broker, ApiKey.SaslHandshake, 1, chosen, client=client).error_code
        token = Message(auth_bytes=b"\0ann\0secret")
        assert not ask(broker, ApiKey.SaslAuthenticate, 1, token, client=client).error_code
        assert client.access == access
        client.proved = Proved("ann", expires_at=1e12)


def test_a_client_whose_session_is_over_may_only_log_in(broker: Broker) -> None:
    """By the time of day, and not by the clock of deadlines."""
    broker.guard = guard_of({"ann": "secret"})
    broker.time_of_day.shift = 900.0
    client = someone(access=Access(), proved=Proved("ann", expires_at=1000.0))
    others = (ApiKey.ApiVersions, ApiKey.Heartbeat, ApiKey.Metadata)
    for api in others:
        assert begin(broker, api, 0, HEARTBEAT, client=client, now=99.9).is_done
        with pytest.raises(ExpiredSessionError):
            begin(broker, api, 0, HEARTBEAT, client=client, now=100.0)
    chosen = Message(mechanism="PLAIN")
    found = ask(broker, ApiKey.SaslHandshake, 1, chosen, client=client, now=100.0)
    assert not found.error_code


def test_a_topic_of_an_old_broker_is_deleted_by_the_id_that_its_name_gives_it(
    tmp_path: Path,
) -> None:
    """By clients that may write to topics of this name, and no others."""
    (tmp_path / "old-0").mkdir()
    with writable_broker(tmp_path) as broker:
        assert not broker.topics["old"].has_id
        topics = [Message(name=None, topic_id=broker.topics["old"].id)]
        body = Message(topics=topics, timeout_ms=0)
        for pattern, code in (("new", ErrorCode.UNKNOWN_TOPIC_ID), ("old", ErrorCode.NONE)):
            client = someone(access=Access(topics=(pattern,)))
            (found,) = ask(broker, ApiKey.DeleteTopics, 6, body, client=client).responses
            assert found.error_code == code
        assert list(broker.topics) == []


# --- quotas


def throttles(broker: Broker, api: ApiKey, client: Client, *, now: float = 0.0) -> float:
    """The seconds in which the client is not read from after this request."""
    data = [Message(index=0, records=batch(0, size=5000))]
    partition = Message(partition=0, fetch_offset=0, partition_max_bytes=10_000)
    one = Message(name="events", topic="events", partition_data=data, partitions=[partition])
    body = Message(
        acks=1, replica_id=-1, max_bytes=10_000, topic_data=[one], topics=[one], timeout_ms=0
    )
    return begin(broker, api, 4, body, client=client, now=now).throttle


def test_a_produce_counts_by_its_request_and_a_fetch_by_its_response(broker: Broker) -> None:
    """Each towards a rate of its own."""
    rates = Access(producer_byte_rate=1000, consumer_byte_rate=500)
    client = someone(access=rates)
    assert throttles(broker, ApiKey.Produce, client) == pytest.approx(4.1, abs=0.1)
    assert throttles(broker, ApiKey.Fetch, client) == pytest.approx(9.3, abs=0.2)
    only_producers = someone("b", access=Access(producer_byte_rate=1000))
    assert throttles(broker, ApiKey.Fetch, only_producers) == 0
    only_consumers = someone("c", access=Access(consumer_byte_rate=1000))
    assert throttles(broker, ApiKey.Produce, only_consumers) == 0
    assert throttles(broker, ApiKey.Fetch, only_consumers) > 0


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ({"principal": "User:ann"}, {"principal": "User:ann", "address": "b"}, True),
        ({"principal": "User:ann"}, {"principal": "User:bob"}, False),
        ({"principal": "User:ann", "certificate": "x"}, {"principal": "User:ann"}, True),
        ({"principal": "User:ann", "certificate": "x"}, {"certificate": "x"}, False),
        ({"certificate": "x"}, {"certificate": "x", "address": "b"}, True),
        ({"certificate": "x"}, {"certificate": "y"}, False),
        ({}, {}, True),
        ({}, {"address": "b"}, False),
    ],
)
def test_a_rate_is_a_users_or_else_a_certificates_or_else_an_addresss(
    broker: Broker, first: dict[str, str], second: dict[str, str], is_same: bool
) -> None:
    rates = Access(producer_byte_rate=10_000)
    one, other = (someone(**{"address": "a"} | who, access=rates) for who in (first, second))
    throttles(broker, ApiKey.Produce, one)
    throttles(broker, ApiKey.Produce, one)
    before = throttles(broker, ApiKey.Produce, other)
    assert (before > 0) is is_same


# --- converting threads


def test_produces_of_old_formats_are_converted_and_nothing_else_is(broker: Broker) -> None:
    def converts(api: ApiKey, version: int) -> bool:
        return broker.takes_long(memoryview(frame(api, version, Message())))

    assert [converts(ApiKey.Produce, version) for version in range(6)] == [True] * 3 + [False] * 3
    assert not any(converts(ApiKey.Fetch, version) for version in range(6))
    data = frame(ApiKey.Produce, 0, Message())
    assert [broker.takes_long(memoryview(data[:size])) for size in range(5)] == [False] * 4 + [True]
    for version in (-1, -(2**15)):
        negative = bytes(2) + version.to_bytes(2, signed=True)
        assert not broker.takes_long(memoryview(negative))


def test_a_large_request_of_any_other_kind_takes_long(broker: Broker) -> None:
    for api in (ApiKey.Fetch, ApiKey.Metadata, ApiKey.SyncGroup):
        start = frame(api, 0, Message())
        sizes = [len(start), LARGE_SIZE, LARGE_SIZE + 1]
        found = [broker.takes_long(memoryview(start.ljust(size, b"x"))) for size in sizes]
        assert found == [False, False, True]
    produce = frame(ApiKey.Produce, 3, Message()).ljust(2 * LARGE_SIZE, b"x")
    assert not broker.takes_long(memoryview(produce))


def test_a_broker_that_only_reads_converts_no_produce(tmp_path: Path) -> None:
    (tmp_path / "events-0").mkdir()
    with LogDir.open(tmp_path) as log_dir:
        broker = Broker(log_dir)
        assert not broker.takes_long(memoryview(frame(ApiKey.Produce, 0, Message())))


def test_a_produce_that_is_no_request_is_left_to_its_handling(broker: Broker) -> None:
    """The same holds for new versions if the topic's codec may require a conversion."""
    broker.topics.create("packed", 1, {"compression.type": "gzip"}, 0)
    data = [Message(index=0, records=batch(0))]
    topics = [Message(name="packed", partition_data=data)]
    good = frame(ApiKey.Produce, 9, Message(acks=1, timeout_ms=0, topic_data=topics))
    assert broker.takes_long(memoryview(good))
    for size in range(4, len(good)):
        assert not broker.takes_long(memoryview(good)[:size])
    of_the_future = good[:2] + (50).to_bytes(2) + good[4:]
    assert not broker.takes_long(memoryview(of_the_future))
