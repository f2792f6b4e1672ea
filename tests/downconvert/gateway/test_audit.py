"""Which lines the audit has for a response."""

import logging
from typing import Any

import pytest

from downconvert.broker import ErrorCode
from downconvert.gateway.audit import AUDIT, Audit
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.line_budget import LineBudget

WHO = {"client": "10.0.0.7", "principal": "User:ann"}
DENIED, UNKNOWN = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def audit(caplog: pytest.LogCaptureFixture) -> Audit:
    caplog.set_level(logging.INFO, logger=AUDIT.name)
    return Audit(LineBudget(), lambda: 0.0)


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The fields of each line."""
    return [record.__dict__["fields"] for record in caplog.records]


def deletion(*codes: ErrorCode) -> tuple[Message, Message]:
    """A request that deletes topics, and its response."""
    names = [f"t{number}" for number in range(len(codes))]
    body = Message(topic_names=names, topics=[], timeout_ms=1)
    found = [
        Message(name=name, topic_id=bytes(16), error_code=code, error_message=None)
        for name, code in zip(names, codes, strict=True)
    ]
    return body, Message(responses=found)


def test_a_response_with_a_denial_among_other_errors_is_in_it(
    audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    body, response = deletion(DENIED, UNKNOWN)
    audit.answered(WHO, ApiKey.DeleteTopics, body, response, {DENIED: 1, UNKNOWN: 1})
    denied, changed = lines(caplog)
    assert denied == {
        "event": "denied",
        **WHO,
        "api": "DeleteTopics",
        "resources": [{"kind": "topic", "name": "t0", "error": "TOPIC_AUTHORIZATION_FAILED"}],
    }
    assert (changed["event"], len(changed["resources"])) == ("changed", 2)


def test_other_errors_are_no_denial(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    body, response = deletion(UNKNOWN)
    audit.answered(WHO, ApiKey.DeleteTopics, body, response, {UNKNOWN: 1})
    assert [line["event"] for line in lines(caplog)] == ["changed"]


def test_a_denied_change_that_was_not_read_is_a_denial_only(
    audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    _, response = deletion(DENIED)
    audit.answered(WHO, ApiKey.DeleteTopics, None, response, {DENIED: 1})
    assert [line["event"] for line in lines(caplog)] == ["denied"]


@pytest.mark.parametrize("validate_only", [True, False])
def test_a_check_is_distinguished_from_a_change(
    audit: Audit, caplog: pytest.LogCaptureFixture, validate_only: bool
) -> None:
    topic = Message(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    body = Message(topics=[topic], timeout_ms=1, validate_only=validate_only)
    response = Message(topics=[Message(name="t", error_code=0, error_message=None)])
    audit.answered(WHO, ApiKey.CreateTopics, body, response, {})
    (line,) = lines(caplog)
    assert line.get("validate_only", False) == validate_only
