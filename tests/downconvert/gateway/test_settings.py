import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.access.rights import ConfigError
from downconvert.gateway.config import Limits
from downconvert.gateway.settings import LIMITS, SECRET_VARIABLE, build, load
from downconvert.gateway.topology import Address
from downconvert.serving.conversions import DEFAULT_RULES, RecodeRule

FILE = """
bootstrap = ["kafka-1:9092", "kafka-2:9092"]
listen = "0.0.0.0:19092"
topics = ["metrics-*"]
networks = ["10.0.0.0/8"]
read_only = true
isolation = "read_committed"
node_ports = { 1 = 20001 }
recode = { lz4 = "gzip" }

[cluster]
tls = true
sasl = "SCRAM-SHA-512"
username = "old"

[limits]
connections = 5
"""


def test_settings_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(FILE)
    config = build(load(path), {SECRET_VARIABLE: "s3cret"})
    assert config.bootstrap == (Address("kafka-1", 9092), Address("kafka-2", 9092))
    assert config.listen == Address("0.0.0.0", 19092)
    assert config.access.is_read_only
    assert config.access.allows("metrics-1")
    assert not config.access.admits("11.0.0.1")
    assert (config.policy.isolation, config.policy.recode["lz4"]) == ("read_committed", "gzip")
    assert config.policy.recode["zstd"] == "gzip"
    assert (config.node_ports, config.limits.connections) == ({1: 20001}, 5)
    assert config.security.tls
    assert config.security.credentials is not None
    assert config.security.credentials.secret == "s3cret"
    assert "s3cret" not in repr(config)


def test_blanks_around_names_are_stripped() -> None:
    config = build({"bootstrap": "k:1", "topics": "zz*, g1", "groups": [" a ", "b,c "]}, {})
    assert config.access.topics == ("zz*", "g1")
    assert config.access.groups == ("a", "b", "c")


