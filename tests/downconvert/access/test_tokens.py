import pickle
from pathlib import Path
from typing import Any

import pytest

from downconvert.access.jwks import Jwks
from downconvert.access.jwks_source import JwksSource
from downconvert.access.rights import ConfigError
from downconvert.access.tokens import NoKeyYetError, TokenError, Tokens, TokenSettings, keep
from tests.tokens import AUDIENCE, ISSUER, document, jwk, token, write
from tests.waiting import wait_for

NOW = 1_700_000_000.0


def made(directory: Path, *keys: dict[str, Any], **settings: Any) -> Tokens:
    """A verifier that has read its keys."""
    whole = {"jwks": str(write(directory, *keys)), "issuer": ISSUER, "audience": (AUDIENCE,)}
    tokens = Tokens(TokenSettings(**(whole | settings)))
    tokens.check()
    tokens.source.renew()
    return tokens


def test_a_token_has_a_name_groups_and_an_expiry_time(tmp_path: Path) -> None:
    settings = {"principal_claim": "azp", "groups_claim": "groups", "scope": ("write",)}
    tokens = made(tmp_path, **settings, scope_claim="scp")
    bearer = token(NOW, azp="app-1", groups=["a", "b"], scp="read write", aud=["x", AUDIENCE])
    claims = tokens.judge(bearer, NOW, waits=False)
    assert (claims.name, claims.groups, claims.expires_at) == ("app-1", ("a", "b"), NOW + 3600)
    assert pickle.loads(pickle.dumps(tokens)).settings == tokens.settings


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"iss": "https://other.test"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"iss": [ISSUER]}, "issuer"),
        ({"aud": "other"}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": {AUDIENCE: 1}}, "audience"),
        ({"aud": "kafkaesque"}, "audience"),
        ({"exp": None}, "until when"),
        ({"exp": NOW - 31}, "expired 31 s ago"),
        ({"exp": True}, "is not a time"),
        ({"exp": "soon"}, "is not a time"),
        ({"exp": float("nan")}, "is not a time"),
        ({"exp": float("inf")}, "is not a time"),
        ({"exp": 10**400}, "is not a time"),
        ({"nbf": NOW + 31}, "not valid yet"),
        ({"iat": NOW + 31}, "in the future"),
        ({"sub": None}, "is not a name"),
        ({"sub": ""}, "is not a name"),
        ({"sub": "a\nb"}, "is not a name"),
        ({"sub": "a" * 257}, "is not a name"),
        ({"sub": 5}, "is not a name"),
        ({"groups": {"a": 1}}, "is not a list"),
    ],
)
def test_a_token_that_is_not_for_us_or_not_now_is_refused(
    tmp_path: Path, claims: dict[str, Any], words: str
) -> None:
    tokens = made(tmp_path, groups_claim="groups")
    with pytest.raises(TokenError, match=words):
        tokens.judge(token(NOW, **claims), NOW, waits=False)


def test_clocks_may_differ_by_a_little(tmp_path: Path) -> None:
    tokens = made(tmp_path)
    for claims in ({"exp": NOW - 29}, {"nbf": NOW + 29}, {"iat": NOW + 29}):
        assert tokens.judge(token(NOW, **claims), NOW, waits=False).name == "ann"


def test_a_token_is_valid_until_its_time_and_the_clocks_difference_are_over(
    tmp_path: Path,
) -> None:
    tokens = made(tmp_path)
    for claims in ({"nbf": NOW + 30}, {"iat": NOW + 30}):
        assert tokens.judge(token(NOW, **claims), NOW, waits=False).name == "ann"
    with pytest.raises(TokenError, match="expired 30 s ago"):
        tokens.judge(token(NOW, exp=NOW - 30), NOW, waits=False)


def test_groups_are_so_many_and_what_is_no_name_is_left_out(tmp_path: Path) -> None:
    tokens = made(tmp_path, groups_claim="groups")
    groups = ["g", 5, None, ["h"], *("x" * 5 for _ in range(996))]
    assert len(groups) == 1000
    found = tokens.judge(token(NOW, groups=groups), NOW, waits=False).groups
    assert found == ("g", *("x" * 5 for _ in range(996)))
    with pytest.raises(TokenError, match="is not a list of names"):
        tokens.judge(token(NOW, groups=[*groups, "y"]), NOW, waits=False)


def test_a_token_with_every_scope_needs_no_audience_where_none_is_required(tmp_path: Path) -> None:
    tokens = made(tmp_path, scope=("write",), audience=())
    bearer = token(NOW, scope="read write", aud="other")
    assert tokens.judge(bearer, NOW, waits=False).name == "ann"


