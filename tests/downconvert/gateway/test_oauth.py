"""Clients that log in to the gateway with a token: with a session, and over sockets."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from downconvert.access.identity import ClientRule, Identities, Users
from downconvert.access.rights import Access
from downconvert.access.tokens import Tokens, TokenSettings
from downconvert.broker import Broker, ErrorCode
from downconvert.gateway.advertised import Advertised
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.server import Gateway
from downconvert.gateway.session.exchanges import (
    HangUp,
    Pause,
    Response,
    Steps,
    Turn,
)
from downconvert.gateway.session.session import Session
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import frame
from tests.tokens import AUDIENCE, ISSUER, first_message, jwk, token, write
from tests.waiting import wait_for

from .cluster import Through, before_login
from .serving import Wire, cluster, gateway
from .talk import produce

WRITERS = ClientRule(access=Access(), credentials=None, group="writers")
OTHERS = ClientRule(access=Access(is_read_only=True), credentials=None, user="a*")
OAUTHBEARER = "OAUTHBEARER"


def settings_of(path: Path) -> TokenSettings:
    return TokenSettings(jwks=str(path), issuer=ISSUER, audience=(AUDIENCE,), groups_claim="groups")


def identities(directory: Path) -> Identities:
    tokens = Tokens(settings_of(write(directory)))
    tokens.source.renew()
    return Identities(tokens=tokens, users=Users({"u": "p"}), rules=(WRITERS, OTHERS))


@pytest.fixture
def through(broker: Broker, tmp_path: Path) -> Through:
    config = GatewayConfig(bootstrap=(Address("cluster", 9092),), identities=identities(tmp_path))
    return before_login(broker, config)


def again(through: Through) -> None:
    """Another connection of the same client."""
    through.session = Session(through.shared, "10.0.0.7", Advertised("gateway.test"))


def handshake(through: Through, mechanism: str = OAUTHBEARER) -> Message:
    return through.ask(ApiKey.SaslHandshake, 1, Message(mechanism=mechanism))


def log_in(through: Through, bearer: bytes, acts_as: str = "") -> Message:
    assert handshake(through).error_code == 0
    body = Message(auth_bytes=first_message(bearer, acts_as))
    return through.ask(ApiKey.SaslAuthenticate, 1, body)


def confirm(through: Through) -> Any:
    return through.reply(frame(ApiKey.SaslAuthenticate, 1, Message(auth_bytes=b"\x01")))


@pytest.mark.parametrize(("groups", "code"), [(["x", "writers"], 0), ([], 29)])
def test_a_token_has_the_rights_of_its_name_and_its_groups(
    through: Through, groups: list[str], code: int
) -> None:
    response = log_in(through, token(through.now, groups=groups))
    assert (response.error_code, response.auth_bytes) == (0, b"")
    assert response.session_lifetime_ms == 3_600_000
    assert produce(through, 0, b"").error_code == code


def test_passwords_stand_beside_tokens(through: Through) -> None:
    mechanisms = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER]
    assert handshake(through, "PLAIN").mechanisms == mechanisms


def test_a_handshake_does_not_hide_that_a_token_was_refused(through: Through) -> None:
    """The end of this connection is a failed login, in logs and counts."""
    log_in(through, token(through.now, iss="https://other.test"))
    assert handshake(through).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert "issuer" in through.session.identity.refusal


def test_a_wrong_token_is_answered_as_kafka_does_and_slows_the_next(through: Through) -> None:
    """With a JSON object, and with an error after the byte that confirms it; it counts once."""
    begun = through.now
    for _ in range(4):
        response = log_in(through, token(through.now, iss="https://other.test"))
        assert response.error_code == 0
        assert json.loads(bytes(response.auth_bytes)) == {"status": "invalid_token"}
        assert "issuer" in through.session.identity.refusal
        reply = confirm(through)
        assert isinstance(reply, Response)
        assert reply.ends is not None
        assert reply.ends.is_login
        assert "its issuer is 'https://other.test'" in reply.ends.reason
        again(through)
    assert 0.1 < through.now - begun < 3
    assert isinstance(through.reply(frame(ApiKey.Metadata, 1, Message(topics=None))), HangUp)


def test_no_client_can_act_as_another_user(through: Through) -> None:
    response = log_in(through, token(through.now), acts_as="eve")
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    again(through)
    assert log_in(through, token(through.now), acts_as="ann").error_code == 0


def test_tokens_without_a_header(through: Through) -> None:
    through.ask(ApiKey.SaslHandshake, 0, Message(mechanism=OAUTHBEARER))
    assert isinstance(through.reply(first_message(token(through.now))), Response)
    assert through.ask(ApiKey.Metadata, 1, Message(topics=None)).topics
    again(through)
    through.ask(ApiKey.SaslHandshake, 0, Message(mechanism=OAUTHBEARER))
    assert isinstance(through.reply(first_message(b"no.token.")), Response)
    reply = through.reply(b"\x01")
    assert isinstance(reply, HangUp)
    assert reply.is_login


def test_bytes_that_are_too_many_for_a_token_are_not_read(through: Through) -> None:
    handshake(through)
    reply = through.reply(frame(ApiKey.SaslAuthenticate, 1, Message(auth_bytes=bytes(600_000))))
    assert isinstance(reply, HangUp)


def test_a_client_that_waits_for_a_key_is_admitted_once_it_is_published(
    through: Through, tmp_path: Path
) -> None:
    tokens = through.config.identities.tokens
    assert tokens is not None
    write(tmp_path, jwk("rsa"))
    tokens.source.renew()
    handshake(through)
    body = Message(auth_bytes=first_message(token(through.now)))
    request = frame(ApiKey.SaslAuthenticate, 1, body)
    steps = through.session.exchange(memoryview(request), len(request), through.now)
    for _ in range(5):
        next(steps)
    write(tmp_path)
    tokens.source.renew()
    assert not list(through_to_the_end(steps))
    assert through.session.identity.identified is not None


def through_to_the_end(steps: Steps) -> Iterator[object]:
    """The yielded values that are neither a turn nor a pause."""
    for step in steps:
        if not isinstance(step, Turn | Pause):
            yield step


# --- sessions that end


def test_a_session_ends_with_its_token(through: Through) -> None:
    assert log_in(through, token(through.now, exp=through.now + 60)).error_code == 0
    through.now += 59
    assert through.ask(ApiKey.Metadata, 1, Message(topics=None)).topics
    through.now += 1
    reply = through.reply(frame(ApiKey.Metadata, 1, Message(topics=None)))
    assert isinstance(reply, HangUp)
    assert reply.has_expired


def test_a_client_that_logs_in_again_keeps_its_connection(through: Through) -> None:
    for lived in (59, 70, 61):
        bearer = token(through.now, exp=through.now + 60)
        response = log_in(through, bearer)
        assert (response.error_code, response.session_lifetime_ms) == (0, 60_000)
        assert through.ask(ApiKey.Metadata, 1, Message(topics=None)).topics
        through.now += lived


def test_a_client_that_logs_in_again_keeps_its_principal(through: Through) -> None:
    log_in(through, token(through.now))
    response = log_in(through, token(through.now, sub="abe"))
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Cannot change principals" in response.error_message


def test_a_client_whose_rights_have_changed_connects_again(through: Through) -> None:
    log_in(through, token(through.now))
    handshake(through)
    bearer = token(through.now, groups=["writers"])
    body = Message(auth_bytes=first_message(bearer))
    assert isinstance(through.reply(frame(ApiKey.SaslAuthenticate, 1, body)), HangUp)


# --- over sockets


class Provider(AbstractTokenProvider):  # type: ignore[misc] # kafka-python has no types
    def __init__(self, *tokens: bytes) -> None:
        super().__init__()
        self.given = 0
        self._tokens = tokens

    def token(self) -> str:
        self.given += 1
        return self._tokens[min(self.given, len(self._tokens)) - 1].decode()


@contextmanager
def with_tokens(path: Path) -> Iterator[Gateway]:
    """A gateway whose clients log in with tokens. It knows its cluster's versions."""
    (path / "log").mkdir()
    with (
        cluster(path / "log", "t") as (_, port),
        gateway(port, identities=identities(path)) as running,
    ):
        wait_for(lambda: running.topology.api_versions is not None)
        yield running


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Gateway]:
    with with_tokens(tmp_path) as running:
        yield running


