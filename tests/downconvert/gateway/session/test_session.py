import logging
from dataclasses import replace

import pytest

from downconvert.access.rights import Access
from downconvert.broker import Broker, ErrorCode
from downconvert.gateway.advertised import Advertised
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.security import ClusterSecurity, Credentials
from downconvert.gateway.session.client_identity import FETCH, PRODUCE
from downconvert.gateway.session.exchanges import ASK_API_VERSIONS, Ask, Forward, HangUp, Response
from downconvert.gateway.session.session import Session
from downconvert.gateway.topology import Address
from downconvert.protocol.encoder import encode
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.series import NAME_MAX
from records import Codec
from tests.downconvert.broker.asking import frame, parsed
from tests.downconvert.gateway.cluster import FIRST_PORT, FLOORS, HOST, Through
from tests.downconvert.gateway.talk import (
    fetch,
    fetch_body,
    message_set,
    produce,
    produce_body,
    values_of,
)
from tests.downconvert.storage.logs import batch

CONFIG = GatewayConfig(bootstrap=(Address("cluster", 9092),))


def limited(broker: Broker, **access: object) -> Through:
    return Through(broker, replace(CONFIG, access=Access(**access)))  # type: ignore[arg-type]


def test_a_client_that_asks_for_versions_gets_all_that_are_translated(through: Through) -> None:
    response = through.ask(ApiKey.ApiVersions, 0, Message())
    offered = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    assert {offered[api][0] for api in FLOORS} == {0}
    assert offered[ApiKey.Fetch] == (0, 15)


def test_a_version_of_asking_that_is_not_known_is_answered_in_the_first(through: Through) -> None:
    reply = through.reply(bytes.fromhex("0012 0063 00000007 ffff 00"))
    assert isinstance(reply, Response)
    sent = bytearray()
    while not reply.send.completed:
        reply.send.write_to(_Taker(sent))
    assert sent[8:10] == (35).to_bytes(2)


class _Taker:
    def __init__(self, taken: bytearray) -> None:
        self.taken = taken

    def write(self, data: memoryview) -> int:
        self.taken += data
        return len(data)


def test_the_software_that_a_client_names_is_seen(through: Through) -> None:
    body = Message(client_software_name="librdkafka", client_software_version="2.0")
    through.ask(ApiKey.ApiVersions, 3, body)
    through.ask(ApiKey.Metadata, 9, Message(topics=[]))
    assert {
        row["software"] for row in through.shared.census.rows() if row["api"] == "Metadata"
    } == {"librdkafka 2.0"}


@pytest.mark.parametrize("version", range(14))
def test_brokers_are_where_the_gateway_says(through: Through, version: int) -> None:
    response = through.ask(ApiKey.Metadata, version, Message(topics=None if version else []))
    assert [(one.host, one.port) for one in response.brokers] == [(HOST, FIRST_PORT)]
    assert [topic.name for topic in response.topics] == ["t"]
    assert through.shared.topology.nodes == {0: Address("cluster.test", 9092)}


@pytest.mark.parametrize("version", range(7))
def test_coordinators_are_where_the_gateway_says(through: Through, version: int) -> None:
    body = Message(key="g", key_type=0, coordinator_keys=["g"])
    response = through.ask(ApiKey.FindCoordinator, version, body)
    found = response.coordinators[0] if version >= 4 else response
    assert (found.host, found.port) == (HOST, FIRST_PORT)


@pytest.mark.parametrize(
    ("api", "version", "body"),
    [
        (ApiKey.Fetch, 10, Message(topics=[])),
        (ApiKey.Fetch, 15, Message(topics=[])),
        (ApiKey.ListOffsets, 1, Message(topics=[])),
        (ApiKey.OffsetCommit, 2, Message(topics=[])),
        (ApiKey.Produce, 3, Message(acks=1, topic_data=[])),
        (ApiKey.Heartbeat, 0, Message()),
    ],
)
def test_requests_that_the_cluster_understands_are_forwarded_unchanged(
    through: Through, api: ApiKey, version: int, body: Message
) -> None:
    assert through.passes(frame(api, version, body))


@pytest.mark.parametrize("version", [3, 9, 11])
def test_nobody_waits_for_the_response_to_a_produce_that_has_none(
    through: Through, version: int
) -> None:
    body = Message(acks=0, topic_data=[])
    assert through.passes(frame(ApiKey.Produce, version, body), expects_response=False)