def test_the_secret_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from-file\n")
    cluster = {"sasl": "PLAIN", "secret_file": str(tmp_path / "secret")}
    config = build({"bootstrap": "kafka:9092", "cluster": cluster}, {})
    assert config.security.credentials is not None
    assert config.security.credentials.secret == "from-file"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "--bootstrap"),
        ({"bootstrap": "k:1", "lisen": "x"}, "'lisen' is not a setting; is listen meant"),
        ({"bootstrap": "k:1", "cluster": {"tsl": True}}, "'tsl' is not a setting of .cluster."),
        ({"bootstrap": "k:1", "limits": {"connections": 0}}, "above 0"),
        ({"bootstrap": "k:1", "limits": {"connections": "many"}}, "above 0"),
        ({"bootstrap": "k:1", "connections": 1.5}, "connections must be a whole number, not 1.5"),
        (
            {"bootstrap": "k:1", "request_percentage": 0},
            "request_percentage must be a number above 0",
        ),
        ({"bootstrap": "k:1", "read_only": "yes"}, "should be true or false"),
        ({"bootstrap": [1]}, "list of texts"),
        ({"bootstrap": "k:1", "networks": ["10.0/8"]}, "is not a network"),
        ({"bootstrap": "k:1", "cluster": {"sasl": "PLAIN"}}, SECRET_VARIABLE),
        ({"bootstrap": "k:1", "cluster": {"sasl": "PLAIN", "secret_file": "/no"}}, "secret"),
        ({"bootstrap": "k:1", "recode": {"zip": "gzip"}}, "recode: 'zip' is not gzip"),
        ({"bootstrap": "k:1", "isolation": "both"}, "isolation"),
        ({"bootstrap": "k:1", "recode_rules": [{"client": "x"}]}, "names no codec"),
        ({"bootstrap": "k:1", "recode_rules": [{"zip": "gzip"}]}, "recode_rules.*'zip'"),
        ({"bootstrap": "k:1", "recode_rules": ["lz4=gzip"]}, r"write \[\[recode_rules\]\]"),
        ({"bootstrap": "k:1", "tls_cert": "c"}, "--tls-key"),
        ({"bootstrap": "k:1", "node_ports": {"a": 1}}, "broker ids"),
        ({"bootstrap": "k:1", "topics": ""}, "topics is an empty list"),
        ({"bootstrap": "k:1", "groups": [" , "]}, "groups is an empty list"),
        ({"bootstrap": "k:1", "networks": []}, "networks is an empty list"),
        ({"bootstrap": "k:1", "topics": "a", "observe": True}, "passes everything through"),
        ({"bootstrap": "k:1", "read_only": True, "observe": True}, "passes everything through"),
    ],
)
def test_a_wrong_setting_has_an_error_that_shows_a_right_one(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        build(settings, {})


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("= nothing")
    with pytest.raises(ConfigError, match=r"x\.toml"):
        load(tmp_path / "x.toml")


def test_rules_for_some_clients_go_before_those_that_every_gateway_has() -> None:
    rules = [{"client": "sarama*", "topic": "logs-*", "lz4": "none"}]
    config = build({"bootstrap": "k:1", "recode_rules": rules}, {})
    assert config.recode_rules == (
        RecodeRule({"lz4": "none"}, topic="logs-*", client="sarama*"),
        *DEFAULT_RULES,
    )


def test_rules_for_clients_are_read(tmp_path: Path) -> None:
    users, secret = tmp_path / "users", tmp_path / "secret"
    users.write_text("ann:secret\n# nobody\n")
    secret.write_text("hidden\n")
    rule = {
        "user": "ann",
        "networks": ["10.1.0.0/16"],
        "topics": ["metrics-*"],
        "written_topics": ["metrics-in-*"],
        "sasl": "PLAIN",
        "username": "of-ann",
        "secret_file": str(secret),
    }
    found = build(
        {
            "bootstrap": "a:1",
            "groups": ["g"],
            "users_file": str(users),
            "clients": [rule, {"networks": ["10.2.0.0/16"], "read_only": True}],
        },
        {},
    )
    assert found.identities.users is not None
    assert found.identities.users.is_right("ann", "secret")
    first, second = found.identities.rules
    assert first.access.allows_writing("metrics-in-1")
    assert not first.access.allows_writing("metrics-out")
    assert first.access.allows("metrics-out")
    assert first.access.groups == ("g",)  # as for the whole listener
    assert first.credentials is not None
    assert (first.credentials.username, first.credentials.secret) == ("of-ann", "hidden")
    assert second.access.is_read_only
    assert second.credentials is None


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({}, "needs a user, a group, a certificate or networks"),
        ({"user": "a"}, "needs users_file or [oauth]"),
        ({"group": "a"}, "needs groups_claim"),
        ({"certificate": "a"}, "needs client_ca"),
        ({"networks": ["10.0.0.0/8"], "topic": "a"}, "'topic' is not a setting of"),
        ({"networks": ["10.0.0.0/8"], "sasl": "PLAIN"}, "needs its secret_file"),
        ({"networks": ["10.0.0.0/8"], "topics": []}, "topics is an empty list"),
        ("a", "are tables"),
    ],
)
def test_a_rule_for_clients_that_makes_no_sense_is_an_error(rule: object, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        build({"bootstrap": "a:1", "clients": [rule]}, {})


def test_a_missing_package_for_signatures_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("jwks", "jwks_source"):
        monkeypatch.delitem(sys.modules, f"downconvert.access.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(ConfigError, match=r"needs the package jwt: pip install .*\[oauth\]"):
        build({"bootstrap": "a:1", "oauth": OAUTH}, {})


OAUTH = {"jwks": "/no/such/file", "issuer": "i", "audience": "a"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"users_file": "/no/such/file"}, "users_file: "),
        ({"client_ca": "/no/such/file"}, "need TLS on the listener"),
        ({"oauth": 5}, "oauth is 5"),
        ({"oauth": {}}, "needs jwks"),
        ({"oauth": {"jwks": "http://idp.test/keys"}}, "needs issuer"),
        ({"oauth": OAUTH | {"jwks": "http://idp.test/keys"}}, "a file or an https URL"),
        ({"oauth": OAUTH}, "jwks of .oauth., /no/such/file: No such file"),
        ({"oauth": OAUTH | {"jwks": __file__}}, "is no JSON"),
        ({"oauth": OAUTH | {"audience": []}}, "audience is an empty list"),
        ({"oauth": OAUTH | {"clock_skew": "5"}}, "clock_skew must be a number"),
        ({"oauth": OAUTH | {"keys": "x"}}, "'keys' is not a setting of"),
        ({"oauth": OAUTH | {"jwks": "https://a/", "ca_file": "/no/file"}}, "ca_file of .oauth."),
    ],
)
def test_invalid_settings_of_identities_are_errors(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build({"bootstrap": "a:1", **settings}, {})


WHOLE_LIMITS = [
    "connections",
    "connections_per_address",
    "request_size",
    "translated_size",
    "requests_memory",
    "memory",
]


@pytest.mark.parametrize("name", LIMITS)
def test_times_may_be_parts_of_a_second_and_sizes_and_counts_are_whole(name: str) -> None:
    settings = {"bootstrap": "k:1", "limits": {name: 0.5}}
    if name in WHOLE_LIMITS:
        with pytest.raises(ConfigError, match=f"{name} must be a whole number, not 0.5"):
            build(settings, {})
    else:
        assert getattr(build(settings, {}).limits, name) == 0.5
    limits = build({"bootstrap": "k:1", "limits": {name: 7}}, {}).limits
    assert limits == replace(Limits(), **{name: 7})
