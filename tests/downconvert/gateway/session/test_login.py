"""Clients that log in to the gateway: with a session, and over sockets with a real client."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kafka import KafkaProducer
from scramp import ScramClient

from downconvert.access.identity import ClientRule, Identities, Users
from downconvert.access.rights import Access
from downconvert.broker import Broker, ErrorCode
from downconvert.gateway.advertised import Advertised
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.server import Gateway
from downconvert.gateway.session.exchanges import HangUp, Response
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import frame
from tests.downconvert.gateway.cluster import FLOORS, Through, before_login
from tests.downconvert.gateway.serving import Wire, cluster, gateway
from tests.downconvert.gateway.talk import produce
from tests.waiting import wait_for

USERS = Users({"ann": "secret", "bob": "other"})
READ_ONLY = ClientRule(access=Access(is_read_only=True), credentials=None, user="b*")
ANY_USER = ClientRule(access=Access(), credentials=None, user="ann")
IDENTITIES = Identities(users=USERS, rules=(READ_ONLY, ANY_USER))
CONFIG = GatewayConfig(bootstrap=(Address("cluster", 9092),), identities=IDENTITIES)
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture
def through(broker: Broker) -> Through:
    return before_login(broker, CONFIG)


def handshake(through: Through, mechanism: str = "PLAIN", version: int = 1) -> Message:
    return through.ask(ApiKey.SaslHandshake, version, Message(mechanism=mechanism))


def authenticate(through: Through, token: bytes) -> Message:
    return through.ask(ApiKey.SaslAuthenticate, 0, Message(auth_bytes=token))


def log_in(through: Through, user: str = "ann", password: str = "secret") -> Message:
    handshake(through)
    return authenticate(through, f"\0{user}\0{password}".encode())


def test_only_versions_and_logins_are_served_before_a_login(through: Through) -> None:
    response = through.ask(ApiKey.ApiVersions, 0, Message())
    offered = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    assert (offered[ApiKey.SaslHandshake], offered[ApiKey.SaslAuthenticate]) == ((0, 1), (0, 2))
    assert FLOORS.keys() <= offered.keys()
    for api in (ApiKey.Metadata, ApiKey.Fetch, ApiKey.Produce):
        reply = through.reply(frame(api, 0, Message()))
        assert isinstance(reply, HangUp)
        assert reply.is_login
    assert through.asked == []


def test_a_token_without_a_header_has_one_attempt(through: Through) -> None:
    """After it failed, the client's next bytes are no token."""
    handshake(through, version=0)
    login = through.session.identity.login
    assert login is not None
    assert login.expects_token
    assert isinstance(through.reply(b"\0ann\0guess"), HangUp)
    assert not login.expects_token


@pytest.mark.parametrize("mechanism", MECHANISMS[1:])
def test_scram_proves_both_sides(through: Through, mechanism: str) -> None:
    client = ScramClient([mechanism], "ann", "secret")
    assert handshake(through, mechanism).error_code == 0
    response = authenticate(through, client.get_client_first().encode())
    client.set_server_first(bytes(response.auth_bytes).decode())
    response = authenticate(through, client.get_client_final().encode())
    client.set_server_final(bytes(response.auth_bytes).decode())
    assert through.ask(ApiKey.Metadata, 1, Message(topics=None)).topics


@pytest.mark.parametrize(("user", "code"), [("ann", 0), ("bob", 29)])
def test_a_user_has_the_rights_of_the_first_rule_that_fits(
    through: Through, user: str, code: int
) -> None:
    assert log_in(through, user, {"ann": "secret", "bob": "other"}[user]).error_code == 0
    assert produce(through, 0, b"").error_code == code


@pytest.mark.parametrize(("user", "password"), [("ann", "other"), ("eve", ""), ("eve", "secret")])
def test_a_failed_login_is_said_ends_the_connection_and_slows_the_next(
    through: Through, user: str, password: str
) -> None:
    handshake(through)
    token = f"\0{user}\0{password}".encode()
    body = Message(auth_bytes=token)
    reply = through.reply(frame(ApiKey.SaslAuthenticate, 0, body))
    assert isinstance(reply, Response)
    assert reply.ends is not None
    assert reply.ends.is_login
    before = through.now
    for _ in range(5):
        again = Through(through.broker, CONFIG)
        again.shared = through.shared
        again.session = type(again.session)(through.shared, "10.0.0.7", Advertised("gateway.test"))
        again.now = through.now
        code = log_in(again, user, password).error_code
        assert code == ErrorCode.SASL_AUTHENTICATION_FAILED
        through.now = again.now
    assert through.now - before > 3


def test_tokens_without_a_header_follow_a_handshake_of_version_0(through: Through) -> None:
    handshake(through, version=0)
    reply = through.reply(b"\0ann\0secret")
    assert isinstance(reply, Response)
    assert through.ask(ApiKey.Metadata, 1, Message(topics=None)).topics


def test_a_wrong_token_without_a_header_ends_the_connection(through: Through) -> None:
    handshake(through, version=0)
    reply = through.reply(b"\0ann\0guess")
    assert isinstance(reply, HangUp)
    assert reply.is_login


@pytest.mark.parametrize("mechanism", ["GSSAPI", "", "x" * 1000])
def test_a_mechanism_that_is_not_known_ends_the_connection(
    through: Through, mechanism: str
) -> None:
    reply = through.reply(frame(ApiKey.SaslHandshake, 1, Message(mechanism=mechanism)))
    assert isinstance(reply, Response)
    assert reply.ends is not None


# --- over sockets


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Gateway]:
    with cluster(tmp_path, "t") as (_, port), gateway(port, identities=IDENTITIES) as running:
        wait_for(lambda: running.topology.api_versions is not None)
        yield running


def producer(running: Gateway, password: str, mechanism: str = "PLAIN") -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=str(running.address),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username="ann",
        sasl_plain_password=password,
        max_block_ms=60_000,
        bootstrap_timeout_ms=60_000,
    )


@pytest.mark.parametrize("mechanism", MECHANISMS[:2])
def test_kafka_python_logs_in(served: Gateway, mechanism: str) -> None:
    client = producer(served, "secret", mechanism)
    assert client.send("t", b"x").get(timeout=60).offset == 0
    client.close()


def test_failed_logins_are_logged_with_their_address_and_counted(
    served: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "downconvert.gateway"), Wire(served.address) as client:
        client.ask(ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"))
        response = client.ask(ApiKey.SaslAuthenticate, 0, Message(auth_bytes=b"\0ann\0guess"))
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.has_ended()
    wait_for(lambda: bool(served.figures().ends["failed_login"]))
    lines = [record.getMessage() for record in caplog.records]
    assert any("127.0.0.1" in line and "failed login" in line for line in lines)
    assert not any("guess" in line for line in lines)


def test_users_are_read_again(served: Gateway) -> None:
    identities = replace(IDENTITIES, users=Users({"ann": "new"}))
    served.reload(replace(served.config, identities=identities))
    client = producer(served, "new")
    assert client.send("t", b"x").get(timeout=60).offset == 0
    client.close()
