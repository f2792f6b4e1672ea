from pathlib import Path

import pytest
from scramp import ScramClient

from downconvert.access.credentials import MECHANISMS, SCRAM, Credentials
from downconvert.access.guard import Guard
from downconvert.access.identity import Identities
from downconvert.access.tokens import Tokens, TokenSettings
from downconvert.broker import BadRequestError, Broker, Client, ErrorCode
from downconvert.broker.endings import End
from downconvert.protocol.errors import ExpiredSessionError
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import ask, begin, frame, response_of, sent, someone
from tests.downconvert.broker.guarding import guard_of
from tests.tokens import AUDIENCE, ISSUER, first_message, jwk, write
from tests.tokens import token as signed

PASSWORDS = {"alice": "wonderland", "bob": "pa:ss wörd"}


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    made = Broker(LogDir.open(tmp_path))
    made.guard = guard_of(PASSWORDS)
    return made


def choose(broker: Broker, client: Client, mechanism: str, version: int = 1) -> Message:
    body = Message(mechanism=mechanism)
    return ask(broker, ApiKey.SaslHandshake, version, body, client=client)


def token(broker: Broker, client: Client, data: bytes, version: int = 1) -> Message:
    body = Message(auth_bytes=data)
    return ask(broker, ApiKey.SaslAuthenticate, version, body, client=client)


def plain(name: str, password: str, acts_as: str = "") -> bytes:
    return f"{acts_as}\0{name}\0{password}".encode()


@pytest.mark.parametrize("name", PASSWORDS)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_right_password_is_let_in(broker: Broker, name: str, version: int) -> None:
    client = someone()
    assert choose(broker, client, "PLAIN").error_code == 0
    assert token(broker, client, plain(name, PASSWORDS[name]), version).error_code == 0
    assert client.principal == f"User:{name}"
    assert ask(broker, ApiKey.Metadata, 1, Message(topics=None), client=client).topics == []


@pytest.mark.parametrize(
    "data",
    [
        plain("alice", "wrong"),
        plain("alice", ""),
        plain("nobody", ""),
        plain("nobody", "wonderland"),
        plain("alice", "wonderland", acts_as="bob"),
        b"",
        b"\0\0",
        b"\0\0\0\0",
        b"\xff\0alice\0wonderland",
    ],
)
def test_a_wrong_password_is_answered_and_the_connection_ends(broker: Broker, data: bytes) -> None:
    client = someone()
    choose(broker, client, "PLAIN")
    body = Message(auth_bytes=data)
    exchange = begin(broker, ApiKey.SaslAuthenticate, 1, body, client=client)
    assert response_of(exchange).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert exchange.close_after_reply
    assert client.principal is None


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize("name", PASSWORDS)
def test_scram_is_spoken_to_the_end(broker: Broker, mechanism: str, name: str) -> None:
    client, theirs = someone(), ScramClient([mechanism], name, PASSWORDS[name])
    assert choose(broker, client, mechanism).error_code == 0
    first = token(broker, client, theirs.get_client_first().encode())
    assert client.principal is None
    theirs.set_server_first(bytes(first.auth_bytes).decode())
    final = token(broker, client, theirs.get_client_final().encode())
    theirs.set_server_final(bytes(final.auth_bytes).decode())
    assert client.principal == f"User:{name}"


@pytest.mark.parametrize("mechanism", SCRAM)
def test_scram_with_a_wrong_password_is_refused(broker: Broker, mechanism: str) -> None:
    client, theirs = someone(), ScramClient([mechanism], "alice", "wrong")
    choose(broker, client, mechanism)
    first = token(broker, client, theirs.get_client_first().encode())
    theirs.set_server_first(bytes(first.auth_bytes).decode())
    final = token(broker, client, theirs.get_client_final().encode())
    assert final.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.principal is None


@pytest.mark.parametrize(
    "data",
    [b"", b"n,,", b"n,,n=alice", b"n,,n=nobody,r=x", b"\xff", b"n,,n=,r=", b"y", b"n,,r=x,n=alice",
     b",,,,,,", b"p=tls-unique,,n=alice,r=x", b"n,,n=alice,r=x,m=1", b"=" * 1000],
)  # fmt: skip
@pytest.mark.parametrize("mechanism", SCRAM)
def test_bytes_that_are_no_scram_message_are_refused(
    broker: Broker, mechanism: str, data: bytes
) -> None:
    client = someone()
    choose(broker, client, mechanism)
    assert token(broker, client, data).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_an_unknown_mechanism_is_refused_with_a_list_of_the_known_ones(broker: Broker) -> None:
    refused = choose(broker, someone(), "GSSAPI")
    assert refused.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert tuple(refused.mechanisms) == MECHANISMS


