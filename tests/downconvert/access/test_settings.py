"""Rights and identities as an operator writes them: what is inherited, and what is an error.

Not here: settings of a gateway only (gateway/test_settings.py), and of a broker
(test_guard_files.py)."""

import re
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_network
from math import inf, nan
from pathlib import Path
from typing import Any, Final

import pytest

from downconvert.access.identity import ClientRule
from downconvert.access.rights import Access, ConfigError
from downconvert.access.settings import (
    CLIENT_LIMITS,
    FOLLOWERS,
    OAUTH,
    RATES,
    access_of,
    check_known,
    identities_of,
    load,
    networks_of,
    number_of,
    texts_of,
    value_of,
)
from tests.tokens import write

NETWORKS: Final = {"networks": ["10.1.0.0/16"]}
LIMITS: Final = {
    "producer_byte_rate": 11,
    "consumer_byte_rate": 12.5,
    "connections": 13,
    "connection_creation_rate": 14.5,
    "request_percentage": 15,
}
WHOLE: Final[dict[str, Any]] = {
    "topics": ["t1", "t2"],
    "written_topics": ["w"],
    "groups": ["g"],
    "transactional_ids": ["i"],
    "read_only": True,
    "deny_by_default": True,
    **LIMITS,
}
# No two settings are equal, and none has its default.
DEFAULT: Final = Access(
    networks=(ip_network("10.9.0.0/16"),),
    topics=("dt",),
    written_topics=("dw",),
    groups=("dg",),
    transactional_ids=("di",),
    is_read_only=True,
    denies_unnamed=True,
    follower_ids=frozenset({91}),
    producer_byte_rate=92.0,
    consumer_byte_rate=93.0,
    connections=94,
    connection_creation_rate=95.0,
    request_percentage=96.0,
)
LOWER: Final = replace(DEFAULT, **dict.fromkeys(sorted(RATES | CLIENT_LIMITS), 1))
MORE_NAMES: Final = CLIENT_LIMITS | {FOLLOWERS}


def rules(
    *tables: object, default: Access = DEFAULT, **settings: Any
) -> tuple[ClientRule[object], ...]:
    """The rules of a file. Their credentials are their tables."""
    found = identities_of({**settings, "clients": list(tables)}, default, dict, MORE_NAMES)
    return found.rules


def rule(default: Access = DEFAULT, **table: Any) -> ClientRule[object]:
    (found,) = rules({**NETWORKS, **table}, default=default)
    return found


def refusal(**settings: Any) -> str:
    """Why settings are refused."""
    with pytest.raises(ConfigError) as caught:
        identities_of(settings, Access(), dict, MORE_NAMES)
    return str(caught.value)


# --- rights


def test_rights_are_those_that_are_written() -> None:
    assert access_of({**WHOLE, **NETWORKS, FOLLOWERS: [0, 7]}, Access()) == Access(
        networks=(ip_network("10.1.0.0/16"),),
        topics=("t1", "t2"),
        written_topics=("w",),
        groups=("g",),
        transactional_ids=("i",),
        is_read_only=True,
        denies_unnamed=True,
        follower_ids=frozenset({0, 7}),
        producer_byte_rate=11.0,
        consumer_byte_rate=12.5,
        connections=13,
        connection_creation_rate=14.5,
        request_percentage=15.0,
    )
    assert access_of({}, Access()) == Access()


def test_rights_that_are_not_written_are_those_of_the_listener_but_its_networks() -> None:
    """The listener's networks hold before any rule. A rule without networks is for any client."""
    inherited = {name: getattr(DEFAULT, name) for name in Access.__dataclass_fields__}
    found = access_of({}, DEFAULT)
    assert found.networks == ()
    names = inherited.keys() - {"networks"}
    assert {name: getattr(found, name) for name in names} == {
        name: inherited[name] for name in names
    }