def test_an_api_that_is_not_offered_ends_the_connection(through: Through) -> None:
    reply = through.reply(bytes.fromhex("7fff 0000 00000007 ffff"))
    assert reply == HangUp("API 32767 v0 is not served here")


def test_an_observing_gateway_forwards_everything(broker: Broker) -> None:
    through = Through(broker, replace(CONFIG, is_observing=True))
    assert through.passes(frame(ApiKey.Fetch, 0, Message(topics=[])))
    silent = frame(ApiKey.Produce, 0, produce_body(b"", acks=0))
    assert through.passes(silent, expects_response=False)
    (old, _) = through.shared.census.rows()
    assert (old["api"], old["translated"]) == ("Fetch", 1)


def test_a_read_only_client_gets_an_error_for_a_produce(broker: Broker) -> None:
    through = limited(broker, is_read_only=True)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert produce(through, 1, message_set(0, b"a")).error_code == denied
    assert produce(through, 9, message_set(2, b"a")).error_code == denied
    assert fetch(through, 1, 0)[0].error_code == ErrorCode.NONE
    topics = Message(topics=[])
    assert isinstance(through.reply(frame(ApiKey.CreateTopics, 2, topics)), HangUp)


def test_topics_that_are_not_on_the_list_are_neither_shown_nor_served(broker: Broker) -> None:
    through = limited(broker, topics=("other-*",))
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert through.ask(ApiKey.Metadata, 1, Message(topics=None)).topics == []
    for version in (1, 12):
        assert fetch(through, version, 0)[0].error_code == denied
    assert produce(through, 3, message_set(2, b"a")).error_code == denied
    part = Message(partition_index=0, timestamp=-1)
    body = Message(replica_id=-1, topics=[Message(name="t", partitions=[part])])
    response = through.ask(ApiKey.ListOffsets, 1, body)
    assert response.topics[0].partitions[0].error_code == denied


def test_topics_that_are_not_on_the_list_are_neither_deleted_nor_changed(
    broker: Broker,
) -> None:
    through = limited(broker, topics=("other-*",))
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for version in (0, 1, 5):
        body = Message(topic_names=["t"], timeout_ms=1000)
        assert through.ask(ApiKey.DeleteTopics, version, body).responses[0].error_code == denied
    config = Message(name="max.message.bytes", config_operation=0, value="7")
    resource = Message(resource_type=2, resource_name="t", configs=[config])
    body = Message(resources=[resource], validate_only=False)
    for api in (ApiKey.AlterConfigs, ApiKey.IncrementalAlterConfigs):
        assert through.ask(api, 0, body).responses[0].error_code == denied
    assert broker.topics.partition("t", 0) is not None
    body = Message(resources=[Message(resource_type=2, resource_name="t", configuration_keys=None)])
    (result,) = Through(broker, CONFIG).ask(ApiKey.DescribeConfigs, 1, body).results
    assert "7" not in {one.value for one in result.configs}


def test_topics_of_the_list_are_served_beside_those_that_are_not(broker: Broker) -> None:
    through = limited(broker, topics=("t",))
    assert produce(through, 9, message_set(2, b"a")).error_code == ErrorCode.NONE
    for version in (1, 4, 11, 12):
        body = fetch_body(0)
        body.topics.append(Message(topic="hidden", partitions=body.topics[0].partitions))
        response = through.ask(ApiKey.Fetch, version, body)
        found = {topic.topic: topic.partitions[0] for topic in response.responses}
        assert values_of(found["t"]) == [b"a"]
        assert found["hidden"].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_fetch_cannot_continue_a_session_of_another_client(broker: Broker) -> None:
    through = limited(broker, topics=("t",))
    body = fetch_body(0)
    body.session_id, body.session_epoch = 0, 0
    assert through.ask(ApiKey.Fetch, 12, body).session_id == 0
    body.session_id, body.session_epoch = 4711, 1
    lost = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert through.ask(ApiKey.Fetch, 12, body).error_code == lost


@pytest.mark.parametrize("version", range(14))
def test_a_read_only_client_creates_no_topic_by_asking_for_it(broker: Broker, version: int) -> None:
    through = limited(broker, is_read_only=True)
    through.ask(ApiKey.Metadata, version, Message(topics=[Message(name="new")]))
    asked = [one.body for one in through.asked if one.api is ApiKey.Metadata]
    assert [one.allow_auto_topic_creation for one in asked if one is not None] == [False]


