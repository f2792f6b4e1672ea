"""Operations are Kafka's bits, and rules combine them as its authorizer does."""

from downconvert.access import operations as ours
from downconvert.access.operations import Kind

# org.apache.kafka.common.acl.AclOperation
CODES = {
    "READ": 3,
    "WRITE": 4,
    "CREATE": 5,
    "DELETE": 6,
    "ALTER": 7,
    "DESCRIBE": 8,
    "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11,
    "IDEMPOTENT_WRITE": 12,
    "TWO_PHASE_COMMIT": 15,
}
# org.apache.kafka.security.authorizer.AclEntry.supportedOperations, and what came in 4.0.
SUPPORTED = {
    Kind.TOPIC: "READ WRITE CREATE DESCRIBE DELETE ALTER DESCRIBE_CONFIGS ALTER_CONFIGS",
    Kind.GROUP: "READ DESCRIBE DELETE DESCRIBE_CONFIGS ALTER_CONFIGS",
    Kind.TRANSACTIONAL_ID: "DESCRIBE WRITE TWO_PHASE_COMMIT",
    Kind.CLUSTER: "CREATE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE ALTER"
    " DESCRIBE",
}
# A read-only client changes nothing but the offsets of its own groups.
READERS = {
    Kind.TOPIC: "READ DESCRIBE DESCRIBE_CONFIGS",
    Kind.GROUP: "READ DESCRIBE DESCRIBE_CONFIGS",
    Kind.TRANSACTIONAL_ID: "DESCRIBE",
    Kind.CLUSTER: "DESCRIBE DESCRIBE_CONFIGS",
}
# org.apache.kafka.common.protocol.Errors
REFUSED_WITH = {
    Kind.TOPIC: 29,
    Kind.GROUP: 30,
    Kind.CLUSTER: 31,
    Kind.TRANSACTIONAL_ID: 53,
}


def bits(names: str) -> int:
    return sum(1 << CODES[name] for name in names.split())


def test_an_operation_is_the_bit_of_its_number_in_kafka() -> None:
    assert {name: getattr(ours, name) for name in CODES} == {
        name: 1 << code for name, code in CODES.items()
    }


def test_each_kind_of_resource_has_kafkas_operations() -> None:
    assert dict(ours.ALL) == {kind: bits(names) for kind, names in SUPPORTED.items()}


def test_a_group_shows_the_operations_of_kafka_3_9() -> None:
    assert {**ours.ALL, Kind.GROUP: bits("READ DESCRIBE DELETE")} == ours.SHOWN


def test_a_read_only_client_may_do_nothing_that_changes_a_resource() -> None:
    assert dict(ours.OF_READERS) == {kind: bits(names) for kind, names in READERS.items()}


def test_each_kind_has_the_error_of_its_own() -> None:
    assert {kind: kind.value for kind in Kind} == REFUSED_WITH


def test_a_client_that_did_not_ask_gets_the_number_for_that() -> None:
    assert ours.NOT_ASKED == -(2**31)
    assert ours.NO_OPERATION == 0