@pytest.mark.parametrize("default", [DEFAULT, LOWER], ids=["above", "below"])
@pytest.mark.parametrize("name", [*WHOLE, "follower_ids"])
def test_each_right_of_a_rule_replaces_the_listeners_and_no_other(
    name: str, default: Access
) -> None:
    field = {"read_only": "is_read_only", "deny_by_default": "denies_unnamed"}.get(name, name)
    value = {"read_only": False, "deny_by_default": False, "follower_ids": [5]}.get(
        name, WHOLE.get(name)
    )
    found = access_of({name: value}, default)
    changed = {
        one
        for one in Access.__dataclass_fields__
        if getattr(found, one) != getattr(default, one) and one != "networks"
    }
    assert changed - {"is_closed"} == {field}
    shown = getattr(found, field)
    assert (sorted(shown) if isinstance(shown, tuple | frozenset) else shown) == value


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"connections": 1.5}, "connections must be a whole number, not 1.5"),
        ({"follower_ids": []}, "follower_ids must be a list of brokers' ids"),
        ({"follower_ids": [1, -1]}, "follower_ids must be a list of brokers' ids"),
        ({"follower_ids": [True]}, "follower_ids must be a list of brokers' ids"),
        ({"follower_ids": ["1"]}, "follower_ids must be a list of brokers' ids"),
        ({"follower_ids": 1}, "follower_ids is 1, which should be a list"),
        ({"networks": ["10.0.0.0/8", "10.300.0.0"]}, "networks: '10.300.0.0' is not a network"),
        ({"topics": ["a", 5]}, "topics must be a list of texts"),
        ({"topics": [" ", ","]}, "topics is an empty list"),
        ({"read_only": 1}, "read_only is 1, which should be true or false"),
        ({"deny_by_default": "true"}, "deny_by_default is 'true', which should be true or false"),
        *(
            ({name: value}, f"{name} must be a number above 0, not")
            for name in sorted(RATES | CLIENT_LIMITS)
            for value in (0, -1, True, "5", None, inf, nan)
        ),
    ],
)
def test_a_right_that_makes_no_sense_says_what_to_write(
    settings: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        access_of(settings, Access())


# --- rules


def test_a_rule_is_for_the_clients_that_it_names_and_has_their_credentials() -> None:
    found = rule(Access(), topics=["x"])
    assert found.networks == (ip_network("10.1.0.0/16"),)
    assert (found.user, found.group, found.certificate) == (None, None, None)
    assert found.access == Access(topics=("x",))  # networks say who it is for, not what is allowed
    assert found.credentials == {**NETWORKS, "topics": ["x"]}


def test_a_rule_without_networks_is_not_for_those_of_the_listener(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("ann:x\n")
    (found,) = rules({"user": "ann"}, users_file=str(tmp_path / "users"))
    assert (found.networks, found.access.networks) == ((), ())
    assert found.user == "ann"


def test_rules_keep_their_order() -> None:
    found = rules({**NETWORKS, "topics": "a"}, {**NETWORKS, "topics": "b"})
    assert [one.access.topics for one in found] == [("a",), ("b",)]


def test_a_super_user_may_do_everything_at_the_listeners_rates() -> None:
    found = rule(super_user=True).access
    assert found == Access(
        producer_byte_rate=92.0,
        consumer_byte_rate=93.0,
        connections=94,
        connection_creation_rate=95.0,
        request_percentage=96.0,
    )
    assert rule(super_user=True, **LIMITS).access == access_of(LIMITS, Access())
    assert rule(super_user=False).access == access_of({}, DEFAULT)


@pytest.mark.parametrize(
    "limit", ["topics", "written_topics", "groups", "transactional_ids", "read_only"]
)
def test_a_super_user_with_a_limit_is_a_mistake(limit: str) -> None:
    table = {**NETWORKS, "super_user": True, limit: WHOLE[limit]}
    words = f"a rule with super_user allows everything: leave out {limit}"
    assert refusal(clients=[table]) == words


def test_denying_by_default_is_for_all_rules_or_none() -> None:
    """A rule that switched it off would open more than it names."""
    assert rule(Access(denies_unnamed=True), groups=["g"]).access.denies_unnamed
    assert "'deny_by_default' is not a setting of [[clients]]" in refusal(
        clients=[{**NETWORKS, "deny_by_default": False}]
    )


@pytest.mark.parametrize(
    ("table", "settings", "words"),
    [
        ({}, {}, "a rule of [[clients]] needs a user, a group, a certificate or networks"),
        ({"topics": "a"}, {}, "a rule of [[clients]] needs a user"),
        ({"user": "u"}, {}, "a rule for user 'u' needs users_file or [oauth]"),
        ({"group": "u"}, {"oauth": True}, "a rule for group 'u' needs groups_claim under [oauth]"),
        ({"group": "u"}, {}, "a rule for group 'u' needs groups_claim under [oauth]"),
        ({"certificate": "u"}, {}, "a rule for certificate 'u' needs client_ca"),
        ({"certificate": "c", "user": "u"}, {}, "a rule for user 'u' needs users_file"),
        ({"networks": "10.0.0.1", "group": "g"}, {}, "a rule for group 'g' needs groups_claim"),
        ({"user": 5}, {}, "user is 5, which should be a text"),
        ({"user": ""}, {}, "user is empty: leave it out, or say what it is"),
        ("u", {}, "clients are tables: write [[clients]] before each"),
    ],
)
def test_a_rule_that_can_match_no_client_is_an_error(
    tmp_path: Path, table: object, settings: dict[str, Any], words: str
) -> None:
    if settings:
        settings = {"oauth": oauth(tmp_path)}
    assert words in refusal(clients=[table], **settings)


def test_rules_for_users_groups_and_certificates_say_how_these_are_known(tmp_path: Path) -> None:
    table = oauth(tmp_path, groups_claim="groups")
    user, group, certificate = rules(
        {"user": "u"}, {"group": "g"}, {"certificate": "c"}, oauth=table, client_ca="ca.pem"
    )
    assert (user.user, group.group, certificate.certificate) == ("u", "g", "c")
    assert user.networks == group.networks == certificate.networks == ()


# --- users and tokens


def oauth(directory: Path, **more: Any) -> dict[str, Any]:
    return {"jwks": str(write(directory)), "issuer": "i", "audience": "a, b", **more}


def test_users_are_those_of_their_file(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("ann:secret\n")
    found = identities_of({"users_file": str(path), "client_ca": "ca.pem"}, Access(), dict)
    assert found.users is not None
    assert found.users.passwords == {"ann": "secret"}
    assert (found.tokens, found.client_ca, found.rules) == (None, "ca.pem", ())
    path.write_text("ann\n")
    assert refusal(users_file=str(path)) == f"users_file: {path}: line 1 is not NAME:PASSWORD"
    path.unlink()
    assert refusal(users_file=str(path)) == f"users_file: {path}: No such file or directory"


def test_conditions_for_tokens_are_those_of_their_table(tmp_path: Path) -> None:
    table = oauth(
        tmp_path,
        scope=["s1", "s2"],
        principal_claim="p",
        scope_claim="sc",
        groups_claim="gc",
        clock_skew=7,
        renew_seconds=8,
    )
    found = identities_of({"oauth": table}, Access(), dict)
    assert (found.users, found.client_ca) == (None, None)
    assert found.tokens is not None
    settings = found.tokens.settings
    assert {name: getattr(settings, name) for name in OAUTH} == {
        **table,
        "audience": ("a", "b"),
        "scope": ("s1", "s2"),
        "clock_skew": 7.0,
        "renew_seconds": 8.0,
        "ca_file": None,
    }


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"jwks": "/no/such/file"}, "No such file"),
        ({"issuer": 5}, "issuer is 5, which should be a text"),
        ({"scope": 5}, "scope must be a list of texts"),
        ({"renew_seconds": "8"}, "renew_seconds must be a number above 0"),
        ({"clock_skew": 0}, "clock_skew must be a number above 0"),
        ({"issuers": "i"}, "'issuers' is not a setting of [oauth]; is issuer meant?"),
    ],
)
def test_conditions_that_make_no_sense_say_what_to_write(
    tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    """Keys that cannot be read are an error, too: such a listener could accept nobody's token."""
    assert words in refusal(oauth=oauth(tmp_path) | more)


# --- values


@pytest.mark.parametrize("line", [1, 2, 5])
def test_a_file_that_is_not_utf_8_or_not_toml_is_named_with_its_line(
    tmp_path: Path, line: int
) -> None:
    path = tmp_path / "rights.toml"
    before = b"# one\n" * (line - 1)
    path.write_bytes(before + b"topics = '\xff'\ngroups = 5\n")
    with pytest.raises(ConfigError, match=rf"rights\.toml: line {line} is not UTF-8"):
        load(path)
    path.write_bytes(before + b"topics = \n")
    with pytest.raises(ConfigError, match=rf"rights\.toml: .*line {line}"):
        load(path)
    path.write_bytes("topics = 'ä'\n".encode())
    assert load(path) == {"topics": "ä"}


def test_an_unknown_name_is_reported_with_the_one_that_is_meant() -> None:
    known = frozenset({"topics", "groups"})
    check_known("a setting", {"topics": 1}, known)
    with pytest.raises(ConfigError, match=r"^'grops' is not a setting; is groups meant\?$"):
        check_known("a setting", {"topics": 1, "zz": 1, "grops": 1}, known)
    with pytest.raises(ConfigError, match=r"^'zz' is not a setting; there are: groups, topics$"):
        check_known("a setting", {"zz": 1}, known)


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("a", ["a"]),
        (" a , b,c", ["a", "b", "c"]),
        (["a, b", " c "], ["a", "b", "c"]),
        (("a",), ["a"]),
        ("a,,b,", ["a", "b"]),
    ],
)
def test_lists_are_texts_or_one_text_with_commas(value: object, texts: list[str]) -> None:
    assert texts_of({"x": value}, "x") == texts


