"""Error codes have Kafka's numbers and names."""

import inspect

import pytest
from kafka import errors as others

from downconvert.protocol.errors import ApiError, ErrorCode, name_of

# kafka-python's own names for some.
CALLED = {
    "UNKNOWN": "UNKNOWN_SERVER_ERROR",
    "NO_ERROR": "NONE",
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "MESSAGE_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION",
    "INVALID_REPLICATION_ASSIGNMENT": "INVALID_REPLICA_ASSIGNMENT",
}
NAMES = {
    one.errno: CALLED.get(one.message, one.message)
    for one in vars(others).values()
    if inspect.isclass(one) and getattr(one, "errno", None) is not None
}


@pytest.mark.parametrize("code", ErrorCode)
def test_a_code_has_the_number_that_kafka_gives_its_name(code: ErrorCode) -> None:
    assert NAMES[code.value] == code.name


def test_a_log_shows_the_name_of_a_code_or_its_number() -> None:
    assert name_of(29) == "TOPIC_AUTHORIZATION_FAILED"
    assert name_of(-1) == "UNKNOWN_SERVER_ERROR"
    assert name_of(0) == "NONE"
    assert name_of(11) == "11"


def test_an_error_without_words_is_called_by_its_name_and_sends_no_message() -> None:
    bare = ApiError(ErrorCode.INVALID_REQUEST)
    assert (str(bare), bare.message) == ("INVALID_REQUEST", None)
    error = ApiError(ErrorCode.INVALID_CONFIG, "no such setting")
    assert (str(error), error.message, error.code) == ("no such setting", "no such setting", 40)
