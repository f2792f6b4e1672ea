"""Each version of Fetch has its features."""

import pytest

from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.fetch_versions import NEWER_CODES, known_code, magic_of

OLDEST_KNOW = range(ErrorCode.TOPIC_AUTHORIZATION_FAILED)  # errors of Kafka 0.8


@pytest.mark.parametrize(
    ("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, None), (17, None)]
)
def test_a_version_says_which_format_its_clients_read(version: int, magic: int | None) -> None:
    assert magic_of(version) == magic


@pytest.mark.parametrize(
    ("code", "version", "known"),
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, 5, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.KAFKA_STORAGE_ERROR, 6, ErrorCode.KAFKA_STORAGE_ERROR),
        (ErrorCode.FENCED_LEADER_EPOCH, 3, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.OFFSET_NOT_AVAILABLE, 0, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_ID, 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.UNKNOWN_TOPIC_ID, 13, ErrorCode.UNKNOWN_TOPIC_ID),
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
