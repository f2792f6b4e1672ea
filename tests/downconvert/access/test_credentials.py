"""Users from a file, and how a client proves to be one of them."""

from pathlib import Path

import pytest
from scramp import ScramClient

from downconvert.access.credentials import (
    LIFETIME_MAX,
    PLAIN,
    SCRAM,
    SCRAM_MESSAGE_MAX,
    Authentication,
    AuthenticationError,
    Conversation,
    Credentials,
    Proved,
    session_lifetime_ms,
)

USERS = Credentials({"ann": "secret", "bob": "other", "zoë": "pässword"})


def response_to(token: bytes) -> bytes | Proved | None:
    """The response to the only token of PLAIN."""
    return Authentication(USERS.conversation(PLAIN), is_raw=False).take(token, 0.0)


@pytest.mark.parametrize(
    ("token", "name"),
    [
        (b"\0ann\0secret", "ann"),
        (b"ann\0ann\0secret", "ann"),
        (b"\0bob\0other", "bob"),
        ("\0zoë\0pässword".encode(), "zoë"),
    ],
)
def test_a_user_with_the_right_password_is_let_in(token: bytes, name: str) -> None:
    assert response_to(token) == Proved(name)


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"\0ann\0other", "username or password"),  # another user's password
        (b"\0ann\0", "username or password"),
        (b"\0ann\0secret ", "username or password"),
        (b"\0ANN\0secret", "username or password"),
        (b"\0carl\0", "username or password"),  # nobody's password is empty
        (b"\0\0", "username or password"),
        (b"bob\0ann\0secret", "username or password"),  # one user cannot act as another
        (b"ann\0secret", "Invalid SASL/PLAIN"),
        (b"\0ann\0secret\0", "Invalid SASL/PLAIN"),
        (b"\0\xff\0secret", "Invalid SASL/PLAIN"),
        (b"", "Invalid SASL/PLAIN"),
    ],
)
def test_everyone_else_is_refused(token: bytes, words: str) -> None:
    with pytest.raises(AuthenticationError, match=words):
        response_to(token)


@pytest.mark.parametrize("mechanism", SCRAM)
def test_the_first_message_of_scram_has_a_limited_size(mechanism: str) -> None:
    """The server keeps it until the client has proved that it knows the password."""
    token = b"n,,n=ann,r=".ljust(SCRAM_MESSAGE_MAX, b"x")
    server = Authentication(USERS.conversation(mechanism), is_raw=False)
    assert isinstance(server.take(token, 0.0), bytes)
    server = Authentication(USERS.conversation(mechanism), is_raw=False)
    with pytest.raises(AuthenticationError, match=mechanism):
        server.take(token + b"x", 0.0)


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize(("password", "is_right"), [("secret", True), ("other", False)])
def test_scram_proves_both_sides(mechanism: str, password: str, is_right: bool) -> None:
    server = Authentication(USERS.conversation(mechanism), is_raw=False)
    client = ScramClient([mechanism], "ann", password)
    first = server.take(client.get_client_first().encode(), 0.0)
    assert isinstance(first, bytes)
    client.set_server_first(first.decode())
    final = client.get_client_final().encode()
    if not is_right:
        with pytest.raises(AuthenticationError, match=mechanism):
            server.take(final, 0.0)
        return
    proved = server.take(final, 0.0)
    assert isinstance(proved, Proved)
    assert proved.name == "ann"
    client.set_server_final(proved.response.decode())  # the client checks the server's signature


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize(
    ("written", "is_taken"),
    [
        *(("ann", True), ("a=2Cb=3Dc", True)),
        *(("a\N{SOFT HYPHEN}nn", False), ("\N{FULLWIDTH LATIN SMALL LETTER A}nn", False)),
        *(("a=2Cb=c", False), ("a=2cb=3Dc", False), ("a=6En", False)),
    ],
)
def test_scram_takes_a_name_in_one_form_only(mechanism: str, written: str, is_taken: bool) -> None:
    """Otherwise each guess of a password would claim another name, and none would wait."""
    users = Credentials({"ann": "secret", "a,b=c": "other"})
    taken = Authentication(users.conversation(mechanism), is_raw=False)
    token = f"n,,n={written},r=abc".encode()
    if is_taken:
        first = taken.take(token, 0.0)
        assert isinstance(first, bytes)
        assert b"i=" in first
    else:
        with pytest.raises(AuthenticationError):
            taken.take(token, 0.0)


