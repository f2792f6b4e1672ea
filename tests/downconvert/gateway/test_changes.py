"""Which changed settings apply on a reload, and which wait: every field of the configuration."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import pytest

from downconvert import ConversionPolicy
from downconvert.access.identity import Users
from downconvert.access.rights import Access, ConfigError, parse_network
from downconvert.access.tokens import Tokens, TokenSettings
from downconvert.gateway.advertised import Advertised
from downconvert.gateway.changes import Changes, applicable, changes
from downconvert.gateway.config import GatewayConfig, Limits
from downconvert.gateway.identity import ClientRule, Identities
from downconvert.gateway.security import ClusterSecurity, Credentials
from downconvert.gateway.server import Gateway
from downconvert.gateway.settings import LIMITS as LIMITS_OF_A_FILE
from downconvert.gateway.settings import TOP
from downconvert.gateway.topology import Address
from downconvert.serving.conversions import RecodeRule
from tests.certificates import self_signed
from tests.tokens import write

BY_NAME: Final = Advertised.parse("broker-{id}.test:9092")
FORMER: Final = GatewayConfig(
    bootstrap=(Address("a", 1),),
    listen=Address("127.0.0.1", 1),
    advertised=BY_NAME,
    tls_cert="cert",
    tls_key="key",
)
# Another value of each field, with its name for an operator.
LATER: Final[dict[str, tuple[Any, str]]] = {
    "bootstrap": ((Address("b", 2),), "bootstrap"),
    "listen": (Address("127.0.0.1", 2), "listen"),
    "advertised": (Advertised.parse("other-{id}.test:9092"), "advertise"),
    "advertised_without_name": (Advertised.parse("other.test:{id}"), "advertise_without_name"),
    "server_names": (("kafka.test",), "server_names"),
    "node_port_first": (7_000, "node_port_first"),
    "node_ports": ({3: 7_003}, "node_ports"),
    "security": (ClusterSecurity(tls=True), "cluster"),
    "tls_cert": ("other", "tls_cert"),
    "tls_key": ("other", "tls_key"),
    "tls_min_version": ("1.3", "tls_min_version"),
    "tls_ciphers": ("HIGH", "tls_ciphers"),
    "proxy_networks": ((parse_network("10.0.0.0/8"),), "proxy_networks"),
    "access": (Access(topics=("t",)), "what clients may do"),
    "identities": (Identities(client_ca="ca"), "who clients are"),
    "policy": (ConversionPolicy(recode={"lz4": "gzip"}), "recode"),
    "recode_rules": ((RecodeRule({"lz4": "gzip"}),), "recode_rules"),
    "is_observing": (True, "observe"),
    "shares_ports": (True, "share_ports"),
    "refresh_seconds": (5.0, "refresh_seconds"),
    "spool_dir": ("/spool", "spool_dir"),
}
WAITING: Final = {"listen", "node_port_first", "node_ports", "shares_ports"}
LIMITS_WAITING: Final = {"memory", "requests_memory"}
LIMIT_NAMES: Final = [one.name for one in fields(Limits)]


def with_limit(name: str, by: int = 1) -> GatewayConfig:
    limits = replace(FORMER.limits, **{name: getattr(FORMER.limits, name) + by})
    return replace(FORMER, limits=limits)


def test_the_examples_change_every_setting() -> None:
    assert LATER.keys() | {"limits"} == {one.name for one in fields(GatewayConfig)}
    assert all(getattr(FORMER, name) != value for name, (value, _) in LATER.items())


@pytest.mark.parametrize("field", LATER)
def test_a_changed_setting_is_reported_once_by_its_name_in_the_file(field: str) -> None:
    value, name = LATER[field]
    later = replace(FORMER, **{field: value})
    expected = Changes(after_restart=(name,)) if field in WAITING else Changes(applied=(name,))
    assert changes(FORMER, later) == changes(later, FORMER) == expected
    assert name in TOP or " " in name  # several settings have a name for all of them


@pytest.mark.parametrize("name", LIMIT_NAMES)
def test_a_changed_limit_is_reported_once(name: str) -> None:
    waits = name in LIMITS_WAITING
    expected = Changes(after_restart=(name,)) if waits else Changes(applied=(name,))
    assert changes(FORMER, with_limit(name)) == expected
    assert name in LIMITS_OF_A_FILE


def test_unchanged_settings_are_not_reported() -> None:
    same = replace(FORMER, limits=replace(FORMER.limits), node_ports=dict(FORMER.node_ports))
    assert changes(FORMER, same) == Changes()
    assert str(changes(FORMER, same)) == "nothing has changed"


def test_a_text_for_the_log_names_both_kinds() -> None:
    both = Changes(("bootstrap", "recode"), ("listen", "memory"))
    assert str(both) == "applied: bootstrap, recode; need a restart: listen, memory"
    assert str(replace(both, applied=())) == "need a restart: listen, memory"
    assert str(replace(both, after_restart=())) == "applied: bootstrap, recode"


# --- who clients are


def users(text: str, directory: Path) -> Identities:
    (directory / "users").write_text(text)
    found = Users.load(directory / "users")
    assert isinstance(found, Users)
    return Identities(users=found)


def tokens(directory: Path, **settings: Any) -> Identities:
    whole = {"jwks": str(write(directory)), "issuer": "i", "audience": ("a",), **settings}
    return Identities(tokens=Tokens(TokenSettings(**whole)))


def are_told(former: Identities, later: Identities) -> bool:
    found = changes(replace(FORMER, identities=former), replace(FORMER, identities=later))
    assert found in (Changes(), Changes(applied=("who clients are",)))
    return found != Changes()


def test_another_password_is_a_change_and_the_same_file_is_not(tmp_path: Path) -> None:
    ann = users("ann:a\n", tmp_path)
    assert not are_told(ann, users("# one\nann:a\n", tmp_path))
    assert are_told(ann, users("ann:b\n", tmp_path))
    assert are_told(ann, users("ann:a\nbob:b\n", tmp_path))
    assert are_told(ann, Identities())
    assert are_told(Identities(), ann)


def test_other_conditions_for_tokens_are_a_change_and_the_same_ones_are_not(
    tmp_path: Path,
) -> None:
    one = tokens(tmp_path)
    assert not are_told(one, tokens(tmp_path))
    assert are_told(one, tokens(tmp_path, clock_skew=5.0))
    assert are_told(one, tokens(tmp_path, audience=("b",)))
    assert are_told(one, Identities())
    assert are_told(Identities(), one)


def test_another_rule_or_another_order_of_rules_is_a_change() -> None:
    secret = Credentials(mechanism="PLAIN", username="u", secret="s")
    rules = tuple(
        ClientRule(access=Access(topics=(name,)), credentials=secret, user=name) for name in "ab"
    )
    former = Identities(rules=rules)
    assert not are_told(former, Identities(rules=tuple(map(replace, rules))))
    assert are_told(former, Identities(rules=rules[::-1]))
    assert are_told(former, Identities(rules=rules[:1]))
    other = replace(rules[1], credentials=replace(secret, secret="t"))
    assert are_told(former, Identities(rules=(rules[0], other)))


# --- what applies


def whole() -> GatewayConfig:
    """A configuration in which every field and every limit differs from FORMER, but `is_observing`:
    who observes, identifies nobody."""
    limits = {name: getattr(FORMER.limits, name) + 1 for name in LIMIT_NAMES}
    values = {name: value for name, (value, _) in LATER.items() if name != "is_observing"}
    return replace(FORMER, **values, limits=Limits(**limits))


def test_settings_that_wait_keep_their_value_and_all_others_apply() -> None:
    later = whole()
    found = applicable(FORMER, later)
    for one in fields(GatewayConfig):
        expected = FORMER if one.name in WAITING else later
        if one.name != "limits":
            assert getattr(found, one.name) == getattr(expected, one.name), one.name
    for name in LIMIT_NAMES:
        of = FORMER.limits if name in LIMITS_WAITING else later.limits
        assert getattr(found.limits, name) == getattr(of, name), name
    left = changes(found, later)
    assert (left.applied, len(left.after_restart)) == ((), len(WAITING) + len(LIMITS_WAITING))


@contextmanager
def gateway(config: GatewayConfig) -> Iterator[Gateway]:
    """A gateway that does not serve."""
    one = Gateway(config)
    try:
        yield one
    finally:
        one.pool.close()


def test_a_gateway_applies_what_can_be_applied_and_goes_on_telling_what_waits() -> None:
    plain = GatewayConfig(bootstrap=(Address("a", 1),), listen=Address("127.0.0.1", 1))
    limits = replace(plain.limits, connections=5, memory=6)
    later = replace(
        plain,
        bootstrap=(Address("b", 2),),
        listen=Address("127.0.0.1", 2),
        node_ports={1: 7_001},
        access=Access(topics=("t",)),
        limits=limits,
    )
    with gateway(plain) as one:
        told = changes(one.config, later)
        one.reload(later)
        assert (one.config.listen, one.config.node_ports) == (plain.listen, {})
        assert one.topology.bootstrap == later.bootstrap
        assert one.config.access == later.access
        assert (one.config.limits.connections, one.config.limits.memory) == (5, plain.limits.memory)
        assert changes(one.config, later) == Changes(after_restart=told.after_restart)
        one.reload(plain)
        assert changes(one.config, plain) == Changes()


def test_tls_that_would_begin_on_a_reload_is_an_error_and_changes_nothing() -> None:
    """Clients that are connected would go on without it."""
    plain = GatewayConfig(bootstrap=(Address("a", 1),))
    later = replace(plain, bootstrap=(Address("b", 2),), tls_cert="/no", tls_key="/no")
    with gateway(plain) as one:
        with pytest.raises(ConfigError, match="restart to turn TLS of the listener on or off"):
            one.reload(later)
        assert one.config == plain
        assert one.topology.bootstrap == plain.bootstrap


def test_tls_that_would_end_on_a_reload_is_an_error(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    plain = GatewayConfig(bootstrap=(Address("a", 1),))
    with gateway(replace(plain, tls_cert=certificate, tls_key=key)) as one:
        with pytest.raises(ConfigError, match="restart to turn TLS of the listener on or off"):
            one.reload(plain)
        assert one.certificates.server is not None