def test_tokens_go_without_headers_after_a_handshake_of_version_0(broker: Broker) -> None:
    client = someone()
    choose(broker, client, "PLAIN", version=0)
    exchange = broker.handle(client, memoryview(plain("alice", "wonderland")), 0.0)
    assert sent(exchange) == bytes(4)
    assert client.principal == "User:alice"


def test_a_wrong_token_without_a_header_ends_the_connection(broker: Broker) -> None:
    client = someone()
    choose(broker, client, "PLAIN", version=0)
    exchange = broker.handle(client, memoryview(plain("alice", "wrong")), 0.0)
    assert (exchange.send, exchange.close_after_reply, exchange.end) == (None, True, End.LOGIN)
    assert "Invalid username or password" in exchange.why


@pytest.mark.parametrize(
    "api", [ApiKey.Metadata, ApiKey.Produce, ApiKey.Fetch, ApiKey.FindCoordinator]
)
def test_other_requests_before_authentication_end_the_connection(
    broker: Broker, api: ApiKey
) -> None:
    with pytest.raises(BadRequestError, match="before authentication"):
        broker.handle(
            someone(), memoryview(frame(api, 0, Message(topics=None, key="", acks=1))), 0.0
        )


def test_versions_may_be_asked_before(broker: Broker) -> None:
    assert ask(broker, ApiKey.ApiVersions, 0, Message()).error_code == 0


