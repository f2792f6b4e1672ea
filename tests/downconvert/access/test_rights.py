"""A rule gives Kafka's operations on each kind of resource."""

from typing import Final

import pytest

from downconvert.access import operations
from downconvert.access.operations import ALL, LOOKING, NO_OPERATION, READ, READING, WRITE, Kind
from downconvert.access.rights import Access, parse_network

TOPIC, GROUP, ID, CLUSTER = Kind.TOPIC, Kind.GROUP, Kind.TRANSACTIONAL_ID, Kind.CLUSTER
READER: Final = Access(is_read_only=True)
WRITES: Final = operations.CHANGING


def of(access: Access, name: str = "mine") -> dict[Kind, int]:
    return {kind: access.operations(kind, name) for kind in Kind}


def none_but(**given: int) -> dict[Kind, int]:
    return {kind: given.get(kind.name, NO_OPERATION) for kind in Kind}


def test_without_a_rule_everything_is_allowed() -> None:
    assert of(Access()) == dict(ALL)


@pytest.mark.parametrize(
    ("access", "given"),
    [
        (Access(topics=("mine",)), none_but(TOPIC=READING | WRITES)),
        (Access(written_topics=("mine",)), none_but(TOPIC=WRITES)),
        (Access(groups=("mine",)), none_but(GROUP=ALL[GROUP])),
        (Access(transactional_ids=("mine",)), none_but(TRANSACTIONAL_ID=ALL[ID])),
        (Access(denies_unnamed=True), none_but()),
        (Access(topics=("mine",), is_read_only=True), none_but(TOPIC=READING)),
        (Access(groups=("mine",), is_read_only=True), none_but(TOPIC=READING, GROUP=READING)),
        (Access(denies_unnamed=True, is_read_only=True), none_but(TOPIC=READING)),
    ],
)
def test_a_rule_denies_the_kinds_that_it_does_not_name(
    access: Access, given: dict[Kind, int]
) -> None:
    assert of(access) == given


@pytest.mark.parametrize("field", ["topics", "written_topics", "groups", "transactional_ids"])
def test_a_list_gives_nothing_but_what_it_names(field: str) -> None:
    access = Access(**{field: ("mine", "also-*")})  # type: ignore[arg-type]
    assert of(access, "other") == none_but()
    assert of(access, "also-this") == of(access, "mine") != none_but()


def test_a_read_only_client_reads_all_topics_and_describes_everything_else() -> None:
    assert of(READER) == {
        TOPIC: READING,
        GROUP: LOOKING,
        ID: operations.DESCRIBE,
        CLUSTER: LOOKING,
    }


def test_a_read_only_client_commits_to_the_groups_of_a_list() -> None:
    own = Access(is_read_only=True, groups=("mine",))
    assert own.operations(GROUP, "mine") & READ
    assert not own.operations(GROUP, "mine") & operations.DELETE
    assert own.operations(GROUP, "other") == NO_OPERATION


def test_written_topics_are_those_of_the_topics_that_may_be_read() -> None:
    access = Access(topics=("a*",), written_topics=("*1", "b"))
    assert access.operations(TOPIC, "a1") == READING | WRITES
    assert access.operations(TOPIC, "a2") == READING
    assert access.operations(TOPIC, "b") == NO_OPERATION


def test_a_client_that_may_only_write_may_know_of_the_topic() -> None:
    access = Access(written_topics=("in",))
    assert access.allows("in")
    assert not access.operations(TOPIC, "in") & READ


def test_a_client_that_may_write_to_some_topic_may_be_an_idempotent_producer() -> None:
    for access in (Access(), Access(topics=("a",)), Access(written_topics=("a",))):
        assert access.writes_somewhere
    for access in (READER, Access(groups=("a",)), Access(denies_unnamed=True)):
        assert not access.writes_somewhere


def test_operations_are_kafkas_bits() -> None:
    assert {kind: operations.SHOWN[kind] for kind in (TOPIC, GROUP, CLUSTER)} == {
        TOPIC: 3576,
        GROUP: 328,
        CLUSTER: 8096,
    }
    assert (READ, WRITE) == (8, 16)


@pytest.mark.parametrize(
    ("address", "is_admitted"),
    [
        ("10.1.2.3", True),
        ("10.2.0.0", False),
        ("::ffff:10.1.2.3", True),  # how a socket for both families names it
        ("::ffff:10.2.0.0", False),
        ("fe80::7%eth0", True),
        ("fe81::7", False),
    ],
)
def test_an_address_is_one_however_a_socket_names_it(address: str, is_admitted: bool) -> None:
    networks = tuple(map(parse_network, ("10.1.0.0/16", "fe80::/16")))
    assert Access(networks=networks).admits(address) is is_admitted
    assert Access().admits(address)