def producer(running: Gateway, provider: Provider) -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=str(running.address),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=OAUTHBEARER,
        sasl_oauth_token_provider=provider,
        max_block_ms=60_000,
        bootstrap_timeout_ms=60_000,
    )


def test_kafka_python_logs_in_with_a_token(served: Gateway) -> None:
    client = producer(served, Provider(token(time.time(), groups=["writers"])))
    assert client.send("t", b"x").get(timeout=60).offset == 0
    client.close()


def test_a_failed_login_with_a_token_is_logged_and_counted(
    served: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    bearer = token(1_000_000_000.0)
    with caplog.at_level("INFO", "downconvert.gateway"), Wire(served.address) as client:
        client.ask(ApiKey.SaslHandshake, 1, Message(mechanism=OAUTHBEARER))
        client.ask(ApiKey.SaslAuthenticate, 1, Message(auth_bytes=first_message(bearer, "")))
        response = client.ask(ApiKey.SaslAuthenticate, 1, Message(auth_bytes=b"\x01"))
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.has_ended()
    wait_for(lambda: bool(served.figures().ends["failed_login"]))
    lines = [record.getMessage() for record in caplog.records]
    assert any("127.0.0.1" in line and "it expired" in line for line in lines)
    assert not any(bearer.decode()[:40] in line for line in lines)


def test_keys_that_are_not_there_make_a_gateway_unready(served: Gateway, tmp_path: Path) -> None:
    assert not [reason for reason in served.unready() if "keys" in reason]
    tokens = Tokens(settings_of(tmp_path / "none.json"))
    served.reload(replace(served.config, identities=Identities(tokens=tokens)))
    wait_for(lambda: any("No such file" in reason for reason in served.unready()))
