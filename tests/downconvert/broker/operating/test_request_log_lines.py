"""Each line of the log about clients: when there is one, at which level, and what it says."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from downconvert.broker.endings import End
from downconvert.broker.exchange import Client
from downconvert.broker.operating.request_log import log_end, log_response
from downconvert.protocol.errors import ErrorCode
from downconvert.serving.line_budget import LINES_MAX, LineBudget

NAME = "downconvert.broker.operating.request_log"
NOW = 5000.0
REFUSED = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.SASL_AUTHENTICATION_FAILED,
    ErrorCode.POLICY_VIOLATION,
)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger=NAME)
    return caplog


def client(**fields: Any) -> Client:
    return Client(7, "10.0.0.1", client_id="app", requests=3, **fields)


def answered(who: Client, *codes: int, api: str = "Fetch", **counts: int) -> None:
    """A request of that kind was answered with these errors."""
    exchange: Any = SimpleNamespace(
        client=who,
        request=SimpleNamespace(name=api, version=4),
        errors=dict.fromkeys(codes, counts.get("times", 1)),
        received=NOW - 0.25,
        now=NOW - 0.1,
        send=None,
        converted=(),
    )
    log_response(exchange, NOW)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    found: dict[str, Any] = vars(record)["fields"]
    return found


@pytest.mark.parametrize("end", End)
def test_an_end_that_an_operator_has_to_see_is_a_warning(
    log: pytest.LogCaptureFixture, end: End
) -> None:
    log_end(LineBudget(), client(), end, "the reason", 12.3456, NOW)
    (record,) = log.records
    is_warned = end in (End.LOGIN, End.RESPONSE, End.DEFECT)
    assert record.levelno == (logging.WARNING if is_warned else logging.INFO)
    assert fields_of(record) == {
        "client": "10.0.0.1",
        "client_id": "app",
        "software": "",
        "user": None,
        "claimed": "",
        "reason": end.value,
        "requests": 3,
        "seconds": 12.346,
    }
    said = f"client 10.0.0.1: the reason [{end.value} after 3 requests in 12.3 s, client id 'app', "
    assert record.getMessage() == f"{said}unknown software]"


def test_warnings_are_few_and_other_ends_are_all_there(log: pytest.LogCaptureFixture) -> None:
    lines = LineBudget()
    for _ in range(LINES_MAX + 5):
        log_end(lines, client(), End.LOGIN, "wrong password", 1.0, NOW)
        log_end(lines, client(), End.CLIENT, "the client closed the connection", 1.0, NOW)
    levels = [record.levelno for record in log.records]
    assert levels.count(logging.WARNING) == LINES_MAX
    assert levels.count(logging.INFO) == LINES_MAX + 5
    lines.write_omitted(NOW + 1)
    assert "and 5 more" in log.records[-1].getMessage()


@pytest.mark.parametrize(
    ("who", "user"),
    [
        ({"principal": "ann"}, "ann"),
        ({"certificate": "bob"}, "bob"),
        ({"rule": 2}, "rule 2"),
        ({}, None),
    ],
)
def test_a_line_names_the_client(
    log: pytest.LogCaptureFixture, who: dict[str, Any], user: str | None
) -> None:
    one = client(software_name="kafka-" + "x" * 200, software_version="1.2", **who)
    one.client_id = "i" * 200
    log_end(LineBudget(), one, End.CLIENT, "the client closed the connection", 1.0, NOW)
    one.software_name = "librdkafka"
    log_end(LineBudget(), one, End.CLIENT, "the client closed the connection", 1.0, NOW)
    first, second = (fields_of(record) for record in log.records)
    assert (len(first["client_id"]), len(first["software"])) == (128, 128)
    assert second["software"] == "librdkafka 1.2"
    assert first["user"] == second["user"] == user


@pytest.mark.parametrize("code", REFUSED)
def test_each_refusal_is_a_line_once_for_a_connection_and_a_kind_of_request(
    log: pytest.LogCaptureFixture, code: ErrorCode
) -> None:
    other = next(one for one in REFUSED if one is not code)
    one = client()
    for _ in range(2):
        answered(one, code, times=2)
        answered(one, other)
        answered(one, code, other)
    assert len(log.records) == 2
    first = log.records[0]
    assert first.levelno == logging.INFO
    assert first.getMessage() == (
        f"client 10.0.0.1: Fetch v4 is refused: {code.name} "
        f"[250.0 ms, client id 'app', {code.name} 2 times]"
    )
    assert fields_of(first)["seconds"] == 0.25
    assert fields_of(first)["errors"] == {code.name: 2}
    answered(one, code, api="Produce")
    answered(client(), code)
    assert len(log.records) == 4


def test_other_errors_and_good_responses_are_lines_only_with_debug(
    log: pytest.LogCaptureFixture,
) -> None:
    codes = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    for code in codes:
        answered(client(), code)
    answered(client())
    assert log.records == []
    log.set_level(logging.DEBUG, logger=NAME)
    answered(client(), *codes, times=4)
    answered(client())
    assert [record.levelno for record in log.records] == [logging.DEBUG] * 2
    assert "is answered [250.0 ms" in log.records[1].getMessage()
    assert "NOT_LEADER_OR_FOLLOWER 4 times" in log.records[0].getMessage()