def test_tokens_that_are_too_large_or_no_text_are_refused(tmp_path: Path) -> None:
    tokens = made(tmp_path)
    for bearer in (token(NOW, more="x" * 16_384), b"\xff.\xff.\xff", b"[" * 16_000, b""):
        with pytest.raises(TokenError):
            tokens.judge(bearer, NOW, waits=False)


def test_a_scope_that_is_missing_is_an_error_of_its_own(tmp_path: Path) -> None:
    tokens = made(tmp_path, scope=("write", "read"), audience=())
    with pytest.raises(TokenError, match="does not have write") as caught:
        tokens.judge(token(NOW, scope="read"), NOW, waits=False)
    assert caught.value.status == "insufficient_scope"


def test_a_token_waits_for_a_key_that_is_being_fetched(tmp_path: Path) -> None:
    tokens = made(tmp_path, jwk("rsa"))
    bearer = token(NOW, by="p256")
    with pytest.raises(NoKeyYetError):
        tokens.judge(bearer, NOW, waits=True)
    with pytest.raises(TokenError, match="not known"):
        tokens.judge(bearer, NOW, waits=False)
    write(tmp_path, jwk("p256"))
    tokens.source.renew()
    assert tokens.judge(bearer, NOW, waits=True).name == "ann"


def test_before_there_are_keys_no_client_is_admitted(tmp_path: Path) -> None:
    tokens = Tokens(TokenSettings(jwks=str(tmp_path / "k"), issuer=ISSUER, audience=("a",)))
    tokens.source.renew()
    assert tokens.failure == "No such file or directory"
    with pytest.raises(TokenError, match="there are no keys: No such file"):
        tokens.judge(token(NOW), NOW, waits=True)


def test_the_same_settings_keep_their_keys(tmp_path: Path) -> None:
    former, same = made(tmp_path), made(tmp_path)
    former.start()
    for kept in (jwk("rsa"), jwk("p384")):  # which are read again each time, however soon
        write(tmp_path, kept)
        assert keep(former, same) is former
        wait_for(lambda: not former.source.is_renewing)
        assert former.source.jwks is not None
        assert [key.kid for key in former.source.jwks.keys] == [kept["kid"]]
    other = made(tmp_path, issuer="https://other.test")
    assert keep(former, other) is other
    assert keep(other, None) is None


def test_clients_of_former_conditions_get_new_keys_too(tmp_path: Path) -> None:
    """They stay connected, and log in again when their tokens expire."""
    former, later = made(tmp_path, jwk("rsa")), made(tmp_path, jwk("rsa"), scope=("write",))
    former.start()
    assert keep(former, later) is later
    write(tmp_path, jwk("p256"))
    later.renew()
    wait_for(lambda: not later.source.is_renewing)
    assert former.judge(token(NOW), NOW, waits=False).name == "ann"
    assert later.judge(token(NOW, scope="write"), NOW, waits=False).name == "ann"
    with pytest.raises(TokenError, match="scope"):
        later.judge(token(NOW), NOW, waits=False)
    elsewhere = Tokens(TokenSettings(jwks=str(tmp_path / "k"), issuer=ISSUER, audience=("a",)))
    assert keep(later, elsewhere) is elsewhere
    assert elsewhere.source is not later.source
    assert keep(elsewhere, None) is None


class Renewing(JwksSource):
    """A source whose thread ends reading new keys while a token is judged: right after the token's
    keys were looked at."""

    def __init__(self, *found: Jwks | None) -> None:
        super().__init__("keys", lambda: b"", 3600)
        self.found = list(found)

    @property
    def jwks(self) -> Jwks | None:
        return self.found.pop(0) if self.is_renewing else self.found[0]

    @property
    def is_renewing(self) -> bool:
        return len(self.found) > 1

    def miss(self) -> None:
        """They were asked for by another token already."""


@pytest.mark.parametrize("has_others", [True, False])
def test_a_key_that_arrives_while_its_token_is_judged_is_looked_for_again(
    tmp_path: Path, has_others: bool
) -> None:
    tokens = made(tmp_path)
    before, after = Jwks.parse(document(jwk("rsa"))), Jwks.parse(document(jwk("p256")))
    tokens.source = Renewing(before if has_others else None, after)
    with pytest.raises(NoKeyYetError):
        tokens.judge(token(NOW), NOW, waits=True)
    assert tokens.judge(token(NOW), NOW, waits=True).name == "ann"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"jwks": ""}, "needs jwks"),
        ({"issuer": ""}, "needs issuer"),
        ({"audience": ()}, "audience or scope"),
    ],
)
def test_settings_that_accept_tokens_for_other_services_are_errors(
    settings: dict[str, Any], words: str
) -> None:
    whole = {"jwks": "k", "issuer": ISSUER, "audience": (AUDIENCE,)}
    with pytest.raises(ConfigError, match=words):
        TokenSettings(**(whole | settings))