@pytest.mark.parametrize("mechanism", SCRAM)
def test_scram_refuses_a_user_that_is_not_there(mechanism: str) -> None:
    server = Authentication(USERS.conversation(mechanism), is_raw=False)
    with pytest.raises(AuthenticationError, match=mechanism):
        server.take(ScramClient([mechanism], "carl", "x").get_client_first().encode(), 0.0)


def test_a_user_is_salted_once_for_each_mechanism() -> None:
    """Salting takes milliseconds, so a client that asks again gets the same salt."""

    def first(mechanism: str) -> dict[str, str]:
        server = Authentication(USERS.conversation(mechanism), is_raw=False)
        response = server.take(
            ScramClient([mechanism], "ann", "x").get_client_first().encode(), 0.0
        )
        assert isinstance(response, bytes)
        return dict(part.split("=", 1) for part in response.decode().split(","))

    salts = [first(mechanism)["s"] for mechanism in SCRAM for _ in range(2)]
    assert salts[0] == salts[1] != salts[2] == salts[3]


def test_a_file_has_a_user_a_line(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("# a comment: no user\nann:one\n\n  \nbob:two:three\n#bob:four\n")
    users = Credentials.load(path)
    assert users.is_right("ann", "one")
    assert users.is_right("bob", "two:three")
    assert not users.is_right("# a comment", " no user")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"ann:one\nbob\n", "line 2 is not NAME:PASSWORD"),
        (b"ann:one\n\n:two\n", "line 3 is not NAME:PASSWORD"),
        (b"ann:one\nbob:two\nann:three\n", "line 3 names 'ann' again"),
        (b"ann:\n", "line 1 is not NAME:PASSWORD"),
        (b"ann:one\n\xff:two\n", "line 2 is not UTF-8"),
        (b"# nobody\n", "names no user"),
        (b"", "names no user"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_line(
    data: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "users"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message) as raised:
        Credentials.load(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("expires_at", "now", "lifetime"),
    [
        (None, 100.0, 0),  # never
        (101.5, 100.0, 1_500),
        (100.0, 100.0, 1),  # 0 would mean never
        (90.0, 100.0, 1),  # the difference of clocks that is allowed
        (1e18, 100.0, LIFETIME_MAX * 1000),
    ],
)
def test_a_session_ends_with_its_token(expires_at: float | None, now: float, lifetime: int) -> None:
    assert session_lifetime_ms(Proved("ann", expires_at=expires_at), now) == lifetime


def test_a_client_that_logs_in_again_is_still_the_same_user() -> None:
    Proved("ann").check_same(None)
    Proved("ann", groups=("new",)).check_same(Proved("ann"))
    with pytest.raises(AuthenticationError, match="from User:bob to User:ann"):
        Proved("ann").check_same(Proved("bob"))


def test_a_challenge_is_sent_once_and_the_next_token_is_refused_with_its_reason() -> None:
    def refuses() -> Conversation:
        yield b""
        raise AuthenticationError("for the client", why="for the log", challenge=b"because")

    login = Authentication(refuses(), is_raw=True)
    assert login.refused is None
    assert login.take(b"token", 0.0) == b"because"
    assert login.refused is not None
    for _ in range(2):
        with pytest.raises(AuthenticationError, match="for the client") as raised:
            login.take(b"\1", 0.0)
        assert (raised.value.why, raised.value.challenge) == ("for the log", None)


def test_the_log_has_the_clients_error_unless_it_has_words_of_its_own() -> None:
    assert AuthenticationError("words").why == "words"
    assert AuthenticationError("words", why="others").why == "others"
