"""Committed offsets, groups and transactional ids are those that Kafka's own tools show of a broker
that runs: `kafka-consumer-groups --describe` and `kafka-transactions describe`."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from tests import kafka_server
from tests.fetching import once
from tests.fetching import run as fetch

from .reading import rows

pytestmark = pytest.mark.others

TOPIC: Final = "events"
GROUPS_COMMAND: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TRANSACTIONS_COMMAND: Final = "org.apache.kafka.tools.TransactionsCommand"
TRIES: Final = 5
ASSIGNED_SECONDS: Final = 60.0  # after which a consumer of this group is given up
PATIENCE_MS: Final = 600_000  # what is open stays so, however long the tools take
QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"

Tool = Callable[..., list[list[str]]]


def tools(bootstrap: str) -> Tool:
    """Runs one of Kafka's tools; returns the words of its lines. Those of one version ask brokers
    of any."""
    version = kafka_server.OLD
    classes = kafka_server.prepare(version)
    target = kafka_server.BUILD / f"kafka-tools-{version}"
    jar = target / f"kafka-tools-{version}.jar"
    with once(target) as new:
        if new:
            artifact = f"-Dartifact=org.apache.kafka:kafka-tools:{version}"
            fetch("mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={new}")

    def run(name: str, *arguments: str) -> list[list[str]]:
        command = ("java", *kafka_server.QUICK, QUIET, "-cp", f"{jar}:{classes}", name)
        for _ in range(TRIES):
            done = subprocess.run(
                (*command, "--bootstrap-server", bootstrap, *arguments),
                capture_output=True,
                text=True,
                check=False,
                timeout=240,
            )
            output = done.stdout + done.stderr
            if "Timed out" not in output:  # its own patience ends early on a busy machine
                break
        assert done.returncode == 0, output[:4000]
        assert not done.stdout.startswith("\nError:"), output[:4000]
        return [line.split() for line in done.stdout.splitlines() if line.strip()]

    return run


def commit(address: str, group: str, metadata: str = "", *, offset: int) -> Any:
    """A member of a group, which has committed something of partition 0. A consumer of kafka-python
    may look for its coordinator for ever: then another one takes its place."""
    while True:
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=address,
            group_id=group,
            enable_auto_commit=False,
            session_timeout_ms=PATIENCE_MS,
            max_poll_interval_ms=PATIENCE_MS,
        )
        give_up = time.monotonic() + ASSIGNED_SECONDS
        while time.monotonic() < give_up:
            consumer.poll(timeout_ms=100)
            if consumer.assignment():
                offsets = {TopicPartition(TOPIC, 0): OffsetAndMetadata(offset, metadata, -1)}
                consumer.commit(offsets)
                return consumer
        consumer.close(timeout_ms=1000)


def transact(address: str, name: str, offset: int, *, end: str) -> Any:
    producer = KafkaProducer(
        bootstrap_servers=address, transactional_id=name, transaction_timeout_ms=PATIENCE_MS
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(TOPIC, b"sent", partition=1)
    offsets = {TopicPartition(TOPIC, 1): OffsetAndMetadata(offset, "", -1)}
    producer.send_offsets_to_transaction(offsets, "copies")
    producer.flush()
    if end == "commit":
        producer.commit_transaction()
    elif end == "abort":
        producer.abort_transaction()
    return producer


@pytest.mark.parametrize(
    "version", [pytest.param(kafka_server.OLD, marks=pytest.mark.more), kafka_server.NEW]
)
def test_state_tables_have_what_kafkas_tools_show(version: str, tmp_path: Path) -> None:
    properties = {"broker.session.timeout.ms": "60000"}  # fenced ones are not asked
    with kafka_server.running(version, log_dir=tmp_path / "logs", properties=properties) as kafka:
        kafka.create_topic(TOPIC, partitions=2)
        with KafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
            for number in range(20):
                producer.send(TOPIC, b"%d" % number, partition=number % 2)
        open_clients = [transact(kafka.bootstrap, "one", 1, end="commit")]
        open_clients.append(transact(kafka.bootstrap, "two", 2, end="abort"))
        open_clients.append(transact(kafka.bootstrap, "open", 3, end=""))
        open_clients.append(commit(kafka.bootstrap, "stable", "said", offset=4))
        commit(kafka.bootstrap, "empty", offset=5).close()
        tool = tools(kafka.bootstrap)
        patient = ("--describe", "--all-groups", "--timeout", "120000")
        described = tool(GROUPS_COMMAND, *patient)
        states = tool(GROUPS_COMMAND, *patient, "--state")
        listed = tool(TRANSACTIONS_COMMAND, "list")
        of_open = tool(TRANSACTIONS_COMMAND, "describe", "--transactional-id", "open")
        logs = tmp_path / "logs"
        offsets, groups = rows(logs, level="offset"), rows(logs, level="group")
        transactions = rows(logs, level="transaction")
        for client in open_clients:
            client.close(timeout=0) if isinstance(client, KafkaProducer) else client.close()
    theirs = {
        (words[0], words[1], int(words[2]), int(words[3]))
        for words in described
        if len(words) > 3 and words[3].isdigit()
    }
    assert len(theirs) >= 3, described
    assert {(r["group"], r["topic"], r["partition"], r["offset"]) for r in offsets} == theirs
    assert [r["metadata"] for r in offsets if r["group"] == "stable"] == ["said"]
    assert all(row["commitTimestamp"] for row in offsets)
    kinds = {row["group"]: row["type"] for row in groups}
    members = {row["group"]: len(row["members"]) for row in groups if row["type"] == "classic"}
    assert members["stable"] == 1
    assert members["empty"] == 0
    assert {words[0] for words in states if words[-1].isdigit()} <= kinds.keys() | {"copies"}
    in_list = {(words[0], int(words[2]), words[3]) for words in listed if words[2].isdigit()}
    assert len(in_list) == 3
    ours = {(r["transactionalId"], r["producerId"], r["state"]) for r in transactions}
    assert ours == in_list
    (found,) = [r for r in transactions if r["transactionalId"] == "open"]
    (words,) = [words for words in of_open if "open" in words]
    assert [str(found["producerId"]), str(found["producerEpoch"]), found["state"]] == words[2:5]
    assert found["timeoutMs"] == int(words[5])
    shown = {f"{one['topic']}-{one['partition']}" for one in found["partitions"]}
    assert shown == {part for word in words[8:] for part in word.split(",")}
