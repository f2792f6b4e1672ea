"""The audit: logins and refusals in a separate file, as lines of JSON."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import GroupAuthorizationFailedError, KafkaError

from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.gateway.serving import Wire

from .gateways import Running, gateway
from .running import Command, one_line


@pytest.mark.parametrize("workers", [1, 2])
def test_a_login_and_a_refusal_are_lines_of_the_audit(
    port: int, tmp_path: Path, workers: int
) -> None:
    users, audit = tmp_path / "users", tmp_path / "audit.json"
    users.write_text("ann:secret\n")
    audit.write_text('{"event": "before"}\n')
    settings = tmp_path / "gateway.toml"
    settings.write_text(f'users_file = "{users}"\naudit = "{audit}"\n')
    with gateway(port, "--config", settings, "--workers", workers, "--quiet") as running:
        running.ready()
        for password in ("secret", "wrong"):
            with Wire(running.address) as client:
                client.ask(ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"))
                token = f"\0ann\0{password}".encode()
                client.ask(ApiKey.SaslAuthenticate, 0, Message(auth_bytes=token))
        code, output = running.end()
    assert code == 0
    assert "has logged in" not in output
    before, *lines = map(json.loads, audit.read_text().splitlines())
    assert before == {"event": "before"}  # it is appended to
    lines.sort(key=lambda line: str(line["event"]))
    found = [(one["event"], one["client"], one["principal"]) for one in lines]
    assert found == [("logged_in", "127.0.0.1", "ann"), ("refused", "127.0.0.1", "")]
    assert lines[1]["claimed"] == "ann"
    assert all("secret" not in json.dumps(line) for line in lines)
    assert len({one["connection"] for one in lines}) == 2


def test_an_audit_that_cannot_be_written_is_an_error_at_the_start(
    command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "missing" / "audit.json"
    ran = command("gateway", "--bootstrap", "127.0.0.1:1", "--audit", file)
    assert ran.code == 2
    assert f"--audit {file}: No such file or directory" in one_line(ran.err)


RULES = """
users_file = "{users}"
audit = "{audit}"

[[clients]]
user = "root"
super_user = true

[[clients]]
user = "ann"
topics = ["mine-*"]
groups = ["mine-*"]
"""


class Audited:
    """A gateway with an administrator, a client with few rights, and an audit."""

    def __init__(self, running: Running, audit: Path) -> None:
        self.running = running
        self._audit = audit

    def options(self, user: str) -> dict[str, object]:
        return {
            "bootstrap_servers": str(self.running.address),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": user,
            "sasl_plain_password": "secret",
        }

    def lines(self, event: str) -> list[dict[str, Any]]:
        lines = map(json.loads, self._audit.read_text().splitlines())
        return [one for one in lines if one["event"] == event]


@pytest.fixture
def audited(port: int, tmp_path: Path) -> Iterator[Audited]:
    users, audit, settings = (tmp_path / one for one in ("users", "audit.json", "gateway.toml"))
    users.write_text("root:secret\nann:secret\n")
    settings.write_text(RULES.format(users=users, audit=audit))
    with gateway(port, "--config", settings, "--quiet") as running:
        running.ready()
        yield Audited(running, audit)


def test_the_audit_has_what_a_real_client_creates_alters_and_deletes(audited: Audited) -> None:
    admin = KafkaAdminClient(**audited.options("root"))
    try:
        admin.create_topics([NewTopic("made", 1, 1)], validate_only=True)
        admin.create_topics([NewTopic("made", 1, 1)])
        with suppress(KafkaError):
            admin.create_topics([NewTopic("made", 1, 1)])
        admin.create_partitions({"made": NewPartitions(2)})
        topic = ConfigResource(ConfigResourceType.TOPIC, "made", {"retention.ms": "1234567"})
        admin.alter_configs([topic])
        with suppress(KafkaError):
            admin.delete_groups(["some-group"])
        admin.delete_topics(["made"])
    finally:
        admin.close()
    lines = audited.lines("changed")
    entries = [
        (one["api"], *(one["resources"][0][key] for key in ("kind", "name", "error")))
        for one in lines
    ]
    assert entries == [
        ("CreateTopics", "topic", "made", "NONE"),
        ("CreateTopics", "topic", "made", "NONE"),
        ("CreateTopics", "topic", "made", "TOPIC_ALREADY_EXISTS"),
        ("CreatePartitions", "topic", "made", "NONE"),
        (lines[4]["api"], "topic", "made", "NONE"),
        ("DeleteGroups", "group", "some-group", lines[5]["resources"][0]["error"]),
        ("DeleteTopics", "topic", "made", "NONE"),
    ]
    assert lines[4]["api"] in ("AlterConfigs", "IncrementalAlterConfigs")
    assert lines[4]["resources"][0]["settings"] == ["retention.ms"]
    assert lines[5]["resources"][0]["error"] in ("GROUP_ID_NOT_FOUND", "NONE")
    assert "1234567" not in json.dumps(lines)
    assert [one.get("validate_only", False) for one in lines] == [True, *[False] * 6]
    assert {one["principal"] for one in lines} == {"root"}
    assert {one["rule"] for one in lines} == {1}
    assert all(one["client"] == "127.0.0.1" and one["connection"] for one in lines)


def test_old_versions_of_requests_are_in_the_audit_too(audited: Audited) -> None:
    with Wire(audited.running.address) as client:
        client.ask(ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"))
        client.ask(ApiKey.SaslAuthenticate, 0, Message(auth_bytes=b"\0root\0secret"))
        topic = Message(
            name="old", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        response = client.ask(ApiKey.CreateTopics, 0, Message(topics=[topic], timeout_ms=1000))
        assert response.topics[0].error_code == 0
    (line,) = audited.lines("changed")
    assert line["resources"] == [{"kind": "topic", "name": "old", "error": "NONE"}]


def test_the_audit_has_what_a_real_client_is_denied(audited: Audited) -> None:
    admin = KafkaAdminClient(**audited.options("ann"))
    try:
        with suppress(KafkaError):
            admin.create_topics([NewTopic("others", 1, 1)])
    finally:
        admin.close()
    consumer = KafkaConsumer(group_id="others", **audited.options("ann"))
    try:
        with pytest.raises(GroupAuthorizationFailedError):
            consumer.committed(TopicPartition("mine-1", 0))
    finally:
        consumer.close()
    lines = audited.lines("denied")
    assert {one["principal"] for one in lines} == {"ann"}
    assert {one["rule"] for one in lines} == {2}
    named = {
        (one["api"], each["kind"], each["name"], each["error"])
        for one in lines
        for each in one["resources"]
    }
    assert ("CreateTopics", "topic", "others", "TOPIC_AUTHORIZATION_FAILED") in named
    group = [one for one in named if one[1:] == ("group", "others", "GROUP_AUTHORIZATION_FAILED")]
    assert group