@pytest.mark.parametrize("value", ["", [], " ", ",", [" ", ","], ()])
def test_an_empty_list_is_an_error_and_a_missing_one_is_not(value: object) -> None:
    """It would mean "all" where an operator meant to restrict."""
    with pytest.raises(ConfigError, match="x is an empty list: name something, or leave x out"):
        texts_of({"x": value}, "x")
    assert texts_of({}, "x") == []
    assert networks_of({}, "x") == ()


@pytest.mark.parametrize("value", [1, 0.001, 2**40])
def test_numbers_above_0_are_taken_as_they_are(value: float) -> None:
    assert number_of({"x": value}, "x") == value


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (bool, 1, "x is 1, which should be true or false"),
        (int, True, "x is True, which should be a whole number"),
        (int, 1.0, "x is 1.0, which should be a whole number"),
        (str, 5, "x is 5, which should be a text"),
        (str, "", "x is empty: leave it out, or say what it is"),
        (list, "a", "x is 'a', which should be a list"),
        (list, {}, "x is one table: write [[x]] instead of [x]"),
        (dict, [], "x is [], which should be a table"),
    ],
)
def test_a_value_has_the_type_of_its_setting(kind: Any, value: object, words: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(words)}$"):
        value_of(kind, {"x": value}, "x", None)
    assert value_of(kind, {"y": value}, "x", None) is None


def test_values_of_the_type_are_taken_and_a_default_may_be_of_another() -> None:
    for kind, value in ((bool, False), (int, 0), (str, "a"), (list, []), (dict, {})):
        assert value_of(kind, {"x": value}, "x", None) == value
    assert value_of(str, {}, "x", "") == ""