def test_where_the_gateway_authenticates_itself_clients_cannot(broker: Broker) -> None:
    security = ClusterSecurity(credentials=Credentials(mechanism="PLAIN"))
    through = Through(broker, replace(CONFIG, security=security))
    assert isinstance(
        through.reply(frame(ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"))), HangUp
    )


def test_an_error_in_the_clusters_api_versions_is_an_error_of_the_request(broker: Broker) -> None:
    def tamper(_ask: Ask, response: bytes) -> bytes:
        error = (42).to_bytes(2)
        return response[:8] + error + response[10:]

    with pytest.raises(BadRequestError, match="error 42"):
        Through(broker, tamper=tamper).ask(ApiKey.Metadata, 0, Message(topics=[]))


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_a_request_that_is_cut_off_is_refused(through: Through, cut: int) -> None:
    whole = frame(ApiKey.Fetch, 0, Message(topics=[Message(topic="t" * 60, partitions=[])]))
    with pytest.raises(BadRequestError):
        through.reply(whole[: len(whole) - 1 - cut])


def test_topics_may_be_read_and_others_written(broker: Broker) -> None:
    through = limited(broker, topics=("t", "u"), written_topics=("u",))
    assert produce(through, 0, message_set(0, b"a")).error_code == 29
    assert fetch(through, 0, 0)[0].error_code == 0
    topics = [
        Message(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for name in ("u", "v")
    ]
    response = through.ask(ApiKey.CreateTopics, 0, Message(topics=topics, timeout_ms=1))
    assert {one.name: one.error_code for one in response.topics} == {"u": 0, "v": 29}


def test_a_cluster_that_tells_no_names_of_topics_gets_no_request_by_their_ids(
    broker: Broker,
) -> None:
    broker.apis = {key: api for key, api in broker.apis.items() if key is not ApiKey.Metadata}
    through = limited(broker, topics=("t",))
    body = Message(topics=[Message(name=None, topic_id=bytes(range(16)))], timeout_ms=1)
    response = through.ask(ApiKey.DeleteTopics, 6, body)
    assert [one.error_code for one in response.responses] == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert ApiKey.DeleteTopics not in {asked.api for asked in through.asked}


@pytest.mark.parametrize("version", [1, 3, 9])
def test_a_partly_denied_produce_without_a_response_ends_the_connection(
    broker: Broker, version: int
) -> None:
    """The allowed part is sent to the cluster before."""
    through = limited(broker, topics=("t",))
    body = produce_body(message_set(2 if version >= 3 else 0, b"a"), acks=0)
    request = frame(ApiKey.Produce, version, body)
    assert not isinstance(through.reply(request), HangUp)
    hidden = Message(name="hidden", partition_data=body.topic_data[0].partition_data)
    body.topic_data.insert(0, hidden)
    through.asked.clear()
    assert isinstance(through.reply(frame(ApiKey.Produce, version, body)), HangUp)
    (asked,) = [one for one in through.asked if one.api is ApiKey.Produce]
    assert [one.name for one in asked.body.topic_data] == ["t"]


def test_clients_without_a_name_share_a_rate_per_address_and_those_with_one_per_name(
    broker: Broker,
) -> None:
    """Rates are 1,000 bytes a second; what is sent beyond has to be waited for."""
    through = limited(broker, producer_byte_rate=1000, consumer_byte_rate=1000)

    def seconds(name: str, address: str, size: int, *, fetches: bool = True) -> float:
        through.session = Session(through.shared, address, Advertised(HOST))
        through.session.identity.identified = replace(CONFIG.default, name=name, access=access)
        if fetches:
            fetch(through, 1, 0)
            return through.session.identity.charge(FETCH, 1, size, 0.0, through.now)
        produce(through, 1, message_set(0, b"a"))
        return through.session.identity.charge(PRODUCE, size, 1, 0.0, through.now)

    access = through.config.access
    assert seconds("", "10.0.0.1", 20_000) > 10
    assert seconds("", "10.0.0.1", 1) > 10
    assert seconds("", "10.0.0.2", 1) == 0
    assert seconds("", "10.0.0.1", 1, fetches=False) == 0
    assert seconds("ann", "10.0.0.1", 1) == 0
    assert seconds("ann", "10.0.0.3", 20_000) > 10
    assert seconds("ann", "10.0.0.4", 1) > 10
    assert seconds("bob", "10.0.0.3", 1) == 0
    assert seconds("", "10.0.0.3", 1) == 0


def test_a_change_whose_fields_are_unknown_is_in_the_audit_each_time(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    def with_reassignments(asked: Ask, response: bytes) -> bytes:
        if asked is not ASK_API_VERSIONS:
            return response
        body = parsed(ApiKey.ApiVersions, asked.version, response)
        body.api_keys.append(Message(api_key=45, min_version=0, max_version=1))
        return response[:8] + encode("ApiVersionsResponse", asked.version, body)

    through = Through(broker, tamper=with_reassignments)
    start = (45).to_bytes(2) + (1).to_bytes(2) + bytes(4) + (4).to_bytes(2) + b"test"
    request = start + bytes.fromhex("00 00000000 01 02 02 74 01 00 00")  # of a topic `t`
    assert through.passes(request)
    assert not caplog.records
    caplog.set_level(logging.INFO, "downconvert.audit")
    through = Through(broker, tamper=with_reassignments)
    for _ in range(2):
        assert through.passes(request)
    lines = [one.getMessage() for one in caplog.records]
    assert lines == ["client 10.0.0.7: AlterPartitionReassignments: topic t"] * 2
    assert not through.session.passed


@pytest.mark.parametrize(
    ("rates", "count"),
    [({}, 1), ({"consumer_byte_rate": 9e6}, 0), ({"request_percentage": 50.0}, 0)],
    ids=["no rate", "bytes", "time"],
)
def test_a_kind_of_request_is_remembered_only_where_no_rate_may_delay_its_response(
    broker: Broker, rates: dict[str, float], count: int
) -> None:
    through = limited(broker, **rates)
    assert isinstance(through.reply(frame(ApiKey.Fetch, 12, fetch_body(0))), Forward)
    assert len(through.session.passed) == count


@pytest.mark.parametrize("rate", ["producer_byte_rate", "request_percentage"])
def test_a_produce_is_answered_here_where_its_response_may_say_how_long_to_wait(
    broker: Broker, rate: str
) -> None:
    request = frame(ApiKey.Produce, 9, produce_body(message_set(2, b"v")))
    assert isinstance(limited(broker, **{rate: 50.0}).reply(request), Response)
    assert isinstance(Through(broker).reply(request), Forward)


def test_a_produce_without_a_response_is_no_kind_to_remember(through: Through) -> None:
    silent = frame(ApiKey.Produce, 9, produce_body(message_set(2, b"v"), acks=0))
    assert through.passes(silent, expects_response=False)
    assert not through.session.passed


def test_another_software_version_is_looked_at_again(through: Through) -> None:
    through.reply(frame(ApiKey.Heartbeat, 0, Message()))
    assert through.session.passed
    for version in ("1.0", "2.0", "3.0"):
        named = {"client_software_name": "kafka", "client_software_version": version}
        through.ask(ApiKey.ApiVersions, 3, Message(**named))
    assert not through.session.passed
    rows = through.shared.census.rows()
    found = {row["software"] for row in rows if row["api"] == "ApiVersions"}
    assert found == {"", "kafka 1.0", "kafka 2.0"}  # of those that were known before each request


def test_the_name_of_a_client_is_cut(through: Through) -> None:
    name = "x" * (NAME_MAX + 1)
    header = encode(
        "RequestHeader",
        1,
        Message(
            request_api_key=ApiKey.Heartbeat,
            request_api_version=0,
            correlation_id=7,
            client_id=name,
        ),
    )
    through.reply(header + encode("HeartbeatRequest", 0, Message()))
    assert through.session.client_id == name[:NAME_MAX]


def test_a_version_that_is_not_offered_ends_the_connection(through: Through) -> None:
    reply = through.reply(bytes.fromhex("0003 0063 00000007 ffff 00"))
    assert reply == HangUp("Metadata v99 is not served here")


def test_a_fetch_is_one_of_an_old_client_only_if_its_records_were_recoded(broker: Broker) -> None:
    through = Through(broker)
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    for codec, count in ((Codec.GZIP, 0), (Codec.ZSTD, 1)):
        offset = partition.end_offset
        partition.log.writer.append(batch(offset, codec=codec))
        through.ask(ApiKey.Fetch, 9, fetch_body(offset))
        assert len(through.shared.last_old.rows()) == count, codec


def test_after_a_handshake_that_passes_on_requests_still_have_headers(through: Through) -> None:
    assert through.passes(frame(ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN")))
    assert through.ask(ApiKey.Metadata, 1, Message(topics=None)).topics
