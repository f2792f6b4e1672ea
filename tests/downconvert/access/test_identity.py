"""A client's network, login or certificate decides who it is, and so what it may do."""

from typing import Any

import pytest

from downconvert.access.identity import ClientRule, Identified, Identities, Users, common_name
from downconvert.access.rights import Access, parse_network

OF_ALL = Access(is_read_only=True)  # the listener's own
MINE: Any = Identified(name="", access=OF_ALL, credentials=None)
ANN, CERTIFIED, NEAR = (Access(topics=(name,)) for name in ("ann", "certified", "near"))
USERS = Users({"ann": "secret", "bob": "other"})
ADDRESS = "10.0.0.7"


def found(identities: Identities[None], **who: Any) -> Access | None:
    one = identities.find(MINE, ADDRESS, **who)
    return None if one is None else one.access


def rule(access: Access, **fields: Any) -> ClientRule[None]:
    return ClientRule(access=access, credentials=None, **fields)


def test_where_nobody_has_to_prove_anything_all_have_the_listeners_rights() -> None:
    identities: Identities[None] = Identities()
    assert not identities.is_needed
    assert found(identities) == OF_ALL


@pytest.mark.parametrize(
    "identities", [Identities(users=USERS), Identities(client_ca="authorities.pem")]
)
def test_a_client_that_has_not_proved_its_identity_is_not_admitted(
    identities: Identities[None],
) -> None:
    assert identities.is_needed
    assert found(identities) is None
    assert found(identities, user="ann") == OF_ALL
    assert found(identities, certificate="ann") == OF_ALL


def test_where_there_are_rules_only_whom_they_name_is_admitted() -> None:
    rules = (
        rule(ANN, user="ann"),
        rule(CERTIFIED, certificate="c*"),
        rule(NEAR, networks=(parse_network("10.0.0.0/24"),), group="near"),
    )
    identities: Identities[None] = Identities(users=USERS, rules=rules)
    assert found(identities, user="ann") == ANN
    assert found(identities, user="bob") is None
    assert found(identities, certificate="carl") == CERTIFIED
    assert found(identities, user="bob", groups=["far", "near"]) == NEAR
    assert found(identities, user="bob", groups=["far"]) is None
    assert found(identities) is None


def test_the_first_rule_that_fits_counts_and_all_its_conditions_must() -> None:
    rules = (
        rule(ANN, user="ann", networks=(parse_network("192.168.0.0/16"),)),
        rule(NEAR, user="ann"),
        rule(CERTIFIED, user="a*"),
    )
    one = Identities(users=USERS, rules=rules).find(MINE, ADDRESS, user="ann")
    assert one is not None
    assert (one.access, one.rule, one.name) == (NEAR, 2, "ann")
    one = Identities(users=USERS, rules=rules).find(MINE, "192.168.3.4", user="ann")
    assert one is not None
    assert (one.access, one.rule) == (ANN, 1)


def test_a_login_names_a_client_before_its_certificate_and_that_before_its_address() -> None:
    identities: Identities[None] = Identities()
    for who, name in (
        ({"user": "ann", "certificate": "c"}, "ann"),
        ({"certificate": "c"}, "c"),
        ({}, ADDRESS),
    ):
        one = identities.find(MINE, ADDRESS, **who)
        assert one is not None
        assert one.name == name


def test_the_name_of_a_certificate() -> None:
    assert common_name({"subject": ((("commonName", "ann"),),)}) == "ann"
    assert common_name(None) is None
