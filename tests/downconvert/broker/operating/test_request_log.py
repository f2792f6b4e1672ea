"""The log has each connection's end, each refusal, and with DEBUG each request."""

import logging
from pathlib import Path
from typing import Any

import pytest

from downconvert.access.guard import Guard
from downconvert.access.identity import ClientRule, Identities, Users
from downconvert.access.rights import Access
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.limits import Limits
from tests.downconvert.broker.talking import Talk, fetch, serving
from tests.waiting import wait_for

NAME = "downconvert.broker.operating.request_log"


def fields(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record)["fields"] for record in caplog.records if record.name == NAME]


def ended(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [one for one in fields(caplog) if "reason" in one]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger=NAME)
    return caplog


def test_each_connections_end_is_a_line_that_says_why(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path, limits=Limits(connections=2, request=0.1)) as server:
        with Talk(server.address) as talk, Talk(server.address) as other:
            talk.ask(ApiKey.Metadata, 1, Message(topics=[]))
            other.ask(ApiKey.Metadata, 1, Message(topics=[]))
            with Talk(server.address) as third:
                assert third.has_ended()
            other.socket.sendall(bytes(2))  # half of a length
            assert other.has_ended()
        wait_for(lambda: len(fields(log)) == 3)
        last = Talk(server.address)
        assert last.is_served()
    last.socket.close()
    ends = fields(log)
    assert [one["reason"] for one in ends] == [
        "refused",
        "timed_out",
        "client_closed",
        "server_stopped",
    ]
    assert [one["requests"] for one in ends] == [0, 1, 1, 1]
    assert ends[2]["client_id"] == "test"
    assert ends[2]["client"] == "127.0.0.1"
    assert "[client_closed after 1 requests in " in log.text


def test_each_end_says_who_the_client_was_or_claimed_to_be(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path) as server:
        rules = (
            ClientRule(access=Access(), credentials=None, user="ann"),
            ClientRule(access=Access(), credentials=None),
        )
        identities = Identities(users=Users({"ann": "secret"}), rules=rules)
        server.broker.guard = Guard(identities=identities)
        for number, password in enumerate(("secret", "wrong", None), start=1):
            with Talk(server.address) as talk:
                if password is not None:
                    talk.ask(ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"))
                    token = f"\0ann\0{password}".encode()
                    talk.ask(ApiKey.SaslAuthenticate, 0, Message(auth_bytes=token))
                if password != "wrong":
                    talk.ask(ApiKey.Metadata, 1, Message(topics=[]))
            wait_for(lambda number=number: len(ended(log)) == number)
    ends = ended(log)
    assert [one["user"] for one in ends] == ["User:ann", None, "rule 2"]
    assert [one["claimed"] for one in ends] == ["ann", "ann", ""]
    for said in ("principal 'User:ann'", "claims to be 'ann'", "principal 'rule 2'"):
        assert said in log.text


def test_a_refusal_is_one_line_for_each_kind_and_connection(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    topic = Message(name="new", num_partitions=1, replication_factor=1)
    with serving(tmp_path) as server, Talk(server.address) as talk:
        for _ in range(3):
            talk.ask(ApiKey.CreateTopics, 0, Message(topics=[topic], timeout_ms=0))
        talk.ask(ApiKey.DeleteTopics, 1, Message(topic_names=["new"], timeout_ms=0))
        wait_for(lambda: len(fields(log)) == 2)
    refused = [one for one in fields(log) if "api" in one]
    assert [(one["api"], one["errors"]) for one in refused] == [
        ("CreateTopics", {"CLUSTER_AUTHORIZATION_FAILED": 1}),
        ("DeleteTopics", {"TOPIC_AUTHORIZATION_FAILED": 1}),
    ]
    assert "CreateTopics v0 is refused: CLUSTER_AUTHORIZATION_FAILED" in log.text
    assert {one.levelno for one in log.records if "is refused" in one.message} == {logging.INFO}


def test_each_request_is_a_line_with_debug(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    log.set_level(logging.DEBUG, logger=NAME)
    with serving(tmp_path) as server, Talk(server.address) as talk:
        talk.ask(ApiKey.Fetch, 0, fetch())
        wait_for(lambda: len(fields(log)) == 1)
    (one, _) = fields(log)
    assert (one["api"], one["version"], one["client_id"]) == ("Fetch", 0, "test")
    assert one["records_converted"] == 30
    assert "30 records converted" in log.text
    assert {one.levelno for one in log.records if "is answered" in one.message} == {logging.DEBUG}


def test_a_defect_is_a_line_with_its_trace_and_one_for_the_end(
    tmp_path: Path, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a defect")

    with serving(tmp_path) as server, Talk(server.address) as talk:
        monkeypatch.setattr(server.broker, "handle", fail)
        talk.send(ApiKey.Metadata, 1, Message(topics=[]))
        assert talk.has_ended()
        wait_for(lambda: bool(fields(log)))
    assert [one["reason"] for one in fields(log)] == ["defect"]
    assert any(record.exc_info for record in log.records)
