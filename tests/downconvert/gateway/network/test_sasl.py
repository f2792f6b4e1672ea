import pytest
from scramp import ScramMechanism

from downconvert.gateway.network.sasl import AuthenticationError, authenticate
from downconvert.gateway.security import Credentials
from downconvert.protocol.schemas import ApiKey, Message


def talk(mechanism: str, *responses: bytes, refuse: int = 0) -> list[bytes]:
    """The tokens that are sent when the cluster answers so."""
    credentials = Credentials(mechanism=mechanism, username="user", secret="pencil")
    steps = authenticate(credentials)
    asked = next(steps)
    assert (asked.api, asked.version) == (ApiKey.SaslHandshake, 1)
    response = Message(error_code=0, mechanisms=[])
    tokens = []
    for answer in (*responses, b""):
        try:
            asked = steps.send(response)
        except StopIteration:
            break
        assert asked.body is not None
        tokens.append(asked.body.auth_bytes)
        response = Message(error_code=refuse, error_message="no", auth_bytes=answer)
    return tokens


def test_plain_sends_the_user_and_the_password() -> None:
    assert talk("PLAIN", b"") == [b"\0user\0pencil"]


def test_oauthbearer() -> None:
    assert talk("OAUTHBEARER", b"") == [b"n,,\1auth=Bearer pencil\1\1"]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_convinces_a_server_and_is_convinced(mechanism: str) -> None:
    kind = ScramMechanism(mechanism)
    stored = kind.make_auth_info("pencil", iteration_count=4096)
    server = kind.make_server(lambda _user: stored)
    steps = authenticate(Credentials(mechanism=mechanism, username="user", secret="pencil"))
    next(steps)
    first = steps.send(Message(error_code=0, mechanisms=[]))
    assert first.body is not None
    server.set_client_first(first.body.auth_bytes.decode())
    token = server.get_server_first().encode()
    final = steps.send(Message(error_code=0, auth_bytes=token))
    assert final.body is not None
    server.set_client_final(final.body.auth_bytes.decode())
    with pytest.raises(StopIteration):
        steps.send(Message(error_code=0, auth_bytes=server.get_server_final().encode()))


@pytest.mark.parametrize("response", [b"", b"\xff", b"r=x,s=y,i=1", b"e=other-error"])
def test_a_server_that_cannot_prove_itself_is_not_believed(response: bytes) -> None:
    with pytest.raises(AuthenticationError, match="wrong"):
        talk("SCRAM-SHA-256", response)


def test_a_refusal_says_why() -> None:
    with pytest.raises(AuthenticationError, match="no"):
        talk("PLAIN", b"", b"", refuse=58)


def test_a_mechanism_that_the_cluster_lacks_is_an_error_that_lists_its_own() -> None:
    steps = authenticate(Credentials(mechanism="PLAIN"))
    next(steps)
    with pytest.raises(AuthenticationError, match="SCRAM-SHA-512"):
        steps.send(Message(error_code=33, mechanisms=["SCRAM-SHA-512"]))


def test_a_cluster_that_has_no_mechanism_at_all_says_so() -> None:
    steps = authenticate(Credentials(mechanism="PLAIN", username="user", secret="pencil"))
    next(steps)
    with pytest.raises(AuthenticationError, match="does not take PLAIN; it takes: none"):
        steps.send(Message(error_code=33, mechanisms=[]))
