"""Tokens without a header that follow a SaslHandshake of version 0, on their way to the cluster."""

from io import BytesIO

import pytest

from downconvert.gateway.session.exchanges import Ask, HangUp, Response
from downconvert.gateway.session.headers import parse
from downconvert.gateway.session.relay import Relay
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import frame


def handshake(relay: Relay, mechanism: str, code: int = 0) -> None:
    data = memoryview(frame(ApiKey.SaslHandshake, 0, Message(mechanism=mechanism)))
    steps = relay.handshake(parse(data), data)
    ask = next(steps)
    assert isinstance(ask, Ask)
    assert (ask.api, ask.version) == (ApiKey.SaslHandshake, 1)
    with pytest.raises(StopIteration):
        steps.send(Message(error_code=code, mechanisms=["PLAIN"]))


def take(relay: Relay, token: bytes, **fields: object) -> object:
    """The reply to a token. `fields`: of the cluster's response."""
    steps = relay.take(memoryview(token), len(token))
    ask = next(steps)
    assert isinstance(ask, Ask)
    assert ask.body is not None
    assert bytes(ask.body.auth_bytes) == token
    with pytest.raises(StopIteration) as end:
        steps.send(Message(**{"error_code": 0} | fields))
    return end.value.value


@pytest.mark.parametrize(
    ("mechanism", "count"),
    [("PLAIN", 1), ("SCRAM-SHA-256", 2), ("SCRAM-SHA-512", 2), ("OAUTHBEARER", 1), ("GSSAPI", 1)],
)
def test_as_many_tokens_follow_as_the_mechanism_has(mechanism: str, count: int) -> None:
    relay = Relay()
    assert not relay.expects_token
    handshake(relay, mechanism)
    for number in range(count):
        assert relay.expects_token
        reply = take(relay, b"token", auth_bytes=b"answer %d" % number)
        assert isinstance(reply, Response)
        channel = BytesIO()
        reply.send.write_to(channel)
        assert channel.getvalue()[4:] == b"answer %d" % number
    assert not relay.expects_token


def test_no_token_follows_a_handshake_that_the_cluster_refuses() -> None:
    relay = Relay()
    handshake(relay, "SCRAM-SHA-256", code=33)
    assert not relay.expects_token


def test_a_refused_token_ends_the_connection() -> None:
    relay = Relay()
    handshake(relay, "PLAIN")
    reply = take(relay, b"wrong", error_code=58, error_message="no such user")
    text = "the cluster refused to authenticate the client: no such user"
    assert reply == HangUp(text, is_login=True)