def test_a_token_without_a_handshake_is_refused(broker: Broker) -> None:
    refused = token(broker, someone(), plain("alice", "wonderland"))
    assert refused.error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize(
    ("api", "version", "body"),
    [
        (ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN")),
        (ApiKey.ApiVersions, 1, Message()),
        (ApiKey.ApiVersions, 99, None),
    ],
)
def test_only_a_token_may_follow_a_handshake(
    broker: Broker, api: ApiKey, version: int, body: Message | None
) -> None:
    """As in Kafka [SaslServerAuthenticator]."""
    client = someone()
    choose(broker, client, "PLAIN")
    if body is None:
        start = api.to_bytes(2) + version.to_bytes(2) + (7).to_bytes(4) + b"\xff\xff"
        exchange, version = broker.handle(client, memoryview(start + b"\0"), 0.0), 0
    else:
        exchange = begin(broker, api, version, body, client=client)
    assert response_of(exchange, version).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert exchange.close_after_reply
    assert client.principal is None


def test_after_a_login_versions_may_be_asked_again(broker: Broker) -> None:
    client = someone()
    choose(broker, client, "PLAIN")
    assert token(broker, client, plain("alice", PASSWORDS["alice"])).error_code == 0
    exchange = begin(broker, ApiKey.ApiVersions, 1, Message(), client=client)
    assert response_of(exchange).error_code == 0
    assert not exchange.close_after_reply


def test_after_a_failed_login_a_token_needs_another_handshake(broker: Broker) -> None:
    client = someone()
    choose(broker, client, "PLAIN")
    failed = token(broker, client, plain("alice", "wrong"))
    assert failed.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    again = token(broker, client, plain("alice", "wonderland"))
    assert again.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.principal is None


def test_a_handshake_where_nobody_has_to_authenticate_is_refused(tmp_path: Path) -> None:
    refused = choose(Broker(LogDir.open(tmp_path)), someone(), "PLAIN")
    assert refused.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_a_token_where_nobody_has_to_authenticate_is_refused_and_the_client_stays(
    tmp_path: Path,
) -> None:
    body = Message(auth_bytes=plain("alice", "wonderland"))
    exchange = begin(Broker(LogDir.open(tmp_path)), ApiKey.SaslAuthenticate, 1, body)
    assert response_of(exchange).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert not exchange.close_after_reply


def test_users_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("# who may read\n\nalice:wonderland\nbob:pa:ss wörd\n", encoding="utf-8")
    users = Credentials.load(path)
    assert all(users.is_right(name, password) for name, password in PASSWORDS.items())
    assert not users.is_right("bob", "pa")


@pytest.mark.parametrize("text", ["alice\n", ":secret\n", "alice:\n", "", "# nobody\n"])
def test_a_file_without_users_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users"
    path.write_text(text)
    with pytest.raises(ValueError, match="NAME:PASSWORD"):
        Credentials.load(path)


@pytest.mark.parametrize("is_raw", [False, True])
def test_each_failed_login_makes_the_next_one_wait_longer(broker: Broker, is_raw: bool) -> None:
    """All connections of its address together; other users, and other addresses, do not wait."""
    now, waits = 0.0, []
    for _ in range(4):
        client = someone()
        choose(broker, client, "PLAIN", version=int(not is_raw))
        data = plain("alice", "guess")
        if is_raw:
            exchange = broker.handle(client, memoryview(data), now)
        else:
            body = Message(auth_bytes=data)
            exchange = begin(broker, ApiKey.SaslAuthenticate, 1, body, client=client, now=now)
        started = now
        while not exchange.is_done:
            due = broker.purgatory.next_deadline
            now = due
            broker.tick(now)
        assert exchange.close_after_reply
        waits.append(round(now - started, 3))
    assert waits == [0, 0.1, 0.2, 0.4]
    for address, user, password in (
        ("10.0.0.2", "alice", "wonderland"),
        (someone().address, "bob", PASSWORDS["bob"]),
    ):
        other = someone(address)
        choose(broker, other, "PLAIN")
        assert token(broker, other, plain(user, password)).error_code == 0


def test_a_token_that_waits_is_forgotten_with_its_client(broker: Broker) -> None:
    for _ in range(2):
        client = someone()
        choose(broker, client, "PLAIN")
        body = Message(auth_bytes=plain("alice", "guess"))
        exchange = begin(broker, ApiKey.SaslAuthenticate, 1, body, client=client)
    assert not exchange.is_done
    broker.finished(exchange)
    assert not len(broker.purgatory)


# --- tokens


@pytest.fixture
def tokens(tmp_path: Path, broker: Broker) -> Tokens:
    settings = TokenSettings(
        jwks=str(write(tmp_path)), issuer=ISSUER, audience=(AUDIENCE,), groups_claim="groups"
    )
    found = Tokens(settings)
    found.source.renew()
    broker.guard = Guard(identities=Identities(tokens=found))
    return found


def bear(broker: Broker, client: Client, data: bytes) -> Message:
    choose(broker, client, "OAUTHBEARER")
    return token(broker, client, first_message(data))


@pytest.mark.usefixtures("tokens")
def test_a_right_token_is_let_in_until_it_expires(broker: Broker) -> None:
    client = someone()
    broker.time_of_day.shift = 5000.0
    answered = bear(broker, client, signed(5000))
    assert (answered.error_code, answered.session_lifetime_ms) == (0, 3_600_000)
    assert client.principal == "User:ann"
    request = memoryview(frame(ApiKey.Metadata, 1, Message(topics=None)))
    assert broker.handle(client, request, 3599.0).is_done
    with pytest.raises(ExpiredSessionError, match="expired"):
        broker.handle(client, request, 3600.0)
    broker.time_of_day.shift += 3600.0
    assert bear(broker, client, signed(8600)).session_lifetime_ms == 3_600_000
    assert broker.handle(client, request, 1.0).is_done


@pytest.mark.usefixtures("tokens")
def test_requests_under_way_when_a_token_expires_are_finished(broker: Broker) -> None:
    client = someone()
    broker.time_of_day.shift = 5000.0
    bear(broker, client, signed(5000))
    body = Message(
        group_id="g",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[Message(name="range", metadata=b"")],
    )
    waits = begin(broker, ApiKey.JoinGroup, 0, body, client=client, now=3599.0)
    assert not waits.is_done
    broker.tick(3610.0)
    assert response_of(waits).error_code == 0
    with pytest.raises(ExpiredSessionError, match="expired"):
        begin(broker, ApiKey.Metadata, 1, Message(topics=None), client=client, now=3610.0)


@pytest.mark.usefixtures("tokens")
def test_a_wrong_token_is_answered_twice_and_counts_once(broker: Broker) -> None:
    client = someone()
    answered = bear(broker, client, signed(0, aud="other"))
    assert answered.error_code == 0
    assert bytes(answered.auth_bytes) == b'{"status":"invalid_token"}'
    assert "its audience is 'other'" in client.refusal
    assert broker.failed_logins.begin("ann", client.address, 0.0).wait == pytest.approx(0.1)
    exchange = begin(
        broker, ApiKey.SaslAuthenticate, 1, Message(auth_bytes=b"\x01"), client=client, now=9.0
    )
    assert response_of(exchange).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert (exchange.close_after_reply, exchange.end) == (True, End.LOGIN)
    assert "its audience is 'other'" in exchange.why
    assert client.principal is None


@pytest.mark.usefixtures("tokens")
def test_a_second_login_cannot_change_the_principal(broker: Broker) -> None:
    client = someone()
    bear(broker, client, signed(0))
    refused = bear(broker, client, signed(0, sub="eve"))
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.principal == "User:ann"


def test_a_token_waits_for_its_key(broker: Broker, tokens: Tokens, tmp_path: Path) -> None:
    write(tmp_path, jwk("rsa"))
    tokens.source.renew()
    for is_published in (True, False):
        client = someone()
        choose(broker, client, "OAUTHBEARER")
        by = "p256" if is_published else "p384"
        body = Message(auth_bytes=first_message(signed(0, by=by)))
        exchange = begin(broker, ApiKey.SaslAuthenticate, 1, body, client=client)
        if is_published:
            assert not exchange.is_done
            write(tmp_path, jwk("p256"))
            tokens.source.renew()
            due = broker.purgatory.next_deadline
            broker.tick(due)
        # The second time is within a minute: it is not waited for.
        assert exchange.is_done
        assert (client.principal is not None) == is_published
