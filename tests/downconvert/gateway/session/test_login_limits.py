"""Logins that are too large, out of order, repeated or delayed, and what is said of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.access.credentials import NOT_YET_SECONDS, TOKEN_SIZE_MAX
from downconvert.access.identity import Identities
from downconvert.access.tokens import Tokens, TokenSettings
from downconvert.broker import Broker, ErrorCode
from downconvert.gateway.session.exchanges import HangUp, Pause, Response
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.series import NAME_MAX
from tests.downconvert.broker.asking import frame
from tests.downconvert.gateway.cluster import Through, before_login
from tests.downconvert.gateway.talk import produce
from tests.tokens import AUDIENCE, ISSUER, first_message, jwk, token, write

from .test_login import CONFIG, authenticate, handshake, log_in

ALL = Message(topics=None)


@pytest.fixture
def through(broker: Broker) -> Through:
    return before_login(broker, CONFIG)


@pytest.mark.parametrize("excess", [0, 1])
def test_a_token_of_exactly_the_largest_size_is_checked(through: Through, excess: int) -> None:
    handshake(through)
    around = len(frame(ApiKey.SaslAuthenticate, 1, Message(auth_bytes=b"")))
    request = frame(
        ApiKey.SaslAuthenticate, 1, Message(auth_bytes=bytes(TOKEN_SIZE_MAX - around + excess))
    )
    reply = through.reply(request)
    if excess:
        text = f"SaslAuthenticate v1 of {TOKEN_SIZE_MAX + 1} bytes"
        assert reply == HangUp(text, is_login=True)
    else:
        assert isinstance(reply, Response)
        assert reply.errors == {ErrorCode.SASL_AUTHENTICATION_FAILED: 1}


@pytest.mark.parametrize("excess", [0, 1])
def test_a_token_without_a_header_has_the_same_largest_size(through: Through, excess: int) -> None:
    handshake(through, version=0)
    reply = through.reply(b"\0ann\0wrong".ljust(TOKEN_SIZE_MAX + excess, b"x"))
    assert isinstance(reply, HangUp)
    assert reply.is_login
    wanted = f"a token of {TOKEN_SIZE_MAX + 1} bytes" if excess else "failed login: "
    assert reply.reason.startswith(wanted)


@pytest.mark.parametrize(
    ("request_start", "name"),
    [("0011 0002", "SaslHandshake v2"), ("0024 0003", "SaslAuthenticate v3")],
)
def test_a_version_of_a_login_that_is_not_served_ends_the_connection(
    through: Through, request_start: str, name: str
) -> None:
    request = bytes.fromhex(request_start + "00000007 0001 61 00 0000 0000 0000")
    assert through.reply(request) == HangUp(f"{name} is not served here")


@pytest.mark.parametrize(
    ("api", "version", "body"),
    [
        (ApiKey.SaslHandshake, 0, Message(mechanism="PLAIN")),
        (ApiKey.SaslHandshake, 1, Message(mechanism="SCRAM-SHA-256")),
        (ApiKey.ApiVersions, 1, Message()),
        (ApiKey.ApiVersions, 99, None),
    ],
)
def test_only_a_token_may_follow_a_handshake(
    through: Through, api: ApiKey, version: int, body: Message | None
) -> None:
    """As in Kafka [SaslServerAuthenticator]."""
    handshake(through)
    start = api.to_bytes(2) + version.to_bytes(2) + bytes(4) + b"\xff\xff\0"
    reply = through.reply(start if body is None else frame(api, version, body))
    assert isinstance(reply, Response)
    assert reply.errors == {ErrorCode.ILLEGAL_SASL_STATE: 1}
    text = f"{api.name} v{version} in the middle of a login"
    assert reply.ends == HangUp(text, is_login=True)


def test_a_client_that_has_logged_in_stays_if_it_sends_another_token(through: Through) -> None:
    """As in Kafka."""
    log_in(through)
    reply = through.reply(frame(ApiKey.SaslAuthenticate, 1, Message(auth_bytes=b"\0ann\0secret")))
    assert isinstance(reply, Response)
    assert reply.errors == {ErrorCode.ILLEGAL_SASL_STATE: 1}
    assert reply.ends is None


@pytest.mark.parametrize("version", range(3))
def test_a_token_without_a_handshake_gets_an_error_and_ends_the_connection(
    through: Through, version: int
) -> None:
    body = Message(auth_bytes=b"\0ann\0secret")
    reply = through.reply(frame(ApiKey.SaslAuthenticate, version, body))
    assert isinstance(reply, Response)
    assert reply.errors == {ErrorCode.ILLEGAL_SASL_STATE: 1}
    assert reply.ends == HangUp("SaslAuthenticate without a handshake", is_login=True)
    again = before_login(through.broker, CONFIG)
    response = again.ask(ApiKey.SaslAuthenticate, version, body)
    assert response.error_message == "SaslAuthenticate without a handshake"


def test_a_wrong_password_is_answered_with_a_text(through: Through) -> None:
    response = log_in(through, "ann", "wrong")
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message


@pytest.mark.parametrize(("user", "password", "code"), [("ann", "secret", 0), ("bob", "other", 29)])
def test_a_password_login_is_not_repeated_and_its_rights_stay(
    through: Through, user: str, password: str, code: int
) -> None:
    log_in(through, user, password)
    for version in (0, 1):
        response = handshake(through, version=version)
        assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert through.ask(ApiKey.Metadata, 1, ALL).topics
    assert produce(through, 0, b"").error_code == code
    assert through.session.identity.claimed == user


def test_a_claimed_name_is_truncated(through: Through) -> None:
    assert through.session.identity.claimed == ""
    log_in(through, "n" * 1000, "secret")
    assert through.session.identity.claimed == "n" * NAME_MAX


def test_a_session_counts_from_the_end_of_its_login(broker: Broker, tmp_path: Path) -> None:
    """Its key was not known yet, and came while the client waited."""
    path = write(tmp_path, jwk("rsa"))
    settings = TokenSettings(jwks=str(path), issuer=ISSUER, audience=(AUDIENCE,))
    tokens = Tokens(settings)
    tokens.source.renew()
    through = before_login(broker, replace(CONFIG, identities=Identities(tokens=tokens)))
    handshake(through, "OAUTHBEARER")
    body = Message(auth_bytes=first_message(token(through.now)))
    request = frame(ApiKey.SaslAuthenticate, 1, body)
    steps = through.session.exchange(memoryview(request), len(request), through.now)
    waited = 0.0
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            reply = end.value
            break
        if isinstance(step, Pause):
            assert step.seconds == NOT_YET_SECONDS
            waited += step.seconds
        if waited > 3 * NOT_YET_SECONDS:
            write(tmp_path)
            tokens.source.renew()
    assert isinstance(reply, Response)
    assert not reply.errors
    sent = bytearray()
    while not reply.send.completed:
        reply.send.write_to(_Channel(sent))
    assert int.from_bytes(sent[-8:]) == pytest.approx(3_600_000 - waited * 1000, abs=2)
    assert through.session.identity.identified is not None


class _Channel:
    def __init__(self, data: bytearray) -> None:
        self._data = data

    def send(self, piece: memoryview) -> int:
        self._data += piece
        return len(piece)


def test_a_login_in_two_parts_is_one_login(through: Through) -> None:
    """Any part of its request may have arrived when it is checked."""
    handshake(through)
    request = frame(ApiKey.SaslAuthenticate, 0, Message(auth_bytes=b"\0ann\0secret"))
    steps = through.session.exchange(memoryview(request)[:20], len(request), through.now)
    next(steps)
    result = None
    try:
        step = steps.send(memoryview(request))
        while True:
            step = next(steps)
    except StopIteration as end:
        result = end.value
    assert step is not None
    assert isinstance(result, Response)
    assert authenticate(through, b"").error_code == ErrorCode.ILLEGAL_SASL_STATE
