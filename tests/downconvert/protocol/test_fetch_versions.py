"""Each version of Fetch has its features."""

import pytest

from downconvert.protocol import fetch_versions
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.fetch_versions import NEWER_CODES, known_code, magic_of, served_to
from downconvert.protocol.schemas import schema

OLDEST_KNOW = range(ErrorCode.TOPIC_AUTHORIZATION_FAILED)  # errors of Kafka 0.8


@pytest.mark.parametrize(
    ("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, None), (17, None)]
)
def test_a_version_says_which_format_its_clients_read(version: int, magic: int | None) -> None:
    assert magic_of(version) == magic


@pytest.mark.parametrize(
    ("feature", "message", "field"),
    [
        ("FIRST_BATCH_WHOLE_SINCE", "Request", "max_bytes"),  # both came with KIP-74
        ("AS_ON_DISK_SINCE", "Request", "isolation_level"),  # and both with KIP-98
        ("SESSIONS_SINCE", "Request", "session_id"),
        ("FOLLOWERS_SERVE_SINCE", "Request", "rack_id"),
        ("REPLICA_STATE_SINCE", "Request", "replica_state"),
        ("LEADERS_TOLD_SINCE", "Response", "node_endpoints"),
    ],
)
def test_a_feature_came_with_its_field(feature: str, message: str, field: str) -> None:
    """In Kafka's definitions."""
    fields = {one.name: one for one in schema(f"Fetch{message}").fields}
    assert getattr(fetch_versions, feature) == fields[field].versions.start


def test_zstd_came_with_a_version_without_a_new_field() -> None:
    """With version 10 [KIP-110]."""
    assert fetch_versions.ZSTD_SINCE == 10


def test_topic_ids_and_flexible_fields_came_with_their_versions() -> None:
    request = schema("FetchRequest")
    (topics,) = (one for one in request.fields if one.name == "topics")
    (topic_id,) = (one for one in topics.fields if one.name == "topic_id")
    assert topic_id.versions.start == fetch_versions.TOPIC_IDS_SINCE
    assert request.flexible.start == fetch_versions.FLEXIBLE_SINCE
    assert served_to("2.12.1-rdkafka-2.12.1", range(4, 18)) == range(4, 12)
    assert served_to("apache-kafka-java", range(4, 18)) == range(4, 18)


@pytest.mark.parametrize(
    ("code", "version", "known"),
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, 5, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.KAFKA_STORAGE_ERROR, 6, ErrorCode.KAFKA_STORAGE_ERROR),
        (ErrorCode.FENCED_LEADER_EPOCH, 8, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.FENCED_LEADER_EPOCH, 9, ErrorCode.FENCED_LEADER_EPOCH),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, 8, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, 9, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (ErrorCode.OFFSET_NOT_AVAILABLE, 8, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.OFFSET_NOT_AVAILABLE, 9, ErrorCode.OFFSET_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_ID, 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.UNKNOWN_TOPIC_ID, 13, ErrorCode.UNKNOWN_TOPIC_ID),
        (ErrorCode.INCONSISTENT_TOPIC_ID, 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.INCONSISTENT_TOPIC_ID, 13, ErrorCode.INCONSISTENT_TOPIC_ID),
        (ErrorCode.CORRUPT_MESSAGE, 0, ErrorCode.CORRUPT_MESSAGE),
        (12345, 0, 12345),  # of a cluster that is newer than this
    ],
)
def test_codes_are_said_as_the_clients_version_knows_them(
    code: int, version: int, known: int
) -> None:
    assert known_code(code, version) == known


def test_the_oldest_clients_get_codes_that_they_know() -> None:
    assert all(known_code(code, 0) in OLDEST_KNOW for code in NEWER_CODES)
